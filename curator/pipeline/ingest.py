"""Raw files into a dataset folder: files are cut into shards by input position, each part read by any worker."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from curator import log
from curator.engine.base import Report
from curator.engine.local import engine_for
from curator.errors import CuratorError
from curator.io.adapters import ADAPTERS
from curator.io.build import Builder, Built, SourceSettings
from curator.io.dataset import OutputFolder, TaskWriter
from curator.io.manifest import Fingerprint, Ledger, TaskResult, total_ledger
from curator.io.media import IMAGES, MediaStore, describe
from curator.io.raw import (
    STDIN,
    Container,
    RawFile,
    RawReader,
    container_of,
    expand,
    holds_any,
    raw_file,
    split_lines,
    tell_skipped,
)
from curator.io.sides import Side, pair_files
from curator.pipeline.passes import Options, Outcome, timing
from curator.schema.record import add_digests

STEP = "ingest"
VERSION = "1"
WORTH_BYTES = 8 << 20
"""Raw bytes from which workers are worth their start."""


@dataclass(frozen=True)
class IngestTask:
    """Reads one file, or the lines of one that begin in [start, stop), into shards."""

    name: str
    label: str
    file: RawFile
    source: SourceSettings
    folder: Path
    start: int = 0
    stop: int = 0
    """Bytes; 0 reads the whole file."""
    first_row: int = 0
    side: RawFile | None = None
    """Answers that join the rows by id."""
    in_kernels: bool = False
    """Whether its rows are worth the half second that kernels take to load; the records are the same."""

    def run(self, report: Report) -> TaskResult:
        with RawReader(self.file.path, self.source.max_record_bytes) as reader:
            return self._write(reader, report)

    def _write(self, reader: RawReader, report: Report) -> TaskResult:
        writer = TaskWriter(self.folder, TaskResult(self.name, self.label), self.source.schema())
        shard = None
        side = None
        if self.side is not None:
            side = Side.open(self.side.path, self.side.relative, self.source.max_record_bytes)
        media = media_store(self.source, self.file.path, self.folder)
        for built in self._built(reader, Builder(self.source, self.file.relative, side, media)):
            number = built.first_offset // self.source.shard_bytes
            if number != shard:
                shard = number
                writer.begin_shard(f"part-{self.name[:5]}-{number:05d}")
            account(writer.result.ledger, built)
            writer.keep(built.records, built.kept_ids)
            writer.quarantine(built.bad)
            for adapter, count in built.adapters.items():
                _note(writer.result, f"rows as {adapter}", count)
            for name, count in built.counts.items():
                _note(writer.result, name, count)
            report(built.text_bytes)
        if shard is None:
            writer.begin_shard(f"part-{self.name[:5]}-{self.start // self.source.shard_bytes:05d}")
        for note, count in (side_notes(side) | media_notes(media)).items():
            _note(writer.result, note, count)
        _note(writer.result, f"read as {reader.container}", 1)
        _note(writer.result, "blank lines", reader.blank_lines)
        _note(writer.result, "byte order marks", reader.byte_order_marks)
        return writer.close()

    def _built(self, reader: RawReader, builder: Builder) -> Iterator[Built]:
        if self.in_kernels:
            from curator.io.columns import ColumnBuilder

            blocks = reader.part_blocks(self.start, self.stop, self.first_row) if self.stop else reader.blocks()
            return ColumnBuilder(builder).build(blocks)
        return builder.build(reader.part(self.start, self.stop, self.first_row) if self.stop else reader.rows())


def account(ledger: Ledger, built: Built) -> None:
    ledger.read += built.num_rows
    ledger.read_ids = add_digests(ledger.read_ids, built.kept_ids, built.bad_ids)


def _note(result: TaskResult, key: str, count: int) -> None:
    if count:
        result.notes[key] = result.notes.get(key, 0) + count


def side_notes(side: Side | None) -> dict[str, int]:
    """What there is to tell of a side file."""
    return {} if side is None else {"answers joined": side.met, "questions without an answer": side.unanswered}


def media_store(source: SourceSettings, path: str, folder: Path | None) -> MediaStore:
    """Where the images of a raw file go, and the folder that their paths are relative to."""
    is_local = path != STDIN and "://" not in path
    root = source.image_root or (os.path.dirname(os.path.abspath(path)) if is_local else None)
    return MediaStore(folder, None if root is None else Path(root))


def media_notes(media: MediaStore) -> dict[str, int]:
    """What there is to tell of images."""
    return {IMAGES: media.placed, "images that are missing": media.missing}


@dataclass(frozen=True)
class SourceFiles:
    """The files of a source: those that hold records, and by their relative paths the side files that join them."""

    records: list[RawFile]
    sides: dict[str, RawFile]

    @classmethod
    def find(cls, files: Sequence[tuple[str, str]], source: SourceSettings) -> "SourceFiles":
        """Describe files with their digests. Raises CuratorError when a side file that was asked for is missing."""
        named, sides = pair_files(files, source.join)
        return cls([raw_file(*file) for file in named], {of: raw_file(*side) for of, side in sides.items()})

    def fingerprint(self, source: SourceSettings) -> Fingerprint:
        """What the folder of the source is a function of."""
        step = {"step": STEP, "version": VERSION, "settings": asdict(source)}
        files = [*self.records, *self.sides.values()]
        return Fingerprint((step,), tuple({"file": file.relative, "digest": file.digest} for file in files))


def ingest(patterns: Sequence[str], source: SourceSettings, out: Path, options: Options) -> Outcome:
    """Read raw files into `out`. What cannot be read is in `quarantine/` with its place, reason and bytes.

    Raises CuratorError when nothing matches, a compressed stream is damaged, or every row is bad.
    """
    if list(patterns) == [STDIN]:
        with _spooled(out) as path:
            return _ingest([(path, STDIN)], source, out, options)
    files, skipped = expand(patterns)
    tell_skipped(skipped)
    inside = [path for path, _ in files if Path(path).resolve().is_relative_to(out.resolve())]
    if inside:
        raise CuratorError(f"{inside[0]} lies in --out {out}", hint="every step writes a folder of its own")
    return _ingest(files, source, out, options)


def _ingest(files: Sequence[tuple[str, str]], source: SourceSettings, out: Path, options: Options) -> Outcome:
    started = time.time()
    found = SourceFiles.find(files, source)
    raw_files = found.records
    folder = OutputFolder.prepare(out, found.fingerprint(source), options.overwrite)
    try:
        if folder.complete is not None:
            outcome = Outcome(out, [STEP], folder.complete.ledger(), time.time() - started, True)
            outcome.notes = _notes(folder.complete.tasks)
            return outcome
        _open_all([*raw_files, *found.sides.values()])
        tasks = [
            task
            for index, file in enumerate(raw_files)
            for task in _plan(index, file, source, out, found.sides.get(file.relative))
        ]
        missing = [task for task in tasks if task.name not in folder.finished]
        total = sum(file.size for file in raw_files)
        with log.progress(total, f"ingest {source.name}", "bytes") as bar:
            for _, result in engine_for(options.workers, total, WORTH_BYTES).run(missing, bar.advance):
                folder.record(result)
        results = [folder.finished[task.name] for task in tasks]
        _refuse_all_bad(results, source, out)
        shards = [entry for result in results for entry in result.shards]
        images = describe(out, shards, sum(result.notes.get(IMAGES, 0) for result in results))
        manifest = folder.finish(
            [task.name for task in tasks],
            source.schema(),
            [],
            timing(started, [file.path for file in raw_files]),
            images,
        )
    finally:
        folder.release()
    outcome = Outcome(out, [STEP], manifest.ledger(), time.time() - started)
    outcome.notes = _notes(manifest.tasks)
    return outcome


@contextmanager
def _spooled(out: Path) -> Iterator[str]:
    """Stdin as a file beside the output, for as long as the context lasts: digests and row counts need all of it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix=f".stdin-{out.name}-", dir=out.parent) as file:
        shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        file.flush()
        yield file.name


