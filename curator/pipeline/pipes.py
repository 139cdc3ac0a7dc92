"""Commands in a shell pipe: records come in on stdin, go out on stdout, batch by batch where the stage allows."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from curator import log
from curator.errors import CuratorError, UsageError
from curator.io.build import Builder, SourceSettings
from curator.io.dataset import BATCH_BYTES, Dataset, OutputFolder, TaskWriter, check_columns
from curator.io.manifest import Fingerprint, Ledger, TaskResult
from curator.io.media import IMAGES
from curator.io.raw import STDIN, RawReader, tell_skipped
from curator.io.remote import on_disk
from curator.io.sides import Side, pair_files
from curator.io.stream import StreamReader, StreamWriter, pass_entry
from curator.pipeline.apply import Chain, output_schema
from curator.pipeline.ingest import STEP as INGEST
from curator.pipeline.ingest import (
    WORTH_BYTES,
    account,
    build,
    find_files,
    media_notes,
    media_store,
    side_notes,
    source_steps,
)
from curator.pipeline.judge import FirstBad, judge
from curator.pipeline.passes import Options, Outcome, run_pass
from curator.schema.record import add_digests, ids_digest, row_bytes
from curator.stages.base import RowStage, Stage

STDOUT = Path("-")
_SPOOL_SHARD_BYTES = 8 * BATCH_BYTES


def is_stream(path: str) -> bool:
    """Whether an input is a stream of records: `-`, or a file that holds one."""
    return path == "-" or path.endswith(".arrow")


def run_command(
    inputs: Sequence[str],
    stages: Sequence[Stage],
    out: Path | None,
    sink: IO[bytes],
    rejects: Path | None,
    options: Options,
) -> Outcome:
    """Run stages from folders or a stream into a folder (`out`), or onto `sink` as a stream.

    Row stages stream; a dataset stage spools into a temporary folder first. Dropped rows of a stream go to the
    folder `rejects`, if given.
    """
    if out is not None and rejects is not None:
        raise UsageError("--rejects is for pipes", hint="with --out, dropped rows are in OUT/rejects")
    if len(inputs) > 1 and any(is_stream(path) for path in inputs):
        raise UsageError("a stream cannot be read together with other inputs", hint="curator concat joins folders")
    if not is_stream(inputs[0]) and out is not None:
        return run_pass([Path(path) for path in inputs], stages, out, options)
    if out is None and all(isinstance(stage, RowStage) for stage in stages):
        return _stream_rows(inputs, [stage for stage in stages if isinstance(stage, RowStage)], sink, rejects, options)
    with tempfile.TemporaryDirectory(prefix="curator-") as scratch:
        folders = [_spool(inputs[0], Path(scratch) / "in")] if is_stream(inputs[0]) else [Path(path) for path in inputs]
        outcome = run_pass(folders, stages, out or Path(scratch) / "out", options)
        if out is None:
            _send(Dataset.open(outcome.out), sink)
            if rejects is not None:
                _keep_rejects(outcome.out, rejects, options)
            outcome.out = STDOUT
    return outcome


def _source(inputs: Sequence[str]) -> tuple[pa.Schema, Iterator[pa.RecordBatch], Any]:
    """Schema, batches, and something whose `passes` or `history()` tells what is behind them once they are read."""
    if is_stream(inputs[0]):
        reader = StreamReader.open(inputs[0])
        return reader.schema, reader.batches(), reader
    dataset = Dataset.open(*inputs)
    return dataset.schema, dataset.batches(), dataset


def _passes(source: Any) -> list[dict[str, Any]]:
    return source.history() if isinstance(source, Dataset) else source.passes


def _stream_rows(
    inputs: Sequence[str], stages: Sequence[RowStage], sink: IO[bytes], rejects: Path | None, options: Options
) -> Outcome:
    schema, batches, source = _source(inputs)
    for index, stage in enumerate(stages):
        check_columns(output_schema(schema, stages[:index]), stage.reads(schema), stage.name)
    output_schema(schema, stages)
    chain = Chain(stages, schema, options.memo)
    ledger = Ledger()
    steps = [stage.describe() for stage in stages]
    with _rejects_folder(rejects, chain.schema, steps, options) as kept_rejects:
        writer = StreamWriter(sink, chain.schema)
        for batch in batches:
            kept, rejected = chain(batch)
            ledger.read += batch.num_rows
            ledger.read_ids = add_digests(ledger.read_ids, ids_digest(batch.column("id")))
            ledger.kept += kept.num_rows
            ledger.kept_ids = add_digests(ledger.kept_ids, ids_digest(kept.column("id")))
            writer.write(kept)
            for part in rejected:
                _count_dropped(part, ledger)
                if kept_rejects is not None:
                    kept_rejects.reject(part)
        if problem := ledger.problem():
            raise CuratorError(f"stream: {problem}", hint="this is a bug in a step; please report it")
        writer.close([*_passes(source), pass_entry(steps, ledger)])
    return Outcome(STDOUT, [stage.name for stage in stages], ledger, 0.0)


def _count_dropped(part: pa.RecordBatch, ledger: Ledger) -> None:
    drop = part.column("drop")
    for step, rule in zip(drop.field("step").to_pylist(), drop.field("rule").to_pylist(), strict=True):
        key = f"{step}/{rule}"
        ledger.dropped[key] = ledger.dropped.get(key, 0) + 1
    ledger.dropped_ids = add_digests(ledger.dropped_ids, ids_digest(part.column("id")))


@contextmanager
def _rejects_folder(
    path: Path | None, schema: pa.Schema, steps: list[dict[str, Any]], options: Options
) -> Iterator[TaskWriter | None]:
    """A folder for what a pipe removes: a dataset without rows, whose rejects and quarantine are filled."""
    if path is None:
        yield None
        return
    folder = OutputFolder.prepare(path, Fingerprint(tuple(steps), ({"digest": "stream"},)), options.overwrite)
    try:
        if folder.complete is not None:
            if not options.overwrite:
                raise CuratorError(f"{path} holds the rejects of an earlier run", hint="--overwrite replaces them")
            folder.restart()
        writer = TaskWriter(path, TaskResult("00000", "stream"), schema)
        writer.begin_shard("part-00000")
        yield writer
        ledger = writer.result.ledger
        ledger.read = sum(ledger.dropped.values()) + sum(ledger.quarantined.values())
        ledger.read_ids = add_digests(ledger.dropped_ids, ledger.quarantined_ids)
        folder.record(writer.close())
        folder.finish(["00000"], schema, [], {})
    finally:
        folder.release()


def _keep_rejects(out: Path, rejects: Path, options: Options) -> None:
    """Copy what a spooled pass removed into a rejects folder."""
    dataset = Dataset.open(out)
    with _rejects_folder(rejects, dataset.schema, dataset.manifest.fingerprint["steps"], options) as writer:
        assert writer is not None
        for batch in dataset.rejects():
            writer.reject(batch)


def _send(dataset: Dataset, sink: IO[bytes]) -> None:
    writer = StreamWriter(sink, dataset.schema)
    for batch in dataset.batches():
        writer.write(batch)
    writer.close(dataset.history())


def _spool(path: str, folder: Path) -> Path:
    """A stream as a dataset folder; shards are cut at fixed amounts of text, whatever the batches were."""
    reader = StreamReader.open(path)
    output = OutputFolder.prepare(folder, Fingerprint(({"step": "stream"},), ()), False)
    try:
        writer = TaskWriter(folder, TaskResult("00000", "stream"), reader.schema)
        number, size = 0, 0
        writer.begin_shard(f"part-{number:05d}")
        for batch in reader.batches():
            ledger = writer.result.ledger
            ledger.read += batch.num_rows
            ledger.read_ids = add_digests(ledger.read_ids, ids_digest(batch.column("id")))
            writer.keep(batch)
            size += int(row_bytes(batch).sum())
            if size >= _SPOOL_SHARD_BYTES:
                number, size = number + 1, 0
                writer.begin_shard(f"part-{number:05d}")
        output.record(writer.close())
        output.finish(["00000"], reader.schema, reader.passes, {})
    finally:
        output.release()
    return folder


@contextmanager
def as_folders(inputs: Sequence[str]) -> Iterator[list[Path]]:
    """Inputs as dataset folders, a stream spooled for as long as the context lasts: for commands that read twice."""
    if len(inputs) > 1 and any(is_stream(path) for path in inputs):
        raise UsageError("a stream cannot be read together with other inputs", hint="curator concat joins folders")
    if not is_stream(inputs[0]):
        yield [Path(path) for path in inputs]
        return
    with tempfile.TemporaryDirectory(prefix="curator-") as scratch:
        yield [_spool(inputs[0], Path(scratch) / "in")]


def ingest_to_stream(
    patterns: Sequence[str], source: SourceSettings, sink: IO[bytes], rejects: Path | None, options: Options
) -> Outcome:
    """Raw files (or stdin) as a stream of records; bad rows go to `rejects`, or are counted."""
    files, skipped = find_files(patterns, source)
    tell_skipped(skipped)
    files, sides = pair_files(files, source.join)
    ledger = Ledger()
    notes: dict[str, int] = {}
    steps = list(source_steps(source))
    first = FirstBad()
    schema = source.schema()
    with _rejects_folder(rejects, schema, steps, options) as kept_rejects:
        writer = StreamWriter(sink, schema)
        for path, relative in files:
            side = sides.get(relative) and Side.open(*sides[relative], source.max_record_bytes)
            with (
                on_disk(path) as readable,
                RawReader(readable, source.max_record_bytes, source.header, source.columns) as reader,
            ):
                media = media_store(source, path, None)
                builder = Builder(source, relative, side, media)
                is_worth = path != STDIN and side is None and os.path.getsize(readable) >= WORTH_BYTES
                for built in build(reader, builder, is_worth):
                    account(ledger, built)
                    ledger.kept += built.records.num_rows
                    ledger.kept_ids = add_digests(ledger.kept_ids, ids_digest(built.records.column("id")))
                    for reason in built.bad.column("reason").to_pylist():
                        key = reason.partition(":")[0]
                        ledger.quarantined[key] = ledger.quarantined.get(key, 0) + 1
                    bad_ids = ids_digest(built.bad.column("id"))
                    ledger.quarantined_ids = add_digests(ledger.quarantined_ids, bad_ids)
                    first.look(built.bad)
                    if kept_rejects is not None:
                        kept_rejects.quarantine(built.bad)
                    for adapter, count in built.adapters.items():
                        notes[f"rows as {adapter}"] = notes.get(f"rows as {adapter}", 0) + count
                    writer.write(built.records)
                for note, count in {f"read as {reader.container}": 1, **side_notes(side), **media_notes(media)}.items():
                    if count:
                        notes[note] = notes.get(note, 0) + count
        if problem := ledger.problem():
            raise CuratorError(f"ingest: {problem}", hint="this is a bug in an adapter; please report it")
        judge(ledger, first, source, "--rejects DIR keeps them" if rejects is None else f"they are in {rejects}")
        writer.close([pass_entry(steps, ledger)])
    outcome = Outcome(STDOUT, [INGEST], ledger, 0.0)
    outcome.notes = {"detected": notes, "quarantined_by_reason": dict(sorted(ledger.quarantined.items()))}
    if notes.get(IMAGES):
        log.warn("images are not stored in a pipe, only their digests; ingest into a folder (--out) keeps them")
    if sum(ledger.quarantined.values()) and rejects is None:
        log.info("quarantined rows are only counted in a pipe; --rejects DIR keeps them")
    return outcome
