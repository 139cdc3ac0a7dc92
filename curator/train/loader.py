"""The mixture's records as token ids: written once beside the mixture, mapped into memory, cut into micro-batches."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from curator import log
from curator.chat.tokenizer import MASK_POLICY, OK, ChatTokenizer, EncodedBatch
from curator.io.dataset import Dataset
from curator.io.manifest import digest_file
from curator.schema.record import canonical_json
from curator.train.config import TrainConfig
from curator.train.packing import Packs

TOO_LONG = "too_long"
"""Longer than a pack, under `too_long: drop`."""
ANSWER_CUT_OFF = "answer_cut_off"
"""Truncation left no token that carries loss."""

TRAIN, VALIDATION = "train", "validation"
_FORMAT = "curator.tokens"
_READ_COLUMNS = ("id", "messages", "tools", "loss_weight", "metadata.split")
_TOKEN_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("split", pa.string()),
        ("status", pa.string()),
        ("supervised", pa.int32()),
        ("ids", pa.list_(pa.int32())),
        ("weights", pa.list_(pa.float32())),
    ]
)


# --- tokens on disk ----------------------------------------------------------------------------------------------


def token_key(dataset: Dataset, chat: ChatTokenizer, config: TrainConfig) -> dict[str, Any]:
    """All that decides the tokens of a mixture; its hash names the cache folder."""
    return {
        "data": dataset.digest,
        "tokenizer": chat.digest,
        "mask": MASK_POLICY,
        "max_tokens": config.max_tokens,
        "too_long": config.too_long,
    }


def token_folder(dataset: Dataset, chat: ChatTokenizer, config: TrainConfig) -> Path:
    """Where the tokens of a mixture lie."""
    key = token_key(dataset, chat, config)
    return dataset.path / "tokens" / xxhash.xxh3_64_hexdigest(canonical_json(key))


def tokenise(dataset: Dataset, chat: ChatTokenizer, config: TrainConfig) -> "TokenStore":
    """The tokens of every row of a mixture: those on disk when they are whole and of the same key, else made anew."""
    key = token_key(dataset, chat, config)
    folder = token_folder(dataset, chat, config)
    if not _is_whole(folder, key):
        temporary = folder.with_name(f".tmp-{folder.name}-{os.getpid()}")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        _write_tokens(temporary, key, dataset, chat, config)
        _move_into_place(temporary, folder, key)
    return TokenStore(folder)


def _move_into_place(temporary: Path, folder: Path, key: dict[str, Any]) -> None:
    """Give the finished folder its name, unless another run was quicker."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        temporary.rename(folder)
    except OSError:
        if not _is_whole(folder, key):
            raise
        shutil.rmtree(temporary)


