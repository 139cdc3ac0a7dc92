"""One pass: input folders, stages, an output folder. What a command does, and what a recipe does step by step."""

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curator import log
from curator.engine.local import engine_for
from curator.errors import CuratorError
from curator.io.dataset import Dataset, OutputFolder, check_columns
from curator.io.manifest import Fingerprint, Ledger
from curator.pipeline.apply import RowTask, ShardTask, output_schema, shard_names
from curator.pipeline.rounds import DecisionTask, decide, decision_notes
from curator.stages.base import DatasetStage, RowStage, Stage

WORTH_ROWS = 4_000
"""Rows from which workers are worth their start."""


@dataclass(frozen=True)
class Options:
    """How a pass is run; none of it changes what comes out."""

    workers: int | None = None
    overwrite: bool = False
    memo: Path | None = None


@dataclass
class Outcome:
    """What a pass did, for tables and `--json`."""

    out: Path
    steps: list[str]
    ledger: Ledger
    seconds: float
    reused: bool = False
    """The folder was complete already; nothing was done."""
    notes: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "read": self.ledger.read,
            "kept": self.ledger.kept,
            "dropped": dict(sorted(self.ledger.dropped.items())),
            "quarantined": sum(self.ledger.quarantined.values()),
            "out": str(self.out),
            "seconds": round(self.seconds, 3),
            "reused": self.reused,
            **self.notes,
        }


