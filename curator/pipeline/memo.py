"""Results of costly row stages, kept by content, so that a rerun computes new rows only."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from curator.io.manifest import digest_bytes
from curator.schema.record import canonical_json
from curator.stages.base import Columns, RowFunction, RowStage

_KEY = np.dtype([("high", ">u8"), ("low", ">u8")])


def memo_folder(memo: Path, stage: RowStage) -> Path:
    """Where a stage keeps results: one folder for each of its settings, versions and models."""
    return memo / f"{stage.name}-{digest_bytes(canonical_json(stage.describe()))[:16]}"


def memoised(function: RowFunction, folder: Path) -> RowFunction:
    """`function` behind a store in `folder`, one file a batch of new results.

    The key is the record's content hash (a costly stage reads content alone), with the marks around traces, which are
    read but not hashed. Files are only ever added, whole, so workers and runs may share a folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    store = _Store(folder)

    def look_up(batch: pa.RecordBatch) -> Columns:
        if not batch.num_rows:
            return function(batch)
        keys = _keys(batch)
        known, places = store.find(keys)
        missing = np.flatnonzero(~known)
        if len(missing):
            fresh = function(batch.take(pa.array(missing)))
            store.add(keys[missing], fresh)
            known, places = store.find(keys)
        return store.take(places)

    return look_up


def _keys(batch: pa.RecordBatch) -> np.ndarray:
    """16 bytes a row, shape [num_rows]: its content hash, mixed with what a stage reads of messages and the hash leaves
    out: their weights, and the marks around their traces."""
    column = batch.column("content_hash")
    keys = np.frombuffer(column.buffers()[1], _KEY)[column.offset : column.offset + len(column)]
    messages = batch.column("messages")
    flat = messages.flatten()
    unhashed = pc.or_(flat.field("weight").is_valid(), flat.field("wrap").is_valid()).to_numpy(zero_copy_only=False)
    if not unhashed.any():
        return keys
    keys = keys.copy()
    for row in np.unique(pc.list_parent_indices(messages).to_numpy()[unhashed]).tolist():
        rest = [(message["weight"], message["wrap"]) for message in messages[row].as_py()]
        mixed = xxhash.xxh3_128_digest(keys[row].tobytes() + repr(rest).encode())
        keys[row] = np.frombuffer(mixed, _KEY)[0]
    return keys


class _Store:
    """Sorted keys in memory, results as Arrow columns behind them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._keys = np.empty(0, _KEY)
        self._places = np.empty(0, np.int64)
        self._table: pa.Table | None = None
        for path in sorted(folder.glob("*.arrow")):
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_file(source).read_all()
            self._append(np.frombuffer(table.column("key").combine_chunks().buffers()[1], _KEY), table.drop(["key"]))

    def _append(self, keys: np.ndarray, table: pa.Table) -> None:
        first = 0 if self._table is None else len(self._table)
        self._table = table if self._table is None else pa.concat_tables([self._table, table])
        keys = np.concatenate([self._keys, keys])
        places = np.concatenate([self._places, np.arange(first, len(self._table))])
        order = np.argsort(keys, kind="stable", order=("high", "low"))
        self._keys, self._places = keys[order], places[order]

    def find(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which keys are known (bool), and the row of each in the table."""
        if not len(self._keys):
            return np.zeros(len(keys), bool), np.zeros(len(keys), np.int64)
        slots = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return self._keys[slots] == keys, self._places[slots]

    def add(self, keys: np.ndarray, columns: Columns) -> None:
        """Keep new results, in memory and in a file named by its content."""
        unique, first = np.unique(keys, return_index=True)
        table = pa.table(dict(columns)).take(pa.array(first))
        key_column = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(16), len(unique), [None, pa.py_buffer(unique.tobytes())]
        )
        stored = table.append_column("key", key_column)
        name = digest_bytes(unique.tobytes())
        temporary = self._folder / f".tmp-{name}-{os.getpid()}"
        with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, stored.schema) as writer:
            writer.write_table(stored)
        temporary.rename(self._folder / f"{name}.arrow")
        self._append(unique, table)

    def take(self, places: np.ndarray) -> dict[str, Any]:
        assert self._table is not None
        taken = self._table.take(pa.array(places))
        return {name: taken.column(name).combine_chunks() for name in taken.column_names}
