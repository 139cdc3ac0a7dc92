"""Dataset stages: rounds of scan and reduce, spilled as Arrow files, resumed at the last whole round."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator import log
from curator.engine.base import Engine, Report
from curator.io.dataset import Dataset, ShardGroup
from curator.io.manifest import PARTIAL
from curator.pipeline.apply import ShardTask, Split, apply_columns, shard_names, split_dropped
from curator.stages.base import DatasetStage, Reduce, Scan

PARTITION_ROWS = 4_000_000
"""Rows of the input for each partition of a reduce: fixed, so that partitions do not depend on workers."""
_DECISIONS = "decisions.arrow"


@dataclass(frozen=True)
class _RoundTask:
    """One call of a round's function; its output is split into the partitions of the next round."""

    name: str
    label: str
    stage: DatasetStage
    round: Scan | Reduce
    folder: Path
    """Where its output files go: `<name>-p<partition>.arrow`."""
    by: str | None
    num_partitions: int
    group: ShardGroup | None = None
    schema: pa.Schema | None = None
    inputs: tuple[Path, ...] = ()

    def run(self, report: Report) -> None:
        if self.is_done():
            return
        if isinstance(self.round, Scan):
            table = self._scan(report)
        else:
            table = self.round.function(self.stage, _read(self.inputs))
            report(1)
        for partition, part in enumerate(_partition(table, self.by, self.num_partitions)):
            _write(self._file(partition), part)

    def _scan(self, report: Report) -> pa.Table:
        assert self.group is not None and self.schema is not None and isinstance(self.round, Scan)
        row = self.group.first_row
        tables = []
        for batch in self.group.batches(self.schema, self.round.reads):
            tables.append(self.round.function(self.stage, batch, row))
            row += batch.num_rows
            report(batch.num_rows)
        if not tables:
            empty = _empty_batch(self.schema, self.round.reads)
            tables.append(self.round.function(self.stage, empty, row))
        return pa.concat_tables(tables)

    def _file(self, partition: int) -> Path:
        return self.folder / f"{self.name}-p{partition:04d}.arrow"

    def is_done(self) -> bool:
        return all(self._file(partition).exists() for partition in range(self.num_partitions))


def _empty_batch(schema: pa.Schema, columns: Sequence[str]) -> pa.RecordBatch:
    from curator.schema.record import prune_schema

    pruned = prune_schema(schema, columns)
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in pruned], schema=pruned)


def _partition(table: pa.Table, by: str | None, num_partitions: int) -> Iterator[pa.Table]:
    """The rows of each partition, by the hash in column `by`; null goes to the first."""
    if by is None or num_partitions == 1:
        yield table
        return
    column = table.column(by).combine_chunks()
    if pa.types.is_fixed_size_binary(column.type):
        raw = np.frombuffer(column.buffers()[1], np.dtype("<u8"))
        keys = raw.reshape(-1, column.type.byte_width // 8)[column.offset : column.offset + len(column), 0]
    else:
        keys = pc.fill_null(column, 0).to_numpy().astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)
    partitions = (keys % np.uint64(num_partitions)).astype(np.int64)
    if column.null_count:
        partitions = np.where(column.is_null().to_numpy(zero_copy_only=False), 0, partitions)
    for partition in range(num_partitions):
        yield table.filter(pa.array(partitions == partition))


def _write(path: Path, table: pa.Table) -> None:
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    temporary.rename(path)


def _read(paths: Sequence[Path]) -> pa.Table:
    """The tables one after the other, sorted by row."""
    tables = []
    for path in paths:
        with pa.memory_map(str(path)) as source:
            tables.append(pa.ipc.open_file(source).read_all())
    table = pa.concat_tables(tables)
    rows = table.column("row").to_numpy()
    if len(rows) and (rows[1:] < rows[:-1]).any():
        table = table.take(pc.sort_indices(table, sort_keys=[("row", "ascending")]))
    return table


