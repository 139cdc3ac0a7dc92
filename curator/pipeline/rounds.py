"""Dataset stages: rounds of scan and reduce, spilled as Arrow files, resumed at the last whole round."""

import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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

PARTITION_ROWS = 250_000
"""Rows of the input for each partition of a reduce: fixed, so that partitions do not depend on workers."""
_DECISIONS = "decisions.arrow"
_DONE = "DONE"
_LONG_WARM_SECONDS = 1.5
"""Loading kernels from the cache takes less."""


# --- one call of a round's function ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Input:
    """The table of an earlier round, or the part of it that one call takes."""

    folder: Path
    is_partitioned: bool = False
    """Whether that round divided its lines by value, so that they have to be put in the order of rows again."""
    partition: int | None = None
    column: str | None = None

    def read(self) -> pa.Table:
        """Its lines, mapped from disk where nothing has to move."""
        tables = [self._read_file(path) for path in sorted(self.folder.glob("*.arrow"))]
        table = pa.concat_tables(tables)
        if self.is_partitioned:
            table = table.take(pc.sort_indices(table, sort_keys=[("row", "ascending")]))
        return table

    def _read_file(self, path: Path) -> pa.Table:
        if self.column is not None:
            # Read, not mapped: mapping a file asks for all of its pages, for every column anew.
            with pa.OSFile(str(path)) as source:
                field = pa.ipc.open_file(source).schema.get_field_index(self.column)
                return pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=[field])).read_all()
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        if self.partition is None:
            return reader.read_all()
        return pa.Table.from_batches([reader.get_batch(self.partition)])


@dataclass(frozen=True)
class _RoundTask:
    """One call of a round's function. Its file holds one record batch for each partition of the round that reads it."""

    name: str
    label: str
    stage: DatasetStage
    round: Scan | Reduce
    path: Path
    by: str | None
    num_partitions: int
    inputs: tuple[_Input, ...] = ()
    group: ShardGroup | None = None
    schema: pa.Schema | None = None

    def run(self, report: Report) -> None:
        if self.is_done():
            return
        if isinstance(self.round, Scan):
            table = self._scan(report)
        else:
            table = self.round.function(self.stage, *(item.read() for item in self.inputs))
            report(1)
        _write(self.path, _partition(table, self.by, self.num_partitions))

    def _scan(self, report: Report) -> pa.Table:
        assert self.group is not None and self.schema is not None and isinstance(self.round, Scan)
        function, reads = self.round.function, self.round.reads
        tables = []
        place: Any
        if self.inputs:
            asked = self.inputs[0].read()
            rows = asked.column("row").to_numpy()
            start, stop = np.searchsorted(rows, [self.group.first_row, self.group.first_row + self.group.num_rows])
            place = asked.slice(stop, 0)
            for batch in self.group.rows(self.schema, reads, rows[start:stop]):
                tables.append(function(self.stage, batch, asked.slice(start, batch.num_rows)))
                start += batch.num_rows
                report(batch.num_rows)
        else:
            place = self.group.first_row
            for batch in self.group.batches(self.schema, reads):
                tables.append(function(self.stage, batch, place))
                place += batch.num_rows
                report(batch.num_rows)
        if not tables:
            tables.append(function(self.stage, _empty_batch(self.schema, reads), place))
        return pa.concat_tables(tables)

    def is_done(self) -> bool:
        return self.path.exists()


def _empty_batch(schema: pa.Schema, columns: Sequence[str]) -> pa.RecordBatch:
    from curator.schema.record import prune_schema

    pruned = prune_schema(schema, columns)
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in pruned], schema=pruned)


def _partition(table: pa.Table, by: str | None, num_partitions: int) -> Iterator[pa.Table]:
    """The lines of each partition, by the hash in column `by`, in their order; null goes to the first."""
    if by is None or num_partitions == 1:
        yield table
        return
    column = table.column(by).combine_chunks()
    if pa.types.is_fixed_size_binary(column.type):
        raw = np.frombuffer(column.buffers()[1], np.dtype("<u8"))
        keys = raw.reshape(-1, column.type.byte_width // 8)[column.offset : column.offset + len(column), 0]
    else:
        keys = pc.fill_null(column, 0).to_numpy().astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)
    partitions = (keys % np.uint64(num_partitions)).astype(np.int32)
    if column.null_count:
        partitions[column.is_null().to_numpy(zero_copy_only=False)] = 0
    ordered = table.take(pa.array(np.argsort(partitions, kind="stable")))
    start = 0
    for count in np.bincount(partitions, minlength=num_partitions).tolist():
        yield ordered.slice(start, count)
        start += count


def _write(path: Path, parts: Iterator[pa.Table]) -> None:
    """Write an Arrow file of one record batch a part; map it with `pa.memory_map`."""
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    with placing(path), pa.OSFile(str(temporary), "wb") as sink:
        writer = None
        for part in parts:
            writer = writer or pa.ipc.new_file(sink, part.schema)
            batches = part.combine_chunks().to_batches()
            writer.write_batch(batches[0] if batches else _no_lines(part.schema))
        assert writer is not None
        writer.close()
    temporary.rename(path)


