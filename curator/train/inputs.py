"""Everything that is decided before the first step: records checked, tokenised, packed, audited, and fingerprinted."""

import json
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from curator.chat.audit import audit, stop_ids
from curator.chat.messages import Conversation, conversations
from curator.chat.tokenizer import NO_SUPERVISED_TOKENS, ChatTokenizer
from curator.errors import CuratorError
from curator.io.dataset import Dataset
from curator.io.manifest import digest_bytes, digest_file, first_difference, write_atomic
from curator.mixture.sampler import Order
from curator.schema.record import canonical_json
from curator.train.config import TrainConfig
from curator.train.loader import TOO_LONG, TRAIN, TokenStore, token_folder, tokenise
from curator.train.packing import WINDOW, Packs, pack_order

FINGERPRINT = "fingerprint.json"
PACKS = "packs.parquet"
AUDITED_RECORDS = 256
"""Records whose mask is decoded and compared before the first step, spread over the mixture."""


@dataclass(frozen=True)
class Inputs:
    """What a run is a function of, opened."""

    dataset: Dataset
    order: Order
    chat: ChatTokenizer
    tokens: TokenStore
    packs: Packs
    run_digest: str
    """Stands for config, data, order, packs, tokens and model: what a checkpoint belongs to."""
    digests: dict[str, str]


class RunFolder:
    """A run's folder: new, unfinished or complete; of this run or of another."""

    def __init__(self, out: Path, fingerprint: dict[str, Any]) -> None:
        self.out, self.fingerprint = out, fingerprint

    def claim(self, overwrite: bool = False) -> None:
        """Make the folder this run's own. Raises CuratorError when it is another run's, naming the first difference."""
        if self.out.exists() and not self.out.is_dir():
            raise CuratorError(f"{self.out} is a file", hint="name a folder for --out")
        problem = self._problem()
        if problem and (not overwrite or self._strays()):
            hint = "choose another --out" if self._strays() else "--overwrite replaces it, or choose another --out"
            raise CuratorError(problem, hint=hint)
        if problem:
            _empty(self.out)
        self.out.mkdir(parents=True, exist_ok=True)
        write_atomic(self.out / FINGERPRINT, json.dumps(self.fingerprint, indent=1).encode() + b"\n")

    def _problem(self) -> str | None:
        if not self.out.exists():
            return None
        path = self.out / FINGERPRINT
        if not path.is_file():
            there = self._strays() or sorted(name.name for name in self.out.iterdir() if name.name in _OWN_NAMES)
            return f"{self.out} is not empty and not a run (it holds {there[0]})" if there else None
        try:
            found = json.loads(path.read_bytes())
        except ValueError as error:
            return f"{path} is damaged: {error}"
        difference = first_difference(found, self.fingerprint)
        return f"{self.out} holds a run with other inputs or settings: {difference}" if difference else None

    def _strays(self) -> list[str]:
        """What lies in a folder that no run has claimed and no run would write."""
        if not self.out.exists() or (self.out / FINGERPRINT).exists():
            return []
        names = sorted(entry.name for entry in self.out.iterdir())
        return [name for name in names if name not in _OWN_NAMES and not name.startswith(".")]

    def summary(self) -> dict[str, Any] | None:
        """The summary of a complete run; None when the run is not complete or its files are not those it wrote."""
        try:
            manifest = json.loads((self.out / "manifest.json").read_bytes())
            whole = all((self.out / file["path"]).stat().st_size == file["bytes"] for file in manifest["files"])
        except (OSError, ValueError, KeyError):
            return None
        if not whole:
            return None
        places = {name: str(self.out / path) for name, path in manifest["places"].items()}
        return {**manifest["summary"], "out": str(self.out), **places}


_OWN_NAMES = frozenset(
    [FINGERPRINT, PACKS, "config.yaml", "manifest.json", "metrics.jsonl", "eval.json", "timing.json", "timing.jsonl"]
    + ["checkpoints", "errors", "ledger", "model"]
)
"""What the folder of a run holds: `--overwrite` deletes these and nothing else."""


def _empty(folder: Path) -> None:
    """Delete what a run left; the lock, which the caller holds, and a person's own files stay."""
    for entry in folder.iterdir():
        if entry.name not in _OWN_NAMES:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def fingerprint(dataset: Dataset, order: Order, chat: ChatTokenizer, config: TrainConfig) -> dict[str, Any]:
    """What a run depends on, as JSON: settings (the model by its content, not by its path) and digests of inputs."""
    settings = config.to_json()
    del settings["model"]
    digests = {
        "data": dataset.digest,
        "order": order.digest,
        "tokenizer": chat.digest,
        "model": _model_digest(Path(config.model), config),
    }
    return {"format": "curator.run", "schema_version": 1, "train": settings, "inputs": digests}


def _model_digest(folder: Path, config: TrainConfig) -> str:
    names = ["config.json", "generation_config.json"]
    if config.init != "random":
        names += sorted(path.name for path in folder.glob("*.safetensors"))
        names += sorted(path.name for path in folder.glob("pytorch_model*.bin"))
    present = {name: digest_file(folder / name) for name in names if (folder / name).is_file()}
    return digest_bytes(canonical_json(present))


