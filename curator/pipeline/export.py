"""Records of a folder or stream into one file (or onto stdout) in a form that other tools read."""

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from curator import log
from curator.errors import CuratorError, UsageError
from curator.io.adapters.base import json_text
from curator.io.dataset import Dataset
from curator.io.export import TARGETS
from curator.io.export.base import Exported, Unrenderable, export_record
from curator.io.manifest import placing
from curator.io.media import find_image, folders_with_media
from curator.io.stream import StreamReader
from curator.pipeline.pipes import is_stream
from curator.schema.check import did_you_mean

ENDINGS = (".jsonl", ".json", ".jsonl.gz", ".json.gz", ".jsonl.zst", ".json.zst")
_EXAMPLES = 3


@dataclass
class ExportSettings:
    """What to write, and how."""

    target: str
    with_tags: bool = False
    """Add filled tags and scores under `metadata`."""
    skips: bool = False
    """Leave out records that the form cannot hold, and name them in a file beside the output."""
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.target not in TARGETS:
            raise UsageError(f"no export target {self.target!r}", hint=did_you_mean(self.target, TARGETS))


@dataclass
class ExportOutcome:
    """The account of an export: read = restored + rendered + skipped."""

    out: str
    target: str
    read: int = 0
    restored: int = 0
    """Written as the objects they came as."""
    rendered: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    """Records by what the form has no place for; it stands in their `metadata`."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Records by why the form cannot hold them."""
    examples: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        names = ("out", "target", "read", "restored", "rendered", "lost", "skipped")
        return {name: getattr(self, name) for name in names}


def export(path: str, settings: ExportSettings, out: Path | None, sink: IO[bytes] | None = None) -> ExportOutcome:
    """Write the records of a folder or stream to the file `out`, or to `sink` as JSON lines, batch by batch.

    Raises CuratorError when a record cannot be written in the form and is not to be skipped; `out` is not there then.
    """
    if out is not None:
        _require_name(out, settings)
    outcome = ExportOutcome("-" if out is None else str(out), settings.target)
    skipped = None if out is None else out.with_name(f"{out.name}.skipped.jsonl")
    with ExitStack() as stack:
        if out is None:
            assert sink is not None
            write = _Writer(sink, is_array=False)
        else:
            stream = stack.enter_context(_placed(out))
            write = _Writer(stack.enter_context(_compressed(stream, out)), ".json" in out.suffixes)
        names: IO[bytes] | None = None
        media = _media(path)
        for record in _records(path):
            outcome.read += 1
            try:
                exported = export_record(record, TARGETS[settings.target], settings.with_tags, media)
            except Unrenderable as problem:
                reason = str(problem)
                outcome.skipped[reason] = outcome.skipped.get(reason, 0) + 1
                if len(outcome.examples) < _EXAMPLES:
                    outcome.examples.append(record["id"])
                if settings.skips and skipped is not None:
                    names = names or stack.enter_context(_placed(skipped))
                    names.write(f'{{"id":{json_text(record["id"])},"reason":{json_text(reason)}}}\n'.encode())
                continue
            _count(outcome, exported)
            # Once a record is in the way nothing is left to write for; the rest is read to count what else is.
            if settings.skips or not outcome.skipped:
                write(exported.text)
        if outcome.skipped and not settings.skips:
            raise _refusal(outcome)
        write.end()
    if skipped is not None and names is None:
        # A file of an earlier run would name records that are in this one.
        skipped.unlink(missing_ok=True)
    _say(outcome, skipped if names is not None else None)
    return outcome


def _require_name(out: Path, settings: ExportSettings) -> None:
    if not out.name.endswith(ENDINGS):
        raise UsageError(f"--out {out}: what should be written?", hint=f"end the name in {', '.join(ENDINGS)}")
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder", hint="an export is one file")
    if out.exists() and not settings.overwrite:
        raise UsageError(f"--out {out} exists", hint="--overwrite replaces it")


def _media(path: str) -> Callable[[str], bytes] | None:
    """What gives the bytes of an image by its digest; None where there are no images."""
    folders = [] if is_stream(path) else folders_with_media(Path(path))

    def read(digest: str) -> bytes:
        for folder in folders:
            if (file := find_image(folder, digest)) is not None:
                return file.read_bytes()
        raise CuratorError(f"image {digest} is in none of the folders behind {path}", hint="was one of them moved?")

    return read if folders else None


def _records(path: str) -> Iterator[dict[str, Any]]:
    """The kept records; a stream that ends early fails."""
    batches: Iterator[pa.RecordBatch]
    if is_stream(path):
        batches, total = StreamReader.open(path).batches(), 0
    else:
        dataset = Dataset.open(path)
        batches, total = dataset.batches(), dataset.num_rows
    with log.progress(total, "export", "rows") as bar:
        for batch in batches:
            # Small slices: a record as Python objects is several times its size.
            for start in range(0, batch.num_rows, 256):
                yield from batch.slice(start, 256).to_pylist()
            bar.advance(batch.num_rows)


class _Writer:
    """Objects as JSON lines, or as the elements of one array, each on a line."""

    def __init__(self, stream: IO[bytes], is_array: bool) -> None:
        self._stream = stream
        self._is_array = is_array
        self._is_first = True

    def __call__(self, text: str) -> None:
        if self._is_array:
            self._stream.write(b"[\n" if self._is_first else b",\n")
            self._stream.write(text.encode())
        else:
            self._stream.write(text.encode())
            self._stream.write(b"\n")
        self._is_first = False

    def end(self) -> None:
        if self._is_array:
            self._stream.write(b"[]\n" if self._is_first else b"\n]\n")
        self._stream.flush()


@contextmanager
def _placed(path: Path) -> Iterator[IO[bytes]]:
    """A file under a temporary name, renamed when all went well and removed when not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".tmp-{path.name}")
    try:
        with placing(path), temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


@contextmanager
def _compressed(file: IO[bytes], path: Path) -> Iterator[IO[bytes]]:
    """The stream that writes to `file` as the ending of `path` says; the same records give the same bytes."""
    if path.suffix == ".gz":
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as stream:
            yield stream  # type: ignore[misc]
    elif path.suffix == ".zst":
        # Arrow closes what it writes to, and `file` is still to be synced.
        with pa.CompressedOutputStream(pa.PythonFile(os.fdopen(os.dup(file.fileno()), "wb"), "w"), "zstd") as stream:
            yield stream
    else:
        yield file


def _count(outcome: ExportOutcome, exported: Exported) -> None:
    if exported.is_restored:
        outcome.restored += 1
    else:
        outcome.rendered += 1
    for name in exported.lost:
        outcome.lost[name] = outcome.lost.get(name, 0) + 1


def _refusal(outcome: ExportOutcome) -> CuratorError:
    count = sum(outcome.skipped.values())
    return CuratorError(
        f"{count:,} of {outcome.read:,} records cannot be written as {outcome.target}: {_counts(outcome.skipped)}; "
        f"first {outcome.examples[0]}",
        hint="--skip leaves them out and names them; another --to may hold them",
    )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))


def _say(outcome: ExportOutcome, skipped: Path | None) -> None:
    if outcome.lost:
        log.warn(
            f"{outcome.target} has no place for {_counts(outcome.lost)} (records); "
            "it stands in the metadata of their rows"
        )
    if outcome.skipped:
        where = "" if skipped is None else f"; {skipped} names them"
        log.warn(f"{sum(outcome.skipped.values()):,} records are left out: {_counts(outcome.skipped)}{where}")