def _no_lines(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


# --- the rounds of a stage ---------------------------------------------------------------------------------------


def decide(stage: DatasetStage, dataset: Dataset, folder: Path, engine: Engine) -> Path:
    """Run the rounds of a stage; returns the file with its decisions, sorted by row.

    The files of a round are deleted once the last round that reads them is whole, which a mark in its folder tells.
    """
    spilled = folder / PARTIAL
    result = spilled / _DECISIONS
    if result.exists():
        return result
    started = time.monotonic()
    with _interrupts_held():
        stage.warm()
    if time.monotonic() - started > _LONG_WARM_SECONDS:
        log.info(f"{stage.name}: compiled its kernels in {time.monotonic() - started:.1f} s; the next run loads them")
    rounds = stage.rounds(dataset.schema)
    folders = [spilled / f"round-{index}" for index in range(len(rounds))]
    sources = [_sources(rounds, index) for index in range(len(rounds))]
    for index, round_ in enumerate(rounds):
        if (folders[index] / _DONE).exists():
            continue
        folders[index].mkdir(parents=True, exist_ok=True)
        tasks = _round_tasks(stage, rounds, sources, index, dataset, folders)
        waiting = [task for task in tasks if not task.is_done()]
        if waiting:
            is_scan = isinstance(round_, Scan)
            total, unit = (float(dataset.num_rows), "rows") if is_scan else (float(len(tasks)), "partitions")
            with log.progress(total, f"{stage.name} {'scan' if is_scan else 'reduce'}", unit) as bar:
                for _ in engine.run(waiting, bar.advance):
                    pass
        (folders[index] / _DONE).touch()
        for earlier in sources[index]:
            if all(earlier not in later for later in sources[index + 1 :]):
                for file in folders[earlier].glob("*.arrow"):
                    file.unlink()
    _write(result, iter([_input(rounds, len(rounds) - 1, folders).read()]))
    return result


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Numba calls back from compiled code, where Python swallows exceptions, a Ctrl-C too: it comes through behind."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def decision_notes(stage: DatasetStage, decisions: Path) -> dict[str, Any]:
    """What the stage has to say for the manifest, under its name: JSON in the metadata of its last table's schema."""
    with pa.memory_map(str(decisions)) as source:
        notes = (pa.ipc.open_file(source).schema.metadata or {}).get(b"notes")
    return {} if notes is None else {stage.name: json.loads(notes)}


def _sources(rounds: Sequence[Scan | Reduce], index: int) -> list[int]:
    """The rounds whose tables a round takes."""
    round_ = rounds[index]
    numbers = {earlier.function: number for number, earlier in enumerate(rounds[:index])}
    if isinstance(round_, Scan):
        return [] if round_.rows is None else [numbers[round_.rows]]
    return [numbers[function] for function in round_.of] or [index - 1]


def _input(rounds: Sequence[Scan | Reduce], index: int, folders: Sequence[Path]) -> _Input:
    """The whole table of a round."""
    round_ = rounds[index]
    return _Input(folders[index], isinstance(round_, Reduce) and round_.by is not None)


def _round_tasks(
    stage: DatasetStage,
    rounds: Sequence[Scan | Reduce],
    sources: Sequence[Sequence[int]],
    index: int,
    dataset: Dataset,
    folders: Sequence[Path],
) -> list[_RoundTask]:
    """The calls of one round: a scan for each group of shards; a reduce for each partition or column, or just one."""
    round_ = rounds[index]
    partitions = max(1, math.ceil(dataset.num_rows / PARTITION_ROWS))
    by = next(
        (
            later.by
            for later, of in zip(rounds, sources, strict=True)
            if isinstance(later, Reduce) and later.by is not None and of[0] == index
        ),
        None,
    )

    def task(name: str, what: str, inputs: tuple[_Input, ...], group: ShardGroup | None = None) -> _RoundTask:
        path = folders[index] / f"{name}.arrow"
        num_partitions = 1 if by is None else partitions
        label = f"{stage.name}, {what} {name}"
        return _RoundTask(name, label, stage, round_, path, by, num_partitions, inputs, group, dataset.schema)

    whole = [_input(rounds, source, folders) for source in sources[index]]
    if isinstance(round_, Scan):
        groups = dataset.groups
        names = shard_names(len(groups))
        return [task(name, "shard", tuple(whole), group) for name, group in zip(names, groups, strict=True)]
    if round_.each:
        return [task(column, "column", (replace(whole[0], column=column), *whole[1:])) for column in round_.each]
    if round_.by is not None:
        return [
            task(name, "partition", (replace(whole[0], partition=number), *whole[1:]))
            for number, name in enumerate(shard_names(partitions))
        ]
    return [task("all", "partition", tuple(whole))]


# --- the pass that carries decisions out -------------------------------------------------------------------------


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