def decide(stage: DatasetStage, dataset: Dataset, folder: Path, engine: Engine) -> Path:
    """Run the rounds of a stage; returns the file with its decisions, sorted by row.

    Files of finished rounds are deleted once the round behind them is whole.
    """
    result = folder / PARTIAL / _DECISIONS
    if result.exists():
        return result
    rounds = stage.rounds(dataset.schema)
    groups = dataset.groups
    partitions = max(1, math.ceil(dataset.num_rows / PARTITION_ROWS))
    previous: Path | None = None
    num_inputs = 0
    for index, round_ in enumerate(rounds):
        target = folder / PARTIAL / f"round-{index}"
        target.mkdir(parents=True, exist_ok=True)
        following = rounds[index + 1] if index + 1 < len(rounds) else None
        by = following.by if isinstance(following, Reduce) else None
        outputs = partitions if by is not None else 1
        if isinstance(round_, Scan):
            tasks = [
                _RoundTask(
                    name, f"{stage.name}, shard {name}", stage, round_, target, by, outputs, group, dataset.schema
                )
                for name, group in zip(shard_names(len(groups)), groups, strict=True)
            ]
            total, unit = float(dataset.num_rows), "rows"
        else:
            assert previous is not None
            tasks = [
                _RoundTask(
                    name,
                    f"{stage.name}, partition {name}",
                    stage,
                    round_,
                    target,
                    by,
                    outputs,
                    inputs=tuple(sorted(previous.glob(f"*-p{partition:04d}.arrow"))),
                )
                for partition, name in enumerate(shard_names(num_inputs))
            ]
            total, unit = float(len(tasks)), "partitions"
        waiting = [task for task in tasks if not task.is_done()]
        if waiting:
            with log.progress(total, f"{stage.name} {_verb(round_)}", unit) as bar:
                for _ in engine.run(waiting, bar.advance):
                    pass
        previous, num_inputs = target, outputs
    assert previous is not None
    _write(result, _read(sorted(previous.glob("*.arrow"))))
    return result


def _verb(round_: Scan | Reduce) -> str:
    return "scan" if isinstance(round_, Scan) else "reduce"


@dataclass(frozen=True)
class DecisionTask(ShardTask):
    """Writes one group of shards with the decisions of a dataset stage applied."""

    step: str = ""
    decisions: Path | None = None

    def splitter(self) -> Callable[[pa.RecordBatch, int], Split]:
        assert self.decisions is not None
        with pa.memory_map(str(self.decisions)) as source:
            table = pa.ipc.open_file(source).read_all()
        rows = table.column("row").to_numpy()
        first, last = np.searchsorted(rows, [self.group.first_row, self.group.first_row + self.group.num_rows])
        table, rows = table.slice(first, last - first).combine_chunks(), rows[first:last]

        def split(batch: pa.RecordBatch, row: int) -> Split:
            start, stop = np.searchsorted(rows, [row, row + batch.num_rows])
            places = rows[start:stop] - row
            columns = {
                name: _scattered(table.column(name).slice(start, stop - start), places, batch, name)
                for name in table.column_names
                if name != "row"
            }
            edited = apply_columns(batch, columns, self.out_schema, self.step)
            kept, dropped = split_dropped(edited)
            return kept, [dropped] if dropped.num_rows else []

        return split


def _scattered(values: pa.ChunkedArray, places: np.ndarray, batch: pa.RecordBatch, name: str) -> pa.Array:
    """The batch's column with `values` at `places`."""
    from curator.schema.record import column_array, has_column

    old: Any = column_array(batch, name) if has_column(batch.schema, name) else pa.nulls(batch.num_rows, values.type)
    if not len(places):
        return old
    source = np.arange(batch.num_rows)
    source[places] = batch.num_rows + np.arange(len(places))
    return pa.concat_arrays([old, *values.chunks]).take(pa.array(source))