def _is_whole(folder: Path, key: dict[str, Any]) -> bool:
    try:
        index = json.loads((folder / "tokens.json").read_bytes())
        return index["key"] == key and all(
            digest_file(folder / part["path"]) == part["xxh3"] for part in index["parts"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _write_tokens(
    folder: Path, key: dict[str, Any], dataset: Dataset, chat: ChatTokenizer, config: TrainConfig
) -> None:
    """One Arrow file a shard, and `tokens.json` last."""
    parts, truncated = [], 0
    with log.progress(dataset.num_rows, "tokenise", "rows") as bar:
        for number, shard in enumerate(dataset.shards):
            path = folder / f"tokens-{number:05d}.arrow"
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, _TOKEN_SCHEMA) as writer:
                for batch in shard.batches(dataset.schema, _READ_COLUMNS):
                    tokens, num_cut = _token_batch(batch, chat, config)
                    writer.write_batch(tokens)
                    truncated += num_cut
                    bar.advance(batch.num_rows)
            parts.append({"path": path.name, "rows": shard.num_rows, "xxh3": digest_file(path)})
    index = {"format": _FORMAT, "key": key, "rows": dataset.num_rows, "truncated": truncated, "parts": parts}
    (folder / "tokens.json").write_text(json.dumps(index, indent=1) + "\n")


def _token_batch(batch: pa.RecordBatch, chat: ChatTokenizer, config: TrainConfig) -> tuple[pa.RecordBatch, int]:
    """Tokens of a batch of records; rows that training cannot use are empty lists with a status. Also: rows cut."""
    encoded = chat.encode_batch(batch)
    lengths, status, num_cut = _fit_lengths(encoded, config)
    supervised = _sums(encoded.weights > 0, encoded.offsets[:-1], lengths)
    for index in np.flatnonzero((supervised == 0) & (lengths > 0)):
        status[index] = ANSWER_CUT_OFF
    lengths[[name != OK for name in status]] = 0
    kept = _ranges(encoded.offsets[:-1], lengths)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    columns = [
        batch.column("id"),
        batch.column("metadata").field("split"),
        pa.array(status, pa.string()),
        pa.array(supervised, pa.int32()),
        pa.ListArray.from_arrays(offsets, pa.array(encoded.ids[kept], pa.int32())),
        pa.ListArray.from_arrays(offsets, pa.array(encoded.weights[kept], pa.float32())),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_TOKEN_SCHEMA), num_cut


def _fit_lengths(encoded: EncodedBatch, config: TrainConfig) -> tuple[np.ndarray, list[str], int]:
    """Tokens that each record keeps (int64), its status, and how many records are cut."""
    lengths = np.diff(encoded.offsets)
    status = list(encoded.status)
    lengths[[name != OK for name in status]] = 0
    too_long = np.flatnonzero(lengths > config.max_tokens)
    if config.too_long == "truncate":
        lengths[too_long] = config.max_tokens
        return lengths, status, len(too_long)
    for index in too_long:
        status[index] = TOO_LONG
    lengths[too_long] = 0
    return lengths, status, 0


def _sums(values: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Sum of `values` over each stretch, int64."""
    until = np.concatenate([[0], np.cumsum(values)])
    return until[starts + lengths] - until[starts]


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The integers of each range [start, start + length), end to end."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)


class TokenStore:
    """Tokens of every row of a mixture, by row number; the arrays are views of mapped files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        index = json.loads((folder / "tokens.json").read_bytes())
        self.digest: str = xxhash.xxh3_128_hexdigest(canonical_json(index))
        self.num_truncated: int = index["truncated"]
        self._batches: list[pa.RecordBatch] = []
        for part in index["parts"]:
            reader = pa.ipc.open_file(pa.memory_map(str(folder / part["path"])))
            self._batches += [reader.get_batch(number) for number in range(reader.num_record_batches)]
        self._first_rows = np.cumsum([0, *(batch.num_rows for batch in self._batches)])
        self._views = [_views(batch) for batch in self._batches]
        self.num_rows = int(self._first_rows[-1])
        empty = [np.zeros(0, np.int32)]
        self.lengths = np.concatenate([*empty, *(np.diff(offsets) for offsets, _, _ in self._views)])
        """[num_rows] int32; 0 for rows that training cannot use."""
        self.supervised = np.concatenate([*empty, *(batch.column("supervised").to_numpy() for batch in self._batches)])

    def row(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """`ids` int32 and `weights` float32 of a row."""
        number = int(np.searchsorted(self._first_rows, row, side="right")) - 1
        offsets, ids, weights = self._views[number]
        start, stop = offsets[row - self._first_rows[number] : row - self._first_rows[number] + 2]
        return ids[start:stop], weights[start:stop]

    def record_ids(self, rows: np.ndarray) -> list[str]:
        """The record ids of rows."""
        numbers = np.searchsorted(self._first_rows, rows, side="right") - 1
        return [
            self._batches[number].column("id")[int(row - self._first_rows[number])].as_py()
            for number, row in zip(numbers, rows, strict=True)
        ]

    def rows_of(self, split: str) -> np.ndarray:
        """Row numbers of a split, those that training cannot use included."""
        marks = [_in_split(batch, split).to_numpy(zero_copy_only=False) for batch in self._batches]
        return np.flatnonzero(np.concatenate([np.zeros(0, bool), *marks]))

    def dropped(self, split: str) -> dict[str, int]:
        """Rows of a split that training cannot use, by reason."""
        counts: Counter[str] = Counter()
        for batch in self._batches:
            statuses = batch.column("status").filter(_in_split(batch, split))
            counts.update({entry["values"]: entry["counts"] for entry in pc.value_counts(statuses).to_pylist()})
        return {status: count for status, count in sorted(counts.items()) if status != OK}


def _in_split(batch: pa.RecordBatch, split: str) -> pa.BooleanArray:
    return pc.fill_null(pc.equal(batch.column("split"), split), False)


def _views(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ids, weights = batch.column("ids"), batch.column("weights")
    return ids.offsets.to_numpy(), ids.values.to_numpy(), weights.values.to_numpy()


# --- micro-batches -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MicroBatch:
    """Packs of one forward pass, and the places in them where loss is taken."""

    ids: np.ndarray
    """[packs, length] int64, padded at the end."""
    positions: np.ndarray
    """[packs, length] int64: counts from 0 in each record and in the padding, which is what keeps them apart."""
    chosen: np.ndarray
    """[n] int64: flat places whose next token carries loss; never empty (see `weights`)."""
    labels: np.ndarray
    """[n] int64: the token after each chosen place."""
    weights: np.ndarray
    """[n] float32. A batch without supervised tokens has one place of weight 0, so that the head runs on each rank."""
    groups: np.ndarray
    """[n] int64: the slice of each chosen place's record."""
    num_tokens: int
    """Without padding."""
    num_supervised: int

    @property
    def num_places(self) -> int:
        return self.ids.size


class PackLoader:
    """Micro-batches of packs, for any rank of any world."""

    def __init__(self, tokens: TokenStore, packs: Packs, pad_id: int) -> None:
        self._tokens, self._packs, self._pad_id = tokens, packs, pad_id

    def micro_batches(
        self, first: int, stop: int, slots: int, rank: int, world_size: int, size: int
    ) -> Iterator[MicroBatch]:
        """This rank's part of packs [first, stop), counted over and over through the order.

        The packs are dealt out as `slots` places; each rank yields the same number of micro-batches of at most `size`
        packs, whatever the world size, and places without a pack become micro-batches of weight 0.
        """
        per_rank = -(-slots // (world_size * size)) * size
        mine = range(first + rank * per_rank, first + (rank + 1) * per_rank)
        for start in range(0, per_rank, size):
            yield self._micro_batch([pack for pack in mine[start : start + size] if pack < stop])

    def _micro_batch(self, packs: Sequence[int]) -> MicroBatch:
        entries = [
            self._packs.entries(pack % self._packs.num_packs, pack % self._packs.num_packs + 1) for pack in packs
        ]
        length = max((int(entry.tokens.sum()) for entry in entries), default=2)
        shape = (max(len(packs), 1), length)
        ids = np.full(shape, self._pad_id, dtype=np.int64)
        positions = np.zeros(shape, dtype=np.int64)
        labels = np.zeros(shape, dtype=np.int64)
        weights = np.zeros(shape, dtype=np.float32)
        groups = np.zeros(shape, dtype=np.int64)
        num_tokens = 0
        for line, entry in enumerate(entries):
            place = 0
            for row, group in zip(entry.row.tolist(), entry.slice.tolist(), strict=True):
                row_ids, row_weights = self._tokens.row(row)
                end = place + len(row_ids)
                ids[line, place:end] = row_ids
                positions[line, place:end] = np.arange(len(row_ids))
                # Each place predicts the next token of its own record; the last place predicts nothing.
                labels[line, place : end - 1] = row_ids[1:]
                weights[line, place : end - 1] = row_weights[1:]
                groups[line, place:end] = group
                place = end
            num_tokens += place
            positions[line, place:] = np.arange(length - place)
        if not entries:
            positions[0] = np.arange(length)
        chosen = np.flatnonzero(weights)
        num_supervised = len(chosen)
        chosen = chosen if num_supervised else np.zeros(1, dtype=np.int64)
        flat_labels, flat_weights, flat_groups = (a.reshape(-1)[chosen] for a in (labels, weights, groups))
        return MicroBatch(ids, positions, chosen, flat_labels, flat_weights, flat_groups, num_tokens, num_supervised)


def slice_values(dataset: Dataset, fields: Sequence[str], rows: np.ndarray) -> dict[str, list[str]]:
    """The value of each metadata field for some rows (ascending), as text; `null` where there is none."""
    values: dict[str, list[str]] = {field: [] for field in fields}
    columns = [f"metadata.{field}" for field in fields]
    first = 0
    for shard in dataset.shards if len(rows) and fields else ():
        for batch in shard.batches(dataset.schema, columns):
            wanted = pa.array(rows[(rows >= first) & (rows < first + batch.num_rows)] - first)
            for field in fields:
                column = batch.column("metadata").field(field).take(wanted).to_pylist()
                values[field] += [_value_text(value) for value in column]
            first += batch.num_rows
    return values


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)