def timing(started: float, inputs: Sequence[Path | str]) -> dict[str, Any]:
    """What may differ between two runs that give the same folder: it stays outside every digest."""
    return {
        "host": socket.gethostname(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": round(time.time() - started, 3),
        "inputs": [str(path) for path in inputs],
    }


def fingerprint(dataset: Dataset, stages: Sequence[Stage]) -> Fingerprint:
    """What the output is a function of."""
    steps = tuple(stage.describe() for stage in stages)
    return Fingerprint(steps, tuple({"digest": manifest.digest} for manifest in dataset.manifests))


def run_pass(inputs: Sequence[Path], stages: Sequence[Stage], out: Path, options: Options) -> Outcome:
    """Run row stages in one pass, or one dataset stage, from `inputs` into `out`. Rows keep their order.

    Finished shards of an interrupted run are kept; a complete folder with the same fingerprint is left alone. Raises
    CuratorError when inputs share ids, or the folder was made with other inputs or settings.
    """
    started = time.time()
    dataset = Dataset.open(*inputs)
    refuse_overlap(inputs, out)
    for stage in stages:
        schema = dataset.schema if stage is stages[0] else output_schema(dataset.schema, stages[: stages.index(stage)])
        check_columns(schema, stage.reads(schema), stage.name)
    out_schema = output_schema(dataset.schema, stages)
    folder = OutputFolder.prepare(out, fingerprint(dataset, stages), options.overwrite)
    try:
        if folder.complete is not None:
            folder.release()
            whole = folder.complete
            seconds = time.time() - started
            return Outcome(out, [stage.name for stage in stages], whole.ledger(), seconds, True, dict(whole.extra))
        if len(inputs) > 1:
            check_shared_ids(dataset)
        names = list(shard_names(len(dataset.groups)))
        missing = [name for name in names if name not in folder.finished]
        in_kernels = all(stage.in_kernels for stage in stages)
        decisions, extra = None, {}
        if len(stages) == 1 and isinstance(stages[0], DatasetStage):
            engine = engine_for(options.workers, dataset.num_rows, WORTH_ROWS, in_kernels)
            decisions = decide(stages[0], dataset, out, engine)
            extra = decision_notes(stages[0], decisions)
        tasks = _tasks(dataset, stages, out, out_schema, options, missing, decisions)
        run_tasks(folder, tasks, " + ".join(stage.name for stage in stages), options, in_kernels)
        manifest = folder.finish(names, out_schema, dataset.history(), timing(started, inputs), extra)
    finally:
        folder.release()
    steps = [stage.name for stage in stages]
    return Outcome(out, steps, manifest.ledger(), time.time() - started, notes=dict(extra))


def refuse_overlap(inputs: Sequence[Path], out: Path) -> None:
    if any(out.resolve() == folder.resolve() for folder in inputs):
        raise CuratorError(f"--out {out} is also an input", hint="every step writes a folder of its own")


def _tasks(
    dataset: Dataset,
    stages: Sequence[Stage],
    out: Path,
    out_schema: Any,
    options: Options,
    names: list[str],
    decisions: Path | None,
) -> list[ShardTask]:
    groups = dataset.groups
    if decisions is not None:
        stage = stages[0]
        return [
            DecisionTask(
                name,
                f"shard {name}",
                groups[int(name)],
                dataset.schema,
                out_schema,
                out,
                stage.stores_rejects,
                stage.name,
                decisions,
            )
            for name in names
        ]
    row_stages = tuple(stage for stage in stages if isinstance(stage, RowStage))
    if len(row_stages) != len(stages):
        raise AssertionError("a dataset stage has a pass of its own")
    return [
        RowTask(
            name,
            f"shard {name}",
            groups[int(name)],
            dataset.schema,
            out_schema,
            out,
            stages=row_stages,
            memo=options.memo,
        )
        for name in names
    ]


def run_tasks(
    folder: OutputFolder, tasks: Sequence[Any], label: str, options: Options, in_kernels: bool = False
) -> None:
    """Run what is missing and remember each result as it comes."""
    if not tasks:
        return
    total = sum(task.group.num_rows for task in tasks)
    with log.progress(total, label, "rows") as bar:
        for _, result in engine_for(options.workers, total, WORTH_ROWS, in_kernels).run(tasks, bar.advance):
            folder.record(result)


def check_shared_ids(dataset: Dataset) -> None:
    """Raise CuratorError when two input folders hold a record of the same id, naming one.

    Ids are compared by 64-bit hash first; only hashes seen twice are looked up by text.
    """
    import numpy as np
    import xxhash

    digest = xxhash.xxh3_64_intdigest
    parts = [
        np.fromiter((digest(text.encode()) for text in batch.column("id").to_pylist()), np.uint64, batch.num_rows)
        for batch in dataset.batches(["id"])
    ]
    hashes = np.sort(np.concatenate([np.empty(0, np.uint64), *parts]))
    twice = set(hashes[1:][hashes[1:] == hashes[:-1]].tolist())
    if not twice:
        return
    seen: dict[str, Path] = {}
    for shard in dataset.shards:
        for batch in shard.batches(dataset.schema, ["id"]):
            for text in batch.column("id").to_pylist():
                if digest(text.encode()) not in twice:
                    continue
                if text in seen:
                    first, second = seen[text].parents[1], shard.path.parents[1]
                    raise CuratorError(
                        f"{first} and {second} share ids, for example {text}",
                        hint="were both made from the same source? name one of them, or ingest under another --source",
                    )
                seen[text] = shard.path


_MANY_DUPLICATES = 0.5


def warn_of_surprises(outcome: Outcome) -> Outcome:
    """A result that is empty, untouched or mostly duplicates is no failure, but nobody should find out later."""
    if outcome.ledger.kept == 0:
        rules = ", ".join(f"{rule} {count:,}" for rule, count in sorted(outcome.ledger.dropped.items()))
        log.warn(f"{outcome.out}: 0 of {outcome.ledger.read:,} records kept" + (f" ({rules})" if rules else ""))
    elif outcome.ledger.read >= 100 and outcome.ledger.kept == outcome.ledger.read and _decides(outcome.steps):
        log.warn(f"{outcome.out}: {' + '.join(outcome.steps)} removed nothing of {outcome.ledger.read:,} records")
    elif outcome.ledger.read >= 100 and outcome.steps[0].startswith("dedup.") and not outcome.reused:
        share = 1 - outcome.ledger.kept / outcome.ledger.read
        if share > _MANY_DUPLICATES:
            log.warn(
                f"{outcome.out}: {share:.0%} of {outcome.ledger.read:,} records are duplicates; do they share a "
                f"template? see some: curator show {outcome.out} --part rejects"
            )
    return outcome


def _decides(steps: Sequence[str]) -> bool:
    return any(step.startswith("filter.") for step in steps)