def check_inputs(mixture: Path, config: TrainConfig) -> tuple[Dataset, Order, ChatTokenizer]:
    """Open a mixture and the model's tokenizer; refuse what training cannot take. Raises CuratorError."""
    dataset, order = Dataset.open(mixture), Order.open(mixture)
    check_kinds(dataset, config)
    return dataset, order, ChatTokenizer.load(config.model)


def prepare(mixture: Path, config: TrainConfig, out: Path) -> None:
    """Check, claim the run folder, tokenise, audit and pack; what is there already is not done again."""
    import yaml

    dataset, order, chat = check_inputs(mixture, config)
    RunFolder(out, fingerprint(dataset, order, chat, config)).claim()
    # The resolved settings, for people; `curator train --config` takes the file.
    write_atomic(out / "config.yaml", yaml.safe_dump(config.to_json(), sort_keys=False).encode())
    tokens = tokenise(dataset, chat, config)
    _audit(dataset, chat, config, tokens)
    notes = _pack_notes(order, tokens, config)
    if Packs.read(out / PACKS, notes) is None:
        packs = pack_order(order, tokens.lengths, config.max_tokens)
        _require_records(mixture, tokens, packs)
        packs.write(out / PACKS, notes)


def open_inputs(mixture: Path, config: TrainConfig, out: Path) -> Inputs:
    """What `prepare` left on disk; any rank may call it, after rank 0 has prepared."""
    dataset, order, chat = Dataset.open(mixture), Order.open(mixture), ChatTokenizer.load(config.model)
    tokens = TokenStore(token_folder(dataset, chat, config))
    packs = Packs.read(out / PACKS, _pack_notes(order, tokens, config))
    assert packs is not None, "prepared packs are gone"
    claimed = json.loads((out / FINGERPRINT).read_bytes())
    digests = {**claimed["inputs"], "tokens": tokens.digest, "packs": packs.digest}
    run_digest = digest_bytes(canonical_json({"train": claimed["train"], "inputs": digests}))
    return Inputs(dataset, order, chat, tokens, packs, run_digest, digests)


def check_kinds(dataset: Dataset, config: TrainConfig) -> None:
    """Refuse kinds of record that supervised fine-tuning cannot take, by name and count. Raises CuratorError."""
    counts: Counter[str] = Counter()
    for batch in dataset.batches(columns=["kind"]):
        counts.update(batch.column("kind").to_pylist())
    allowed = {"sft"} | ({"preference"} if config.use == "chosen" else set())
    refused = {kind: count for kind, count in sorted(counts.items()) if kind not in allowed}
    if not refused:
        return
    listed = ", ".join(f"{count:,} of kind {kind}" for kind, count in refused.items())
    hint = "leave them out of the mixture (kinds: [sft] in the mix spec)"
    if set(refused) == {"preference"}:
        hint = f"set use: chosen to train on the chosen answers, or {hint}"
    raise CuratorError(f"{dataset.path} holds records that training does not take: {listed}", hint=hint)


def _pack_notes(order: Order, tokens: TokenStore, config: TrainConfig) -> dict[str, str]:
    return {
        "order": order.digest,
        "tokens": tokens.digest,
        "max_tokens": str(config.max_tokens),
        "window": str(WINDOW),
    }


def _audit(dataset: Dataset, chat: ChatTokenizer, config: TrainConfig, tokens: TokenStore) -> None:
    """Decode the masks of records spread over the usable rows; refuse to train when one is not its answers."""
    usable = np.flatnonzero(tokens.lengths)
    wanted = np.unique(usable[np.linspace(0, len(usable) - 1, AUDITED_RECORDS).astype(np.int64)]) if len(usable) else ()
    records: list[Conversation] = []
    ids: list[str] = []
    columns = ["id", "messages", "tools", "loss_weight"]
    for shard in dataset.shards:
        first, last = np.searchsorted(wanted, [shard.first_row, shard.first_row + shard.num_rows])
        row = shard.first_row
        for batch in shard.batches(dataset.schema, columns) if first < last else ():
            own = [number - row for number in wanted[first:last] if row <= number < row + batch.num_rows]
            taken = batch.take(pa.array(own, pa.int64()))
            records += conversations(taken)
            ids += taken.column("id").to_pylist()
            row += batch.num_rows
    audit(chat, records, ids, stop_ids(config.model, chat)).require_clean(config.model)


def _require_records(mixture: Path, tokens: TokenStore, packs: Packs) -> None:
    """Raise CuratorError when nothing is left to train on, with the reasons."""
    if packs.num_packs:
        return
    dropped = tokens.dropped(TRAIN)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items()) or "the order is empty"
    hint = "curator stats shows what the mixture holds"
    if TOO_LONG in dropped:
        hint = "raise max_tokens"
    elif NO_SUPERVISED_TOKENS in dropped:
        hint = "no record holds an answer that carries loss"
    raise CuratorError(f"{mixture}: no record is left to train on: {reasons}", hint=hint)
