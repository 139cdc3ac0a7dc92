"""Raw files into a dataset folder: files are cut into shards by input position, each part read by any worker."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from curator import log
from curator.engine.base import Report
from curator.engine.local import engine_for
from curator.errors import CuratorError, NothingFoundError
from curator.io.adapters import ADAPTERS
from curator.io.build import Builder, Built, SourceSettings
from curator.io.dataset import Growth, OutputFolder, TaskWriter
from curator.io.manifest import Fingerprint, Ledger, TaskResult
from curator.io.media import IMAGES, MediaStore, describe
from curator.io.raw import (
    IN_BLOCKS,
    STDIN,
    Container,
    Found,
    RawFile,
    RawReader,
    container_of,
    expand,
    holds_any,
    name_mismatch,
    one_by_one,
    raw_file,
    split_lines,
    tell_skipped,
)
from curator.io.remote import Spool, is_remote
from curator.io.sides import Side, pair_files
from curator.pipeline.increment import Entry, Increment, increment
from curator.pipeline.judge import judge_tasks
from curator.pipeline.passes import Options, Outcome, timing
from curator.schema.record import add_digests

STEP = "ingest"
VERSION = "1"
WORTH_BYTES = 8 << 20
"""Raw bytes from which workers and kernels are worth their start."""
_LONG_WARM_SECONDS = 3.0


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
    generation: int = 0
    in_kernels: bool = False
    """Whether its rows are worth the half second that kernels take to load; the records are the same."""

    def run(self, report: Report) -> TaskResult:
        with RawReader(self.file.path, self.source.max_record_bytes, self.source.header, self.source.columns) as reader:
            return self._write(reader, report)

    def _write(self, reader: RawReader, report: Report) -> TaskResult:
        writer = TaskWriter(self.folder, TaskResult(self.name, self.label), self.source.schema())
        shard = None
        side = None
        if self.file.side is not None:
            side = Side.open(self.file.side.path, self.file.side.relative, self.source.max_record_bytes)
        media = media_store(self.source, self.file.path, self.folder)
        for built in self._built(reader, Builder(self.source, self.file.relative, side, media, self.generation)):
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
        if self.stop:
            rows = reader.part(self.start, self.stop, self.first_row)
            return _in_kernels(builder, rows) if self.in_kernels else builder.build(one_by_one(rows))
        return build(reader, builder, self.in_kernels and self.file.side is None)


def build(reader: RawReader, builder: Builder, in_kernels: bool) -> Iterator[Built]:
    """The records of a file, read by kernels if its rows lie in it as they are."""
    if in_kernels and reader.container.layout in IN_BLOCKS:
        return _in_kernels(builder, reader.blocks())
    return builder.build(reader.rows())


def _in_kernels(builder: Builder, rows: Iterator[Found]) -> Iterator[Built]:
    from curator.io.columns import ColumnBuilder

    return ColumnBuilder(builder).build(rows)


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


def source_files(files: Sequence[tuple[str, str]], source: SourceSettings, spool: Spool) -> list[RawFile]:
    """The files that hold records, each with its side file; a digest covers both.

    Remote ones are fetched unless their digest is known for the version they have. Raises CuratorError when a side file
    that was asked for is missing.
    """
    named, sides = pair_files(files, source.join)
    digests = spool.digests([path for path, _ in named if is_remote(path)])
    return [_described(path, relative, digests, sides) for path, relative in named]


def known_files(files: Sequence[tuple[str, str]], source: SourceSettings, out: Path) -> tuple[list[RawFile], str]:
    """The files whose digest is known without fetching; and which others there are, as text, empty when none."""
    named, sides = pair_files(files, source.join)
    urls = [path for path, _ in named if is_remote(path)]
    digests = Spool(out).known_digests(urls)
    unknown = [url for url in urls if url not in digests]
    known = [_described(path, relative, digests, sides) for path, relative in named if path not in unknown]
    return known, f"{len(unknown):,} files, {unknown[0]} first" if unknown else ""


def _described(
    path: str, relative: str, digests: Mapping[str, tuple[int, str]], sides: Mapping[str, tuple[str, str]]
) -> RawFile:
    file = RawFile(path, relative, *digests[path]) if path in digests else raw_file(path, relative)
    if relative in sides:
        side = raw_file(*sides[relative])
        file = replace(file, side=side, digest=f"{file.digest}+{side.digest}")
    return file


def source_steps(source: SourceSettings) -> tuple[dict[str, Any], ...]:
    """What the records of a source are a function of, besides its files."""
    return ({"step": STEP, "version": VERSION, "settings": source.describe()},)


@dataclass
class SourceFolder:
    """The named files of a source, and how a folder goes on with them from whatever it holds."""

    files: Sequence[RawFile]
    source: SourceSettings
    plan: Increment = field(init=False)
    fingerprint: Fingerprint = field(init=False)
    """Of a new folder."""
    _grown: dict[str, Increment] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.plan = increment((), self.files, self.source.replace)
        self.fingerprint = self._fingerprint(self.plan)

    def _fingerprint(self, plan: Increment) -> Fingerprint:
        return Fingerprint(source_steps(self.source), plan.inputs())

    def grow(self, previous: dict[str, Any], base: dict[str, Any] | None) -> Growth | None:
        """See `io.dataset.Grow`."""
        if previous["steps"] != self.fingerprint.to_json()["steps"]:
            return None
        plan = increment(base["inputs"] if base else (), self.files, self.source.replace)
        fingerprint = self._fingerprint(plan)
        self._grown[fingerprint.digest()] = plan
        before = [Entry(**item) for item in previous["inputs"]]

        def keeps(task: TaskResult) -> bool:
            if not plan.entries:
                return not before
            index = _file_number(task.name)
            if self.source.retry_failed and task.ledger.quarantined and index in plan.at_hand:
                return False
            return index < min(len(before), len(plan.entries)) and before[index] == plan.entries[index]

        is_all = all(index in plan.at_hand for index, _ in plan.live())
        return Growth(fingerprint, keeps, is_all, lambda task: _file_number(task.name) in plan.at_hand)

    def settle(self, fingerprint: Fingerprint) -> bool:
        """Follow the fingerprint that the folder has taken; whether it is one that had been complete before."""
        self.plan = self._grown.get(fingerprint.digest(), self.plan)
        return self.plan.generation > 0


def _file_number(task: str) -> int:
    return int(task.partition("-")[0])


def ingest(patterns: Sequence[str], source: SourceSettings, out: Path, options: Options) -> Outcome:
    """Read raw files into `out`. What cannot be read is in `quarantine/` with its place, reason and bytes.

    A complete folder of the same settings takes in what it does not hold yet. Raises CuratorError when nothing
    matches, a compressed stream is damaged, or more rows are bad than the source allows.
    """
    if list(patterns) == [STDIN]:
        with _spooled(out) as path:
            return _ingest([(path, STDIN)], source, out, options, Spool(out))
    files, skipped = find_files(patterns, source)
    tell_skipped(skipped)
    local = [path for path, _ in files if not is_remote(path)]
    inside = [path for path in local if Path(path).resolve().is_relative_to(out.resolve())]
    if inside:
        raise CuratorError(f"{inside[0]} lies in --out {out}", hint="every step writes a folder of its own")
    with Spool(out) as spool:
        return _ingest(files, source, out, options, spool)


def find_files(patterns: Sequence[str], source: SourceSettings) -> tuple[list[tuple[str, str]], list[str]]:
    """Files behind patterns as (path, relative path), and what was skipped. Raises NothingFoundError for a pattern
    that matches nothing, unless the source allows that."""
    matching = []
    for pattern in patterns if source.allow_empty else ():
        try:
            expand([pattern])
            matching.append(pattern)
        except NothingFoundError as error:
            log.warn(f"{error.message} ({error.hint})")
    return expand(matching if source.allow_empty else patterns)


def on_disk(files: Sequence[RawFile], spool: Spool) -> list[RawFile]:
    """The same files, every one where workers can read it."""
    copies = spool.copies([file.path for file in files if is_remote(file.path)])
    return [replace(file, path=copies.get(file.path, file.path)) for file in files]


def _ingest(
    files: Sequence[tuple[str, str]], source: SourceSettings, out: Path, options: Options, spool: Spool
) -> Outcome:
    started = time.time()
    joining = SourceFolder(source_files(files, source, spool), source)
    folder = OutputFolder.prepare(out, joining.fingerprint, options.overwrite, joining.grow)
    try:
        told = joining.settle(folder.fingerprint)
        plan = joining.plan
        if told and (plan.new or plan.changed or plan.renamed or plan.absent):
            log.info(f"{out}: {plan.told()}")
        if folder.complete is not None:
            outcome = Outcome(out, [STEP], folder.complete.ledger(), time.time() - started, True)
            outcome.notes = _notes(folder.complete.tasks, plan if told else None)
            return outcome
        names, missing = _work(plan, folder, source, out, spool)
        total = sum(file.size for file in {task.file.relative: task.file for task in missing}.values())
        with log.progress(total, f"ingest {source.name}", "bytes") as bar:
            for _, result in engine_for(options.workers, total, WORTH_BYTES).run(missing, bar.advance):
                folder.record(result)
        if not names:
            names = [_write_nothing(folder, source)]
        _judge(plan, folder, names, source)
        results = [folder.finished[name] for name in names]
        shards = [entry for result in results for entry in result.shards]
        images = describe(out, shards, sum(result.notes.get(IMAGES, 0) for result in results))
        extra = {"generations": _generations(plan, folder, names), **images}
        times = {**timing(started, [path for path, _ in files]), "fetched": spool.memory()}
        manifest = folder.finish(names, source.schema(), [], times, extra)
    finally:
        folder.release()
    outcome = Outcome(out, [STEP], manifest.ledger(), time.time() - started)
    outcome.notes = _notes(manifest.tasks, plan if told else None)
    return outcome


def _work(
    plan: Increment, folder: OutputFolder, source: SourceSettings, out: Path, spool: Spool
) -> tuple[list[str], list[IngestTask]]:
    """The names of all tasks of the folder in order, and the tasks that are not done."""
    known: dict[int, list[str]] = {}
    for task in folder.base.tasks if folder.base else ():
        known.setdefault(_file_number(task.name), []).append(task.name)
    planned: dict[int, list[str]] = {}
    to_read = []
    for index, entry in plan.live():
        # What a complete folder held needs its raw file only where shards of it are damaged.
        if entry.generation < plan.generation and all(name in folder.finished for name in known[index]):
            planned[index] = known[index]
        else:
            to_read.append(index)
    files = on_disk([plan.at_hand[index] for index in to_read], spool)
    _open_all([*files, *(file.side for file in files if file.side is not None)], source)
    missing: list[IngestTask] = []
    is_worth = sum(file.size for file in files) >= WORTH_BYTES
    if is_worth:
        _warm_kernels()
    for index, file in zip(to_read, files, strict=True):
        tasks = _plan(index, file, source, out, plan.entries[index].generation, is_worth)
        planned[index] = [task.name for task in tasks]
        missing += [task for task in tasks if task.name not in folder.finished]
    return [name for index, _ in plan.live() for name in planned[index]], missing


def _warm_kernels() -> None:
    from curator.io.columns import warm

    started = time.monotonic()
    warm()
    if time.monotonic() - started > _LONG_WARM_SECONDS:
        log.info(f"ingest: compiled its kernels in {time.monotonic() - started:.1f} s; the next run loads them")


def _write_nothing(folder: OutputFolder, source: SourceSettings) -> str:
    """The task of a source without files: an empty shard, for its schema."""
    name = "00000-00000"
    if name not in folder.finished:
        writer = TaskWriter(folder.path, TaskResult(name, "no file"), source.schema())
        writer.begin_shard(f"part-{name}")
        folder.record(writer.close())
    return name


def _judge(plan: Increment, folder: OutputFolder, names: Sequence[str], source: SourceSettings) -> None:
    """Judge what this run brings by itself: old rows must not water a bad file down, nor be judged again."""
    if folder.base is not None and plan.entries:
        names = [name for name in names if plan.entries[_file_number(name)].generation == plan.generation]
    if names:
        judge_tasks([folder.finished[name] for name in names], source, folder.path)


def _generations(plan: Increment, folder: OutputFolder, names: Sequence[str]) -> list[dict[str, int]]:
    """What each ingest run brought that is there still: its number, files, and records kept."""
    counts: dict[int, dict[str, int]] = {}
    for _, entry in plan.live():
        count = counts.setdefault(entry.generation, {"generation": entry.generation, "files": 0, "kept": 0})
        count["files"] += 1
    for name in names if plan.entries else ():
        counts[plan.entries[_file_number(name)].generation]["kept"] += folder.finished[name].ledger.kept
    return [counts[generation] for generation in sorted(counts)]


@contextmanager
def _spooled(out: Path) -> Iterator[str]:
    """Stdin as a file beside the output, for as long as the context lasts: digests and row counts need all of it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix=f".stdin-{out.name}-", dir=out.parent) as file:
        shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        file.flush()
        yield file.name


