"""Where records live: reading dataset folders, and writing them so that any interruption leaves whole shards only."""

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curator import log
from curator.errors import CuratorError
from curator.faults import fault_point
from curator.io import media
from curator.io.manifest import (
    MANIFEST,
    PARTIAL,
    FileEntry,
    Fingerprint,
    Manifest,
    TaskResult,
    digest_file,
    first_difference,
    placing,
    write_atomic,
)
from curator.schema.record import (
    QUARANTINE_SCHEMA,
    cast_batch,
    field_names,
    filled_fields,
    ids_digest,
    prune_schema,
    row_bytes,
    schema_from_json,
    schema_to_json,
    unify_schemas,
)

BATCH_ROWS = 8_192
BATCH_BYTES = 64 << 20
"""A batch, and so a row group, ends at this many rows or at the record that reaches this many bytes of text."""

# Text columns hold few repeated values; a dictionary of them costs time and buys nothing. These repeat.
_ALWAYS_FILLED = {"messages.list.element.content", "content_hash"}
_DICTIONARY_NAMES = {
    "kind",
    "role",
    "name",
    "status",
    "by",
    "open",
    "close",
    "step",
    "rule",
    "file",
    "adapter",
    "form",
    "edited_by",
    "mime",
}


# --- reading ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shard:
    """One Parquet file of a dataset. `first_row` counts through the shards in manifest order."""

    path: Path
    num_rows: int
    first_row: int

    def batches(
        self, schema: pa.Schema, columns: Sequence[str] | None = None, rows: np.ndarray | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Its row groups one at a time, cast to `schema`; `columns` are dotted paths, read without the rest.

        `rows` (int64, ascending, numbers in the dataset) picks rows; row groups without any are not read.
        """
        wanted = schema if columns is None else prune_schema(schema, columns)
        row = self.first_row
        with open_shard(self.path) as file:
            leaves = _leaves(file, columns)
            for index in range(file.num_row_groups):
                group = file.metadata.row_group(index)
                first, row = row, row + group.num_rows
                places = None if rows is None else rows[slice(*np.searchsorted(rows, [first, row]))] - first
                if places is not None and not len(places):
                    continue
                with naming_damage(self.path):
                    table = file.read_row_group(index, columns=_needed(group, leaves), use_threads=False)
                batch = cast_batch(_one_batch(table), wanted)
                yield batch if places is None else batch.take(pa.array(places))


def _leaves(file: pq.ParquetFile, columns: Sequence[str] | None) -> dict[str, int]:
    """The file's leaves under these columns, Parquet path to number."""
    every = {file.schema.column(number).path: number for number in range(file.metadata.num_columns)}
    if columns is None:
        return every
    starts = tuple(f"{column}." for column in columns)
    return {path: number for path, number in every.items() if f"{path}.".startswith(starts)}


def _needed(group: pq.RowGroupMetaData, leaves: Mapping[str, int]) -> list[str]:
    """The leaves of which a row group has values; a cast adds the others, which are null in every row."""
    return _covering(tuple(path for path, number in leaves.items() if _is_null(group.column(number))), tuple(leaves))


def _is_null(chunk: pq.ColumnChunkMetaData) -> bool:
    statistics = chunk.statistics
    return statistics is not None and statistics.has_null_count and statistics.null_count == chunk.num_values


@lru_cache
def _covering(empty: tuple[str, ...], leaves: tuple[str, ...]) -> list[str]:
    """The leaves without the empty ones, but for one in each struct and list that is empty as a whole.

    Its levels tell null from an empty list and from a struct of nulls.
    """
    covering = [path for path in leaves if path not in empty]
    known = {parent for path in covering for parent in _parents(path)}
    for path in sorted(empty, key=lambda path: -path.count(".")):
        if not known.issuperset(_parents(path)):
            covering.append(path)
            known.update(_parents(path))
    return covering or list(empty[:1])


def _parents(path: str) -> list[str]:
    """The structs and lists around a leaf: `a.b.c` lies in `a` and `a.b`."""
    names = path.split(".")
    return [".".join(names[:depth]) for depth in range(1, len(names))]


_REDO = "run the command that wrote its folder again: it redoes only what is damaged"


def open_shard(path: Path) -> pq.ParquetFile:
    """A shard as a Parquet file that verifies its pages."""
    with naming_damage(path):
        return pq.ParquetFile(path, memory_map=False, pre_buffer=False, page_checksum_verification=True)


@contextmanager
def naming_damage(path: Path) -> Iterator[None]:
    """Say which shard cannot be read, and the way back."""
    try:
        yield
    # A flipped byte in a footer may stand in the name of a column.
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if path.exists() and getattr(error, "errno", None):
            raise  # the disk's fault, not the file's
        what = f"is damaged: {str(error).splitlines()[0]}" if path.exists() else "is missing"
        raise CuratorError(f"{path} {what}", hint=_REDO) from None


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    """The table as a single batch; a row group is at most `BATCH_BYTES` and one record, far below 2 GiB."""
    batches = table.combine_chunks().to_batches()
    if not batches:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in table.schema], schema=table.schema)
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _require_shards(folder: Path, manifest: Manifest) -> None:
    """Raise CuratorError when a shard is missing or cut, before hours of work meet it; its pages say the rest."""
    problems = [(entry, problem) for entry in manifest.shards if (problem := entry.size_problem(folder))]
    if problems:
        entry, problem = problems[0]
        more = f" (and {len(problems) - 1} more shards)" if len(problems) > 1 else ""
        raise CuratorError(f"{folder / entry.path} {problem}{more}", hint=_REDO)


