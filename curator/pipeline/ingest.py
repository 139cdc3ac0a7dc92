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
from curator.io.build import Builder, Built, SourceSettings
from curator.io.dataset import OutputFolder, TaskWriter
from curator.io.manifest import Fingerprint, Ledger, TaskResult, total_ledger
from curator.io.raw import (
    STDIN,
    Container,
    RawFile,
    RawReader,
    container_of,
    expand,
    name_mismatch,
    raw_file,
    split_lines,
    tell_skipped,
)
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

    def run(self, report: Report) -> TaskResult:
        with RawReader(self.file.path, self.source.max_record_bytes, self.source.header, self.source.columns) as reader:
            return self._write(reader, report)

    def _write(self, reader: RawReader, report: Report) -> TaskResult:
        rows = reader.part(self.start, self.stop, self.first_row) if self.stop else reader.rows()
        writer = TaskWriter(self.folder, TaskResult(self.name, self.label), self.source.schema())
        shard = None
        for built in Builder(self.source, self.file.relative).build(rows):
            number = built.first_offset // self.source.shard_bytes
            if number != shard:
                shard = number
                writer.begin_shard(f"part-{self.name[:5]}-{number:05d}")
            account(writer.result.ledger, built)
            writer.keep(built.records)
            writer.quarantine(built.bad)
            for adapter, count in built.adapters.items():
                _note(writer.result, f"rows as {adapter}", count)
            report(built.text_bytes)
        if shard is None:
            writer.begin_shard(f"part-{self.name[:5]}-{self.start // self.source.shard_bytes:05d}")
        _note(writer.result, f"read as {reader.container}", 1)
        _note(writer.result, "blank lines", reader.blank_lines)
        _note(writer.result, "byte order marks", reader.byte_order_marks)
        return writer.close()


def account(ledger: Ledger, built: Built) -> None:
    ledger.read += built.num_rows
    ledger.read_ids = add_digests(ledger.read_ids, built.ids)


def _note(result: TaskResult, key: str, count: int) -> None:
    if count:
        result.notes[key] = result.notes.get(key, 0) + count


def source_fingerprint(files: Sequence[RawFile], source: SourceSettings) -> Fingerprint:
    """What the folder of a source is a function of."""
    step = {"step": STEP, "version": VERSION, "settings": asdict(source)}
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
    raw_files = [raw_file(path, relative) for path, relative in files]
    fingerprint = source_fingerprint(raw_files, source)
    folder = OutputFolder.prepare(out, fingerprint, options.overwrite)
    try:
        if folder.complete is not None:
            outcome = Outcome(out, [STEP], folder.complete.ledger(), time.time() - started, True)
            outcome.notes = _notes(folder.complete.tasks)
            return outcome
        _open_all(raw_files, source)
        tasks = [task for index, file in enumerate(raw_files) for task in _plan(index, file, source, out)]
        missing = [task for task in tasks if task.name not in folder.finished]
        total = sum(file.size for file in raw_files)
        with log.progress(total, f"ingest {source.name}", "bytes") as bar:
            for _, result in engine_for(options.workers, total, WORTH_BYTES).run(missing, bar.advance):
                folder.record(result)
        results = [folder.finished[task.name] for task in tasks]
        _refuse_all_bad(results, source, out)
        manifest = folder.finish(
            [task.name for task in tasks], source.schema(), [], timing(started, [file.path for file in raw_files])
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


def _plan(index: int, file: RawFile, source: SourceSettings, out: Path) -> list[IngestTask]:
    """One task a file; a plain JSON-lines file larger than a shard is cut at the borders of its shards."""
    splits = file.size > source.shard_bytes and os.path.isfile(file.path)
    if splits and container_of(file.path, source.header, source.columns) == Container("none", "jsonl"):
        parts = split_lines(file.path, source.shard_bytes, source.max_record_bytes)
        return [
            IngestTask(f"{index:05d}-{number:05d}", file.relative, file, source, out, start, stop, first_row)
            for number, (start, stop, first_row) in enumerate(parts)
        ]
    return [IngestTask(f"{index:05d}-00000", file.relative, file, source, out)]


def _open_all(files: Sequence[RawFile], source: SourceSettings) -> None:
    """Open every file before work starts, so that bad ones are named in the first second; warm what workers need."""
    layouts: set[str] = set()
    faults: dict[str, CuratorError] = {}
    for file in files:
        try:
            container = container_of(file.path, source.header, source.columns)
            layouts.add(container.layout)
            if (told := name_mismatch(file.relative, container)) is not None:
                log.warn(told)
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