def _plan(
    index: int, file: RawFile, source: SourceSettings, out: Path, generation: int, in_kernels: bool
) -> list[IngestTask]:
    """One task a file; a plain JSON-lines file larger than a shard is cut at the borders of its shards, unless its rows
    build on rows before them or meet those of a side file."""
    task = IngestTask(
        f"{index:05d}-00000", file.relative, file, source, out, generation=generation, in_kernels=in_kernels
    )
    is_cut = file.size > source.shard_bytes and file.side is None and os.path.isfile(file.path)
    is_cut = is_cut and container_of(file.path, source.header, source.columns) == Container("none", "jsonl")
    if is_cut and not holds_any(file.path, marks(source.adapter)):
        parts = split_lines(file.path, source.shard_bytes, source.max_record_bytes)
        return [
            replace(task, name=f"{index:05d}-{number:05d}", start=start, stop=stop, first_row=first_row)
            for number, (start, stop, first_row) in enumerate(parts)
        ]
    return [task]


def marks(adapter: str | None) -> list[bytes]:
    """The bytes that tell files of adapters with a state over a file."""
    return [known.mark for known in ADAPTERS.values() if known.begin is not None and adapter in (None, known.name)]


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


def _notes(results: Sequence[TaskResult], plan: Increment | None) -> dict[str, Any]:
    notes: dict[str, int] = {}
    reasons: dict[str, int] = {}
    for result in results:
        for key, count in result.notes.items():
            notes[key] = notes.get(key, 0) + count
        for reason, count in result.ledger.quarantined.items():
            reasons[reason] = reasons.get(reason, 0) + count
    found = {"detected": dict(sorted(notes.items())), "quarantined_by_reason": dict(sorted(reasons.items()))}
    return found if plan is None else {**found, "files": plan.notes()}