GROUP_BYTES = 2 << 20
"""Small shards are read together until their files reach this size: many tiny raw files must not stay tiny shards."""


@dataclass(frozen=True)
class ShardGroup:
    """Neighbouring shards that one task reads, and writes as one."""

    shards: tuple[Shard, ...]

    @property
    def first_row(self) -> int:
        return self.shards[0].first_row

    @property
    def num_rows(self) -> int:
        return sum(shard.num_rows for shard in self.shards)

    def batches(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows in order; row groups of neighbours are joined as long as they stay within one batch."""
        pending: list[pa.RecordBatch] = []
        num_rows, num_bytes = 0, 0
        for shard in self.shards:
            for batch in shard.batches(schema, columns):
                size = batch.nbytes
                if pending and (num_rows + batch.num_rows > BATCH_ROWS or num_bytes + size > BATCH_BYTES):
                    yield _one_batch(pa.Table.from_batches(pending))
                    pending, num_rows, num_bytes = [], 0, 0
                pending.append(batch)
                num_rows += batch.num_rows
                num_bytes += size
        if pending:
            yield _one_batch(pa.Table.from_batches(pending))

    def rows(self, schema: pa.Schema, columns: Sequence[str], rows: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Only the rows with these numbers (int64, ascending), a row group at a time; others are not read."""
        for shard in self.shards:
            yield from shard.batches(schema, columns, rows)


class Dataset:
    """A complete dataset folder, or several read as one: rows in manifest order, one schema."""

    def __init__(self, paths: Sequence[Path], manifests: Sequence[Manifest]) -> None:
        self.paths = list(paths)
        self.manifests = list(manifests)
        self.schema = unify_schemas(
            [schema_from_json(manifest.schema) for manifest in manifests], [str(path) for path in paths]
        )
        self.shards: list[Shard] = []
        first_row = 0
        for path, manifest in zip(paths, manifests, strict=True):
            for entry in manifest.shards:
                self.shards.append(Shard(path / entry.path, entry.rows, first_row))
                first_row += entry.rows
        self.num_rows = first_row

    @classmethod
    def open(cls, *paths: str | os.PathLike[str]) -> "Dataset":
        """Open complete folders. Raises CuratorError for a folder that is missing, unfinished, newer or not ours."""
        folders = [Path(path) for path in paths]
        if len({folder.resolve() for folder in folders}) < len(folders):
            raise CuratorError("the same folder is named twice", hint="name each input once")
        manifests = [Manifest.read(folder) for folder in folders]
        for folder, manifest in zip(folders, manifests, strict=True):
            _require_shards(folder, manifest)
        return cls(folders, manifests)

    @property
    def path(self) -> Path:
        return self.paths[0]

    @property
    def groups(self) -> list[ShardGroup]:
        """The shards, small neighbours together: what the tasks of a pass read. Depends on file sizes alone."""
        groups: list[list[Shard]] = []
        room = 0
        for shard, entry in zip(self.shards, (e for m in self.manifests for e in m.shards), strict=True):
            if not groups or entry.bytes > room:
                groups.append([])
                room = GROUP_BYTES
            groups[-1].append(shard)
            room -= entry.bytes
        return [ShardGroup(tuple(group)) for group in groups]

    @property
    def manifest(self) -> Manifest:
        return self.manifests[0]

    @property
    def digest(self) -> str:
        """Hex digest of everything in the (first) folder."""
        return self.manifest.digest

    def history(self) -> list[dict[str, Any]]:
        """The passes behind these rows; of several folders, each folder's in turn."""
        return [entry for manifest in self.manifests for entry in manifest.passes()]

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows in order, a row group at a time."""
        for shard in self.shards:
            yield from shard.batches(self.schema, columns)

    def rejects(self) -> Iterator[pa.RecordBatch]:
        """The rows that the last pass removed, with `drop` set."""
        for path, manifest in zip(self.paths, self.manifests, strict=True):
            for task in manifest.tasks:
                for entry in task.rejects:
                    yield from Shard(path / entry.path, entry.rows, 0).batches(self.schema)

    def quarantine(self) -> Iterator[pa.RecordBatch]:
        """The raw rows that the last pass could not turn into records."""
        for path, manifest in zip(self.paths, self.manifests, strict=True):
            for task in manifest.tasks:
                for entry in task.quarantine:
                    yield from Shard(path / entry.path, entry.rows, 0).batches(QUARANTINE_SCHEMA)


# --- writing ----------------------------------------------------------------------------------------------------


def _leaf_paths(prefix: str, type_: pa.DataType) -> Iterator[str]:
    """Parquet paths of the leaves of a field."""
    if pa.types.is_struct(type_):
        for field in type_:
            yield from _leaf_paths(f"{prefix}.{field.name}", field.type)
    elif pa.types.is_list(type_):
        yield from _leaf_paths(f"{prefix}.list.element", type_.value_type)
    else:
        yield prefix


def _dictionary_columns(schema: pa.Schema) -> list[str]:
    """Parquet paths of the leaves worth a dictionary."""
    return [
        path
        for field in schema
        for path in _leaf_paths(field.name, field.type)
        if path.startswith("metadata.") or path.rpartition(".")[2] in _DICTIONARY_NAMES
    ]


def _described_columns(schema: pa.Schema) -> list[str]:
    """Parquet paths of the leaves with statistics: nulls, by which a reader skips leaves, and least and greatest value.

    Not those that have a value in every row group and are compared at a cost: texts of turns are a seventh of writing.
    """
    return [path for field in schema for path in _leaf_paths(field.name, field.type) if path not in _ALWAYS_FILLED]


_TEMPORARY = ".tmp-"


class ShardWriter:
    """One Parquet file whose bytes depend on its rows alone, not on how they arrived.

    Row groups are cut at `BATCH_ROWS` rows or `BATCH_BYTES` bytes of text; each is written as one contiguous table,
    because Parquet pages would otherwise break at the borders of the batches that came in.
    """

    def __init__(self, folder: Path, name: str, schema: pa.Schema) -> None:
        self._folder, self._name, self._schema = folder, name, schema
        # The process id keeps apart what a worker whose parent was killed may still be writing.
        self._temporary = folder / os.path.dirname(name) / f"{_TEMPORARY}{os.getpid()}-{os.path.basename(name)}"
        self._temporary.parent.mkdir(parents=True, exist_ok=True)
        with placing(folder / name):
            self._writer = pq.ParquetWriter(
                self._temporary,
                schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=_dictionary_columns(schema),
                write_statistics=_described_columns(schema),
                version="2.6",
                data_page_version="1.0",
                write_page_checksum=True,
            )
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self.num_rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; `batch` must have the writer's schema."""
        has_text = "messages" in batch.schema.names
        sizes = row_bytes(batch) if has_text else None
        start = 0
        while start < batch.num_rows:
            room = BATCH_ROWS - self._pending_rows
            stop = min(start + room, batch.num_rows)
            if sizes is not None:
                cumulative = sizes[start:stop].cumsum()
                fitting = int((self._pending_bytes + cumulative < BATCH_BYTES).sum())
                if fitting < stop - start:
                    stop = start + fitting + 1
                self._pending_bytes += int(sizes[start:stop].sum())
            self._pending.append(batch.slice(start, stop - start))
            self._pending_rows += stop - start
            start = stop
            if self._pending_rows >= BATCH_ROWS or self._pending_bytes >= BATCH_BYTES:
                self._flush()

    def _flush(self) -> None:
        if not self._pending_rows:
            return
        table = pa.Table.from_batches(self._pending, schema=self._schema).combine_chunks()
        with placing(self._folder / self._name):
            self._writer.write_table(table, row_group_size=self._pending_rows)
        self.num_rows += self._pending_rows
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def close(self) -> FileEntry:
        """Finish the file under its final name and describe it."""
        self._flush()
        final = self._folder / self._name
        with placing(final):
            self._writer.close()
            descriptor = os.open(self._temporary, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        fault_point("after_temporary_write")
        self._temporary.rename(final)
        fault_point("after_rename")
        return FileEntry(self._name, self.num_rows, final.stat().st_size, digest_file(final))


class TaskWriter:
    """Writes the shards, rejects and quarantine of one task and keeps its account.

    A task that wrote no record still writes one empty shard, so that every folder carries its schema.
    """

    def __init__(self, folder: Path, result: TaskResult, schema: pa.Schema, stores_rejects: bool = True) -> None:
        self._folder, self.result, self._schema = folder, result, schema
        self._stores_rejects = stores_rejects
        self._open: dict[str, ShardWriter] = {}
        self._filled: set[str] = set()

    def _writer(self, kind: str, name: str, schema: pa.Schema) -> ShardWriter:
        if kind not in self._open:
            self._open[kind] = ShardWriter(self._folder, f"{kind}/{name}.parquet", schema)
        return self._open[kind]

    def begin_shard(self, name: str) -> None:
        """Start the data file `name`; the one before it ends."""
        self._close("data", self.result.shards)
        self._writer("data", name, self._schema)

    def keep(self, batch: pa.RecordBatch, digest: int | None = None) -> None:
        """Rows that stay, and the digest of their ids where it is known."""
        if not batch.num_rows:
            return
        ledger = self.result.ledger
        ledger.kept += batch.num_rows
        ledger.kept_ids += ids_digest(batch.column("id")) if digest is None else digest
        self._filled |= filled_fields(batch)
        self._open["data"].write(batch)

    def reject(self, batch: pa.RecordBatch) -> None:
        """Rows that were removed; `drop` must be set in every one."""
        if not batch.num_rows:
            return
        ledger = self.result.ledger
        drop = batch.column("drop")
        if drop.null_count:
            raise AssertionError("a rejected row does not say why")
        for step, rule in zip(drop.field("step").to_pylist(), drop.field("rule").to_pylist(), strict=True):
            key = f"{step}/{rule}"
            ledger.dropped[key] = ledger.dropped.get(key, 0) + 1
        ledger.dropped_ids += ids_digest(batch.column("id"))
        if self._stores_rejects:
            self._writer("rejects", self.result.name, self._schema).write(batch)

    def quarantine(self, batch: pa.RecordBatch) -> None:
        """Raw rows that could not become records (`QUARANTINE_SCHEMA`)."""
        if not batch.num_rows:
            return
        ledger = self.result.ledger
        for reason in batch.column("reason").to_pylist():
            key = reason.partition(":")[0]
            ledger.quarantined[key] = ledger.quarantined.get(key, 0) + 1
        ledger.quarantined_ids += ids_digest(batch.column("id"))
        self._writer("quarantine", self.result.name, QUARANTINE_SCHEMA).write(batch)

    def _close(self, kind: str, entries: list[FileEntry]) -> None:
        if kind in self._open:
            entries.append(self._open.pop(kind).close())

    def close(self) -> TaskResult:
        """Finish all files; the account must add up."""
        self._close("data", self.result.shards)
        self._close("rejects", self.result.rejects)
        self._close("quarantine", self.result.quarantine)
        ledger = self.result.ledger
        ledger.kept_ids &= (1 << 128) - 1
        ledger.dropped_ids &= (1 << 128) - 1
        ledger.quarantined_ids &= (1 << 128) - 1
        self.result.filled = sorted(self._filled)
        if problem := ledger.problem():
            raise CuratorError(
                f"{self._folder}: {self.result.label}: {problem}", hint="this is a bug in the step; please report it"
            )
        return self.result


@dataclass(frozen=True)
class Growth:
    """How a folder that holds something goes on with more: what it is a function of then, and what it keeps."""

    fingerprint: Fingerprint
    keeps: Callable[[TaskResult], bool]
    """Whether a finished task is part of it still."""
    is_all: bool
    """Whether it holds nothing but what is at hand now."""
    can_redo: Callable[[TaskResult], bool]
    """Whether what the task read is at hand, should its shards be damaged."""


Grow = Callable[[dict[str, Any], dict[str, Any] | None], Growth | None]
"""From the fingerprint that a folder has, and the one it had when it was last complete (None: never was); None when
the folder cannot go on from there."""


@dataclass(frozen=True)
class _Previous:
    """What a folder holds of earlier runs."""

    fingerprint: dict[str, Any] | None = None
    tasks: Sequence[TaskResult] = ()
    whole: Manifest | None = None
    """The manifest of a complete folder."""
    base: Manifest | None = None
    """The manifest that the folder has, or had when it was last complete."""


class OutputFolder:
    """A folder while it is being written: the lock, what is finished already, and the manifest at the end."""

    def __init__(self, path: Path, fingerprint: Fingerprint, lock: int) -> None:
        self.path = path
        self.fingerprint = fingerprint
        self._lock = lock
        self.finished: dict[str, TaskResult] = {}
        self.complete: Manifest | None = None
        """The manifest, when the folder was complete and sound before this run."""
        self.base: Manifest | None = None
        """The manifest from before there was more to do."""
        self._is_new = self._is_open = False
        """Whether it holds nothing of an earlier run; whether there is work that is not finished."""

    @classmethod
    def prepare(
        cls, path: Path, fingerprint: Fingerprint, overwrite: bool = False, grow: Grow | None = None
    ) -> "OutputFolder":
        """Lock `path` and find out what is left to do.

        Finished tasks are those whose files are on disk with the bytes that were recorded. A folder that was made
        from other inputs or settings is refused, naming the first field that changed, unless `overwrite`, or `grow`
        says how it goes on from there.
        """
        if path.exists() and not path.is_dir():
            raise CuratorError(f"{path} is a file", hint="name a folder for --out")
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path, fingerprint, _lock(path))
        try:
            folder._look(overwrite, grow)
        except BaseException:
            folder.release()
            raise
        return folder

    def _look(self, overwrite: bool, grow: Grow | None = None) -> None:
        try:
            before = self._previous()
        except CuratorError:
            if not overwrite:
                raise
            before = _Previous()
        growth = None
        if before.fingerprint is not None and grow is not None:
            growth = grow(before.fingerprint, before.base.fingerprint if before.base else None)
        if growth is not None and overwrite:
            is_same = growth.fingerprint.to_json() == before.fingerprint
            growth = growth if is_same and growth.is_all else None
        if growth is not None:
            self.fingerprint = growth.fingerprint
        elif before.fingerprint is not None and before.fingerprint != self.fingerprint.to_json():
            if not overwrite:
                self._refuse(before.fingerprint, grow is not None)
            self._clear()
            before = _Previous()
        elif before.fingerprint is None:
            there = sorted(entry.name for entry in self.path.iterdir() if not entry.name.startswith("."))
            strays = [name for name in there if name not in _OWN_NAMES]
            if strays or (there and not overwrite):
                raise CuratorError(
                    f"{self.path} is not empty and not a dataset folder (it holds {(strays or there)[0]})",
                    hint="choose another --out" + ("" if strays else ", or --overwrite to replace it"),
                )
            self._clear()
        stale, damaged = self._sort(before.tasks, growth)
        self.base = before.base
        is_same = before.fingerprint == self.fingerprint.to_json()
        if before.whole is not None and is_same and not (stale or damaged):
            self.complete = before.whole
            return
        self._is_new, self._is_open = before.fingerprint is None, True
        self._sweep_temporaries()
        if before.whole is not None or not is_same:
            self._reopen(stale, before.whole is not None)

    def _refuse(self, previous: dict[str, Any], grows: bool) -> None:
        """Other inputs are no reason where a folder takes more of them."""
        now = self.fingerprint.to_json()
        if grows:
            previous, now = {"steps": previous.get("steps")}, {"steps": now["steps"]}
        difference = first_difference(previous, now) or ""
        if number := re.match(r"inputs\[(\d+)\]", difference):
            difference = f"input {int(number[1]) + 1} has other content now ({difference})"
        raise CuratorError(
            f"{self.path} was made with other inputs or settings: {difference}",
            hint="--overwrite replaces it, or choose another --out",
        )

    def _sort(self, tasks: Sequence[TaskResult], growth: Growth | None) -> tuple[list[str], list[str]]:
        """Fill `finished`; the names of tasks that are no part of the folder any more, and of damaged ones."""
        stale, damaged = [], []
        for task in tasks:
            if growth is not None and not growth.keeps(task):
                stale.append(task.name)
                continue
            problems = [
                f"{self.path / entry.path} {problem}" for entry in task.files() if (problem := entry.problem(self.path))
            ]
            if not problems and task.notes.get(media.IMAGES):
                digests = media.image_digests(self.path, task.shards)
                problems = [f"{self.path}: {problem}" for problem in media.problems(self.path, digests)]
            if not problems:
                self.finished[task.name] = task
                continue
            what = problems[0]
            if growth is not None and not growth.can_redo(task):
                raise CuratorError(
                    f"{what}, and {task.label}, of which it was made, is not among the files",
                    hint=f"name {task.label} too, as it was, or start afresh with --overwrite",
                )
            damaged.append(task.name)
            log.warn(f"{what}: it is written again")
        return stale, damaged

    def _reopen(self, stale: Sequence[str], is_complete: bool) -> None:
        """Make this an unfinished folder of `fingerprint`: nothing may be called complete while there is work to do.

        A stale task goes before the fingerprint changes, so that no interruption can make it part of the new one.
        """
        partial = self.path / PARTIAL
        if is_complete:
            shutil.rmtree(partial, ignore_errors=True)
        for name in stale:
            (partial / f"task-{name}.json").unlink(missing_ok=True)
        partial.mkdir(exist_ok=True)
        write_atomic(partial / "fingerprint.json", json.dumps(self.fingerprint.to_json(), indent=1).encode())
        if is_complete:
            (partial / _BASE).mkdir()
            fault_point("before_reopening")
            (self.path / MANIFEST).rename(partial / _BASE / MANIFEST)

    def restart(self) -> None:
        """Begin again in a complete folder whose content its fingerprint does not tell: what came from a stream."""
        self._clear()
        self.finished, self.complete = {}, None
        self._look(overwrite=False)

    def _previous(self) -> _Previous:
        if (self.path / MANIFEST).exists():
            manifest = Manifest.read(self.path)
            return _Previous(manifest.fingerprint, manifest.tasks, manifest, manifest)
        partial = self.path / PARTIAL
        if not (partial / "fingerprint.json").exists():
            return _Previous()
        base = Manifest.read(partial / _BASE) if (partial / _BASE / MANIFEST).exists() else None
        tasks = {task.name: task for task in base.tasks} if base else {}
        for file in sorted(partial.glob("task-*.json")):
            task = TaskResult.from_json(json.loads(file.read_bytes()))
            tasks[task.name] = task
        return _Previous(json.loads((partial / "fingerprint.json").read_bytes()), list(tasks.values()), None, base)

    def _clear(self) -> None:
        """Delete what a dataset or mixture folder holds; anything else in it is a person's own."""
        for entry in self.path.iterdir():
            if entry.name not in _OWN_NAMES and not entry.name.startswith(_TEMPORARY):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def record(self, result: TaskResult) -> None:
        """Remember a finished task, so that a killed run does not redo it."""
        write_atomic(self.path / PARTIAL / f"task-{result.name}.json", json.dumps(result.to_json()).encode())
        self.finished[result.name] = result

    def finish(
        self,
        order: Iterable[str],
        schema: pa.Schema,
        history: list[dict[str, Any]],
        timing: dict[str, Any],
        extra: dict[str, Any] | None = None,
    ) -> Manifest:
        """Write the manifest (last), sweep what an interrupted run left behind, and unlock."""
        tasks = [self.finished[name] for name in order]
        manifest = Manifest(self.fingerprint.to_json(), tasks, schema_to_json(schema), history, extra or {})
        known = {entry.path for task in tasks for entry in task.files()}
        for kind in _KINDS:
            for file in (self.path / kind).glob("**/*"):
                if file.is_file() and str(file.relative_to(self.path)) not in known:
                    file.unlink()
        (self.path / "data").mkdir(exist_ok=True)
        write_atomic(self.path / "timing.json", json.dumps(timing, indent=1).encode())
        fault_point("before_manifest")
        write_atomic(self.path / MANIFEST, manifest.to_bytes())
        shutil.rmtree(self.path / PARTIAL, ignore_errors=True)
        self._is_open = False
        self.release()
        return manifest

    def release(self) -> None:
        """Unlock; the lock file goes with the lock. Of unfinished work whole shards stay; without any, nothing does."""
        if self._lock < 0:
            return
        if self._is_open:
            self._sweep_temporaries()
        is_empty = self._is_open and self._is_new and not self.finished and not self._has_rounds()
        if is_empty:
            self._clear()
        (self.path / _LOCK).unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = -1
        if is_empty:
            with suppress(OSError):
                self.path.rmdir()

    def _sweep_temporaries(self) -> None:
        for kind in _KINDS:
            for file in (self.path / kind).glob(f"{_TEMPORARY}*"):
                file.unlink(missing_ok=True)
        media.sweep(self.path)

    def _has_rounds(self) -> bool:
        return any((self.path / PARTIAL).glob("round-*/[!.]*"))


_LOCK = ".lock"
_BASE = "base"
"""In the folder of unfinished work: the manifest from before there was more to do."""
_KINDS = ("data", "rejects", "quarantine")
_OWN_NAMES = {*_KINDS, media.MEDIA, MANIFEST, PARTIAL, "timing.json"} | {
    "mixture.json",
    "order.parquet",
    "splits.parquet",
    "tokens",
}
"""What the folders of this program hold: `--overwrite` deletes these and nothing else."""


def _lock(path: Path) -> int:
    """Hold the folder's lock file. Raises CuratorError when another process does (for longer than a second)."""
    for _ in range(10):
        descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            time.sleep(0.1)
            continue
        try:
            if os.stat(path / _LOCK).st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)
    raise CuratorError(
        f"{path} is being written by another process", hint="wait for it to end, or choose another --out"
    )


def check_columns(schema: pa.Schema, columns: Iterable[str], step: str) -> None:
    """Raise CuratorError when a step reads a column that the input does not have."""
    import difflib

    names = field_names(schema)
    for column in columns:
        if not any(name == column or name.startswith(column + ".") for name in names):
            close = difflib.get_close_matches(column, names, n=1, cutoff=0.6)
            raise CuratorError(
                f"{step} reads {column}, which the input does not have",
                hint=f"did you mean {close[0]}?" if close else "a tag step may have to run first",
            )