def _plan(
    index: int, file: RawFile, source: SourceSettings, out: Path, side: RawFile | None = None
) -> list[IngestTask]:
    """One task a file; a plain JSON-lines file larger than a shard is cut at the borders of its shards, unless its rows
    build on rows before them or meet those of a side file."""
    is_cut = file.size > source.shard_bytes and side is None and container_of(file.path) == Container("none", "jsonl")
    if is_cut and not holds_any(file.path, marks(source.adapter)):
        parts = split_lines(file.path, source.shard_bytes, source.max_record_bytes)
        return [
            IngestTask(
                f"{index:05d}-{number:05d}", file.relative, file, source, out, start, stop, first_row, None, True
            )
            for number, (start, stop, first_row) in enumerate(parts)
        ]
    return [IngestTask(f"{index:05d}-00000", file.relative, file, source, out, side=side)]


def marks(adapter: str | None) -> list[bytes]:
    """The bytes that tell files of adapters with a state over a file."""
    return [known.mark for known in ADAPTERS.values() if known.begin is not None and adapter in (None, known.name)]


def _open_all(files: Sequence[RawFile]) -> None:
    """Open every file before work starts, so that bad ones are named in the first second; warm what workers need."""
    layouts: set[str] = set()
    faults: dict[str, CuratorError] = {}
    for file in files:
        try:
            layouts.add(container_of(file.path).layout)
        except CuratorError as error:
            faults[file.relative] = error
    if faults:
        first, *others = faults.values()
        if not others:
            raise first
        shown = ", ".join(list(faults)[1:6]) + (", ..." if len(others) > 5 else "")
        raise CuratorError(f"{first.message} (nor can be read: {shown})", first.hint)
    if "array" in layouts:
        from curator.kernels.warm import warm

        warm()


def _refuse_all_bad(results: Sequence[TaskResult], source: SourceSettings, out: Path) -> None:
    ledger = total_ledger(results)
    if ledger.read and not ledger.kept:
        entry = next(entry for result in results for entry in result.quarantine)
        row = pq.ParquetFile(out / entry.path).read_row_group(0).slice(0, 1).to_pylist()[0]
        shown = row["raw"][:200].decode(errors="replace")
        raise CuratorError(
            f"source {source.name}: none of {ledger.read:,} rows could be read; row {row['row']} of {row['file']}: "
            f"{row['reason']}",
            hint=f"the row begins: {shown}",
        )


def _notes(results: Sequence[TaskResult]) -> dict[str, Any]:
    notes: dict[str, int] = {}
    reasons: dict[str, int] = {}
    for result in results:
        for key, count in result.notes.items():
            notes[key] = notes.get(key, 0) + count
        for reason, count in result.ledger.quarantined.items():
            reasons[reason] = reasons.get(reason, 0) + count
    return {"detected": dict(sorted(notes.items())), "quarantined_by_reason": dict(sorted(reasons.items()))}
