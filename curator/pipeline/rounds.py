"""Dataset stages: rounds of scan and reduce, spilled as Arrow files, resumed at the last whole round."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator import log
from curator.engine.base import Engine, Report
from curator.io.dataset import Dataset, ShardGroup
from curator.io.manifest import PARTIAL, placing
from curator.pipeline.apply import ShardTask, Split, apply_columns, shard_names, split_dropped
from curator.stages.base import DatasetStage, Reduce, Scan

PARTITION_ROWS = 4_000_000
"""Rows of the input for each partition of a reduce: fixed, so that partitions do not depend on workers."""
_DECISIONS = "decisions.arrow"
_DONE = "DONE"


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
    with placing(path), pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
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

    The files of a round are deleted once the round behind it is whole, which a mark in its folder tells.
    """
    spilled = folder / PARTIAL
    result = spilled / _DECISIONS
    if result.exists():
        return result
    rounds = stage.rounds(dataset.schema)
    folders = [spilled / f"round-{index}" for index in range(len(rounds))]
    first = max((index for index, path in enumerate(folders) if (path / _DONE).exists()), default=0)
    for index in range(first, len(rounds)):
        folders[index].mkdir(parents=True, exist_ok=True)
        tasks = _round_tasks(stage, rounds, index, dataset, folders)
        waiting = [task for task in tasks if not task.is_done()]
        if waiting:
            is_scan = isinstance(rounds[index], Scan)
            total, unit = (float(dataset.num_rows), "rows") if is_scan else (float(len(tasks)), "partitions")
            with log.progress(total, f"{stage.name} {'scan' if is_scan else 'reduce'}", unit) as bar:
                for _ in engine.run(waiting, bar.advance):
                    pass
        (folders[index] / _DONE).touch()
        for file in folders[index - 1].glob("*.arrow") if index else ():
            file.unlink()
    _write(result, _read(sorted(folders[-1].glob("*.arrow"))))
    return result


def _round_tasks(
    stage: DatasetStage, rounds: Sequence[Scan | Reduce], index: int, dataset: Dataset, folders: Sequence[Path]
) -> list[_RoundTask]:
    """The calls of one round: a scan for each group of shards, or a reduce for each partition."""
    round_ = rounds[index]
    partitions = max(1, math.ceil(dataset.num_rows / PARTITION_ROWS))
    following = rounds[index + 1] if index + 1 < len(rounds) else None
    by = following.by if isinstance(following, Reduce) else None
    outputs = partitions if by is not None else 1
    task = partial(_RoundTask, stage=stage, round=round_, folder=folders[index], by=by, num_partitions=outputs)
    if isinstance(round_, Scan):
        groups = dataset.groups
        names = shard_names(len(groups))
        return [
            task(name=name, label=f"{stage.name}, shard {name}", group=group, schema=dataset.schema)
            for name, group in zip(names, groups, strict=True)
        ]
    tasks = []
    for number, name in enumerate(shard_names(partitions if round_.by is not None else 1)):
        inputs = tuple(sorted(folders[index - 1].glob(f"*-p{number:04d}.arrow")))
        tasks.append(task(name=name, label=f"{stage.name}, partition {name}", inputs=inputs))
    return tasks


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
