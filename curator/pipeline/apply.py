"""One pass of row stages over batches: the functions are run in turn, dropped rows leave after each."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator.engine.base import Report
from curator.io.dataset import ShardGroup, TaskWriter
from curator.io.manifest import TaskResult, digest_bytes
from curator.pipeline.memo import memo_folder, memoised
from curator.schema.record import (
    CONTENT_COLUMNS,
    column_array,
    content_hashes,
    extend_schema,
    filter_batch,
    ids_digest,
    set_columns,
)
from curator.stages.base import Columns, RowFunction, RowStage

Split = tuple[pa.RecordBatch, list[pa.RecordBatch]]
"""Kept rows, and dropped rows, both in their order."""


def output_schema(schema: pa.Schema, stages: Sequence[Any]) -> pa.Schema:
    """The schema behind a list of stages; each is checked against what it will read."""
    for stage in stages:
        stage.prepare(schema)
        schema = extend_schema(schema, stage.writes(schema))
    return schema


def apply_columns(batch: pa.RecordBatch, columns: Columns, schema: pa.Schema, step: str) -> pa.RecordBatch:
    """The batch with a stage's columns; edited content gets a new hash and says who edited it."""
    edited = set_columns(batch, columns, schema)
    if not any(path in CONTENT_COLUMNS for path in columns):
        return edited
    hashes = content_hashes(edited)
    changed = pc.not_equal(hashes, batch.column("content_hash"))
    by = pc.if_else(changed, step, column_array(edited, "provenance.edited_by"))
    return set_columns(edited, {"content_hash": hashes, "provenance.edited_by": by}, schema)


def split_dropped(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Rows without and with `drop`."""
    drop = batch.column("drop")
    if drop.null_count == batch.num_rows:
        return batch, batch.slice(0, 0)
    dropped = drop.is_valid()
    return filter_batch(batch, pc.invert(dropped)), filter_batch(batch, dropped)


class Chain:
    """Row stages opened for work on batches of one schema."""

    def __init__(self, stages: Sequence[RowStage], schema: pa.Schema, memo: Path | None = None) -> None:
        self._steps: list[tuple[RowStage, RowFunction, pa.Schema]] = []
        for stage in stages:
            schema = extend_schema(schema, stage.writes(schema))
            function = stage.open()
            if stage.costly and memo is not None:
                function = memoised(function, memo_folder(memo, stage))
            self._steps.append((stage, function, schema))
        self.schema = schema

    def __call__(self, batch: pa.RecordBatch) -> Split:
        rejected, places = [], []
        rows = pa.array(np.arange(batch.num_rows))
        for stage, function, schema in self._steps:
            columns = function(batch)
            batch = apply_columns(batch, columns, schema, stage.name)
            if "drop" in columns:
                is_dropped = batch.column("drop").is_valid()
                batch, dropped = split_dropped(batch)
                if dropped.num_rows:
                    rejected.append(set_columns(dropped, {}, self.schema))
                    places.append(rows.filter(is_dropped))
                    rows = rows.filter(pc.invert(is_dropped))
        if len(rejected) > 1:
            # In the order of the rows, not step by step: that would show where batches end.
            together = pa.Table.from_batches(rejected).take(pc.sort_indices(pa.concat_arrays(places)))
            rejected = together.combine_chunks().to_batches()
        return set_columns(batch, {}, self.schema), rejected


_opened: dict[str, Chain] = {}


def opened_chain(stages: Sequence[RowStage], schema: pa.Schema, memo: Path | None) -> Chain:
    """The chain for these stages, opened once in this process: models load once a worker."""
    key = digest_bytes(pickle.dumps((list(stages), schema, memo)))
    if key not in _opened:
        _opened.clear()
        _opened[key] = Chain(stages, schema, memo)
    return _opened[key]


@dataclass(frozen=True)
class ShardTask:
    """Reads a group of shards, splits its batches into kept and dropped, writes the shard of the group's number."""

    name: str
    label: str
    group: ShardGroup
    schema: pa.Schema
    out_schema: pa.Schema
    folder: Path
    stores_rejects: bool = True

    def splitter(self) -> Callable[[pa.RecordBatch, int], Split]:
        """The function (batch, number of its first row) -> kept and dropped."""
        raise NotImplementedError

    def run(self, report: Report) -> TaskResult:
        split = self.splitter()
        writer = TaskWriter(self.folder, TaskResult(self.name, self.label), self.out_schema, self.stores_rejects)
        writer.begin_shard(f"part-{self.name}")
        row = self.group.first_row
        for batch in self.group.batches(self.schema):
            ledger = writer.result.ledger
            ledger.read += batch.num_rows
            ids = batch.column("id")
            digest = ids_digest(ids)
            ledger.read_ids += digest
            kept, rejected = split(batch, row)
            writer.keep(kept, digest if kept.column("id").equals(ids) else None)
            for part in rejected:
                writer.reject(part)
            row += batch.num_rows
            report(batch.num_rows)
        writer.result.ledger.read_ids &= (1 << 128) - 1
        return writer.close()


@dataclass(frozen=True)
class RowTask(ShardTask):
    """Row stages over one group of shards."""

    stages: tuple[RowStage, ...] = ()
    memo: Path | None = None

    def splitter(self) -> Callable[[pa.RecordBatch, int], Split]:
        chain = opened_chain(self.stages, self.schema, self.memo)
        return lambda batch, _: chain(batch)


def shard_names(count: int) -> Iterator[str]:
    """Names of tasks and shards, in order."""
    return (f"{index:05d}" for index in range(count))
