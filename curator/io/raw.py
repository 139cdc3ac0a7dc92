"""Raw files: which container they are, read from content, and their rows with place and bytes; memory stays flat."""

import base64
import csv
import gzip
import io
import json
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from curator import log
from curator.errors import CuratorError, NothingFoundError
from curator.io.remote import find, is_remote, relative_to_common_folder

if TYPE_CHECKING:
    from curator.io.blocks import Lines, RawBlock

BLOCK_BYTES = 8 << 20
MAX_RECORD_BYTES = 256 << 20
"""A raw row above this is quarantined: one record must fit a batch, and a batch memory."""
KEPT_RAW_BYTES = 1 << 20
"""Of a quarantined row that is too long, this much is kept; its length stands in the reason."""

STDIN = "-"


class UnknownFormatError(CuratorError):
    """The file is of no format that is read."""


@dataclass(frozen=True)
class RawFile:
    """A file to ingest: where it is, and its path relative to what was named (which ids are made of)."""

    path: str
    relative: str
    size: int
    digest: str
    side: "RawFile | None" = None
    """Answers that join its rows by id; the digest covers it."""


@dataclass(frozen=True, slots=True)
class RawRow:
    """One raw row. `row` counts every row of the file from 0, `byte_offset` is in the decompressed bytes."""

    row: int
    byte_offset: int
    data: bytes
    problem: str | None = None
    """Why the row cannot be read at all; `data` then holds what there is of it."""


@dataclass(frozen=True)
class Container:
    """What a file is: compression (none, gzip, zstd) and layout (jsonl, array, csv, tsv, parquet)."""

    compression: str
    layout: str

    def __str__(self) -> str:
        return self.layout if self.compression == "none" else f"{self.layout} in {self.compression}"


# --- finding files ------------------------------------------------------------------------------------------------


def expand(patterns: Iterable[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Files behind paths, folders, globs and URLs of stores as (path, relative path), sorted by relative path; and what
    was skipped.

    A relative path starts at the folder that a glob or folder names, or at the common parent of files named one by
    one. Names that begin with `.` or `_` are skipped unless given outright; so are, inside a folder, files of no known
    format (a licence text). Raises CuratorError for a pattern that matches nothing.
    """
    import glob

    named: list[str] = []
    named_remote: list[str] = []
    found: list[tuple[str, str]] = []
    skipped: list[str] = []
    for pattern in patterns:
        if pattern == STDIN:
            found.append((STDIN, STDIN))
        elif is_remote(pattern):
            behind = find(pattern, _is_known)
            if behind.named:
                named_remote.append(behind.files[0][0])
            else:
                found += behind.files
                skipped += behind.skipped
        elif os.path.isdir(pattern):
            before = len(found)
            for folder, folders, names in os.walk(pattern):
                folders[:] = sorted(name for name in folders if name[0] not in "._")
                for name in names:
                    path = os.path.join(folder, name)
                    if name[0] in "._" or not _is_known(path):
                        skipped.append(path)
                    else:
                        found.append((path, os.path.relpath(path, pattern)))
            if len(found) == before:
                what = "holds no file that is read" if skipped else "is an empty folder"
                raise NothingFoundError(f"{pattern} {what}", hint=f"looked in {os.getcwd()}")
        elif os.path.exists(pattern):
            named.append(pattern)
        elif any(char in pattern for char in "*?["):
            base = _glob_base(pattern)
            matches = [path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]
            hidden = [path for path in matches if os.path.basename(path)[0] in "._"]
            skipped += hidden
            matches = [path for path in matches if path not in set(hidden)]
            if not matches:
                raise NothingFoundError(f"no file matches {pattern}", hint=f"looked in {os.getcwd()}")
            found += [(path, os.path.relpath(path, base)) for path in matches]
        else:
            raise NothingFoundError(f"{pattern}: no such file", hint=f"looked in {os.getcwd()}")
    if named:
        base = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in named])
        found += [(path, os.path.relpath(os.path.abspath(path), base)) for path in named]
    found += relative_to_common_folder(named_remote)
    for path, relative in found:
        try:
            relative.encode()
        except UnicodeEncodeError:
            raise CuratorError(f"{path!a}: the name is not UTF-8", hint="rename the file") from None
    files = sorted(dict.fromkeys(found), key=lambda item: item[1].encode())
    for (_, first), (_, second) in zip(files, files[1:], strict=False):
        if first == second:
            raise CuratorError(
                f"two files would be called {first}", hint="ingest the folders one by one, under two names"
            )
    return files, sorted(skipped)


def _is_known(path: str) -> bool:
    """Whether a file has a format that is read. One that is damaged has: it must be named, not skipped."""
    try:
        RawReader(path).close()
    except UnknownFormatError:
        return False
    except CuratorError:
        pass
    return True


def _glob_base(pattern: str) -> str:
    parts = pattern.split("/")
    for index, part in enumerate(parts):
        if any(char in part for char in "*?["):
            return "/".join(parts[:index]) or ("/" if pattern.startswith("/") else ".")
    return os.path.dirname(pattern) or "."


# --- opening and sniffing -----------------------------------------------------------------------------------------


def open_bytes(file: IO[bytes], path: str) -> tuple[IO[bytes], str]:
    """The decompressed bytes of an open file and the compression, which magic bytes tell, not the name."""
    buffered: Any = file if hasattr(file, "peek") else io.BufferedReader(file, 1 << 20)  # type: ignore[type-var]
    magic = buffered.peek(4)[:4]
    if magic[:2] == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=buffered), "gzip"  # type: ignore[return-value]
    if magic == b"\x28\xb5\x2f\xfd":
        import pyarrow as pa

        # Unlike the reader of zstandard, Arrow's takes a frame that is cut off for the damage it is.
        return pa.CompressedInputStream(pa.PythonFile(buffered, mode="r"), "zstd"), "zstd"
    for start, name in ((b"BZh", "bzip2"), (b"\xfd7zX", "xz"), (b"PK\x03\x04", "zip")):
        if magic.startswith(start):
            raise CuratorError(
                f"{path} is a {name} file, which is not read yet", hint="unpack it first, or use gz or zst"
            )
    return buffered, "none"


_SPACE = b" \t\r\n"
BOM = b"\xef\xbb\xbf"


def sniff(path: str, head: bytes, compression: str) -> Container:
    """The layout, from the first bytes (after decompression) and, for tables only, the name."""
    name = path.lower().removesuffix(".gz").removesuffix(".zst")
    # An empty file named so was cut off; it is no file of no rows.
    if head[:4] == b"PAR1" or (not head and path.lower().endswith(".parquet")):
        return Container(compression, "parquet")
    if name.endswith(".parquet"):
        raise CuratorError(f"{path} is not a whole Parquet file: it begins with {head[:20]!r}", hint="fetch it again")
    text = head.removeprefix(BOM).lstrip(_SPACE)
    if text[:1] == b"{":
        return Container(compression, "jsonl")
    if text[:1] == b"[":
        return Container(compression, "array")
    if name.endswith(".tsv"):
        return Container(compression, "tsv")
    if name.endswith(".csv"):
        return Container(compression, "csv")
    if not text or name.endswith((".jsonl", ".ndjson", ".json")):
        return Container(compression, "jsonl")
    first_line = text.split(b"\n", 1)[0]
    if path == STDIN and first_line.count(b",") >= 1:
        return Container(compression, "csv")
    raise UnknownFormatError(
        f"{path}: not a format that is read (it begins with {head[:20]!r})",
        hint="JSON lines, a JSON array, CSV, TSV or Parquet, plain or as gz or zst",
    )


def too_long(size: int, limit: int) -> str:
    """The problem of a row above the limit."""
    return f"too long: {size:,} bytes, the limit is {limit:,}"


class RawReader:
    """Rows of one raw file (`-` is stdin), or of a part of it, with counts of what was passed over."""

    def __init__(self, path: str, max_record_bytes: int = MAX_RECORD_BYTES) -> None:
        self.path = path
        self.max_record_bytes = max_record_bytes
        self.blank_lines = 0
        self.byte_order_marks = 0
        self._file: IO[bytes] = sys.stdin.buffer if path == STDIN else open(path, "rb")  # noqa: SIM115 (close() does)
        try:
            self.stream, compression = open_bytes(self._file, path)
            self._head = _read_up_to(self.stream, 4096, path)
            self.container = sniff(path, self._head, compression)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self.path != STDIN:
            self._file.close()

    def __enter__(self) -> "RawReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self) -> Iterator[RawRow]:
        """Every row in file order. Raises CuratorError when the compressed stream itself is damaged."""
        layout = self.container.layout
        if layout == "jsonl":
            yield from self._lines(self._blocks(), 0, 0)
        elif layout == "array":
            yield from self._elements()
        elif layout == "parquet":
            yield from self._parquet()
        else:
            yield from self._table("\t" if layout == "tsv" else ",")

    def part(self, start: int, stop: int, first_row: int) -> Iterator[RawRow]:
        """Rows of a plain JSON-lines file that begin in [start, stop); `first_row` is the number of the first."""
        with open(self.path, "rb") as file:
            file.seek(start)
            yield from self._lines(_limited_blocks(file, stop - start), start, first_row)

    def blocks(self) -> "Iterator[RawBlock | RawRow]":
        """What `rows` gives, many at a time, of a file of lines."""
        from curator.io.blocks import Lines

        yield from self._count(Lines(self.max_record_bytes), self._blocks())

    def part_blocks(self, start: int, stop: int, first_row: int) -> "Iterator[RawBlock | RawRow]":
        """What `part` gives, many at a time."""
        from curator.io.blocks import Lines

        with open(self.path, "rb") as file:
            file.seek(start)
            yield from self._count(Lines(self.max_record_bytes, start, first_row), _limited_blocks(file, stop - start))

    def _count(self, lines: "Lines", blocks: Iterator[bytes]) -> "Iterator[RawBlock | RawRow]":
        yield from lines.split(blocks)
        self.blank_lines += lines.blank_lines
        self.byte_order_marks += lines.byte_order_marks

    def _blocks(self) -> Iterator[bytes]:
        yield self._head
        while block := _read_up_to(self.stream, BLOCK_BYTES, self.path):
            yield block

    def _lines(self, blocks: Iterator[bytes], offset: int, row: int) -> Iterator[RawRow]:
        """Split at byte 0x0A only; blank lines are counted, not numbered."""
        carry: list[bytes] = []
        carried = 0
        too_long = 0

        def finish(line: bytes, size: int) -> RawRow | None:
            nonlocal row, offset
            begin = offset
            offset += size + 1
            if too_long:
                row += 1
                return RawRow(row - 1, begin, line, self._too_long(size))
            if line.startswith(BOM):
                self.byte_order_marks += 1
                line = line[3:]
            line = line.strip(_SPACE)
            if not line:
                self.blank_lines += 1
                return None
            row += 1
            return RawRow(row - 1, begin, line)

        for block in blocks:
            lines = block.split(b"\n")
            for index, line in enumerate(lines):
                last = index == len(lines) - 1
                if last:
                    carried += len(line)
                    if carried > self.max_record_bytes:
                        # Only the beginning of an over-long row is held; its length goes on counting.
                        too_long = carried
                        kept = b"".join([*carry, line])[:KEPT_RAW_BYTES]
                        carry = [kept]
                    elif not too_long:
                        carry.append(line)
                    break
                size = carried + len(line)
                whole = b"".join([*carry, line]) if carry else line
                if size > self.max_record_bytes:
                    too_long, whole = size, whole[:KEPT_RAW_BYTES]
                if (raw := finish(whole, size)) is not None:
                    yield raw
                carry, carried, too_long = [], 0, 0
        if carried and (raw := finish(b"".join(carry), carried)) is not None:
            yield raw

    def _elements(self) -> Iterator[RawRow]:
        from curator.kernels.json_scan import STATE_SIZE, scan_elements

        starts, ends = np.empty(4096, np.int64), np.empty(4096, np.int64)
        state = np.zeros(STATE_SIZE, np.int64)
        state[3] = -1
        blocks = self._blocks()
        first = next(blocks)
        opening = first.index(b"[") + 1
        self.byte_order_marks += first.startswith(BOM)
        buffer, base, position = first, 0, opening
        row = 0
        # Of an element that grows too long only this is held: where it begins, and its first bytes.
        long: tuple[int, bytes] | None = None
        closed = after_comma = False
        while not closed:
            data = np.frombuffer(buffer, np.uint8)
            while position < len(buffer) and not closed:
                found, stopped = scan_elements(data, position, state, starts, ends)
                for index in range(found):
                    start, end = int(starts[index]), int(ends[index])
                    begin, element = long or (base + start, buffer[start:end].strip(_SPACE))
                    yield self._element(row, begin, element, base + end - begin if long else len(element))
                    row += 1
                    long = None
                    after_comma = buffer[end : end + 1] == b","
                closed = stopped < len(buffer) and found < len(starts)
                position = stopped
            if closed:
                break
            block = next(blocks, None)
            if block is None:
                break
            keep_from = int(state[3]) if state[3] >= 0 else len(buffer)
            if long or len(buffer) - keep_from > self.max_record_bytes:
                long = long or (base + keep_from, buffer[keep_from : keep_from + KEPT_RAW_BYTES])
                keep_from = len(buffer)
            base += keep_from
            buffer = buffer[keep_from:] + block
            position = len(buffer) - len(block)
            if state[3] >= 0:
                state[3] = 0
        if not closed:
            open_at = int(state[3]) if state[3] >= 0 else len(buffer)
            begin, rest = long or (base + open_at, buffer[open_at:][:KEPT_RAW_BYTES])
            yield RawRow(row, begin, rest, "cut: the JSON array is not closed")
            return
        if after_comma:
            yield RawRow(row, base + position, b"", "not JSON: nothing behind the last comma")
            row += 1
        rest = buffer[position + 1 :].strip(_SPACE)
        for block in blocks:
            rest = (rest + block).strip(_SPACE)[:KEPT_RAW_BYTES]
        if rest:
            yield RawRow(row, base + position + 1, rest, "after the end: bytes behind the closing ] of the array")

    def _element(self, row: int, offset: int, element: bytes, size: int) -> RawRow:
        if size > self.max_record_bytes:
            return RawRow(row, offset, element[:KEPT_RAW_BYTES], self._too_long(size))
        if not element or element == b",":
            return RawRow(row, offset, element, "not JSON: nothing between two commas")
        return RawRow(row, offset, element)

    def _too_long(self, size: int) -> str:
        return too_long(size, self.max_record_bytes)

    def _table(self, delimiter: str) -> Iterator[RawRow]:
        lines = _TableLines(
            self._lines_of_table(), len(BOM) if self._head.startswith(BOM) else 0, self.max_record_bytes
        )
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        csv.field_size_limit(sys.maxsize if sys.maxsize < 2**31 else 2**31 - 1)
        header: list[str] | None = None
        row = 0
        while True:
            lines.mark()
            problem = None
            try:
                values = next(reader)
            except StopIteration:
                return
            except (csv.Error, _RowTooLong) as error:
                too_long = isinstance(error, _RowTooLong)
                values, problem = [], self._too_long(lines.size) if too_long else f"not CSV: {error}"
                reader = csv.reader(lines, delimiter=delimiter, strict=True)
            if header is None and problem is None:
                header = values
                if len(set(header)) < len(header):
                    raise CuratorError(f"{self.path}: two columns have the same name", hint="rename one in the header")
                continue
            if not values and problem is None:
                self.blank_lines += 1
                continue
            raw = lines.since_mark()
            if problem is None and len(values) != len(header or ()):
                problem = f"wrong number of fields: {len(values)}, the header has {len(header or ())}"
            data = raw if problem is None else raw[:KEPT_RAW_BYTES]
            if problem is None:
                try:
                    data = json.dumps(dict(zip(header or (), values, strict=True)), ensure_ascii=False).encode()
                except UnicodeEncodeError:
                    problem = "not UTF-8: the row holds invalid bytes"
            yield RawRow(row, lines.offset_of_mark, data, problem)
            row += 1

    def _lines_of_table(self) -> Iterator[bytes]:
        carry = b""
        first = True
        for block in self._blocks():
            if first:
                self.byte_order_marks += block.startswith(BOM)
                block, first = block.removeprefix(BOM), False
            parts = (carry + block).split(b"\n")
            carry = parts.pop()
            if len(carry) > self.max_record_bytes:
                raise CuratorError(
                    f"{self.path}: a line is longer than {self.max_record_bytes:,} bytes", hint="is it CSV?"
                )
            for part in parts:
                yield part + b"\n"
        if carry:
            yield carry

    def parquet_file(self) -> Any:
        """The file with its footer read. Raises CuratorError when it has none."""
        import pyarrow.parquet as pq

        if self.container.compression != "none" or self.path == STDIN:
            raise CuratorError(f"{self.path}: Parquet must be a plain file", hint="unpack it first")
        try:
            return pq.ParquetFile(self.path)
        except Exception as error:
            raise CuratorError(f"{self.path} is not a whole Parquet file: {error}", hint="fetch it again") from None

    def _parquet(self) -> Iterator[RawRow]:
        row = 0
        for batch in self.parquet_file().iter_batches(batch_size=1024, use_threads=False):
            for values in batch.to_pylist():
                try:
                    yield RawRow(row, 0, json.dumps(values, ensure_ascii=False, default=_binary_text).encode())
                except (TypeError, UnicodeEncodeError) as error:
                    yield RawRow(row, 0, repr(values).encode(errors="replace"), f"not text: {error}")
                row += 1


def _binary_text(value: Any) -> str:
    """Binary values of a table, such as the bytes of an image, as text: a data URI."""
    if not isinstance(value, bytes):
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    return "data:application/octet-stream;base64," + base64.b64encode(value).decode()


class _RowTooLong(Exception):
    """A table's row does not end, most often because a quote is missing."""


class _TableLines:
    """Decoded lines for the csv module, remembering the raw bytes since a mark (a quoted field may span lines)."""

    def __init__(self, lines: Iterator[bytes], offset: int, max_bytes: int) -> None:
        self._lines = lines
        self._max_bytes = max_bytes
        self._taken: list[bytes] = []
        self.size = 0
        self._offset = offset
        self.offset_of_mark = offset

    def mark(self) -> None:
        self._taken.clear()
        self.size = 0
        self.offset_of_mark = self._offset

    def since_mark(self) -> bytes:
        return b"".join(self._taken)

    def __iter__(self) -> "_TableLines":
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._taken.append(line)
        self._offset += len(line)
        self.size += len(line)
        if self.size > self._max_bytes:
            raise _RowTooLong
        # Invalid bytes survive as surrogates, so that the row can be found and quarantined with its bytes.
        return line.decode("utf-8", "surrogateescape")


def container_of(path: str) -> Container:
    """What a file is. Raises CuratorError when it is nothing that is read, or Parquet that is cut."""
    with RawReader(path) as reader:
        if reader.container.layout == "parquet":
            reader.parquet_file().close()
        return reader.container


def _read_up_to(stream: IO[bytes], size: int, path: str) -> bytes:
    """Up to `size` bytes, fewer only at the end. Raises CuratorError when the compression is damaged."""
    parts = []
    left = size
    while left > 0:
        try:
            part = stream.read(left)
        except (OSError, EOFError, zlib.error) as error:
            raise _damaged(path, error) from None
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _damaged(path: str, error: Any) -> CuratorError:
    return CuratorError(
        f"{path}: the compressed data is damaged or cut: {error}", hint="fetch the file again, or repair it"
    )


def _limited_blocks(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0:
        block = file.read(min(BLOCK_BYTES, size))
        if not block:
            return
        size -= len(block)
        yield block


def split_lines(path: str, part_bytes: int, max_record_bytes: int = MAX_RECORD_BYTES) -> list[tuple[int, int, int]]:
    """Parts of an uncompressed JSON-lines file as (start, stop, number of the first row), one a shard.

    Part k holds the lines that begin in [k, k + 1) * `part_bytes`; one pass over the bytes finds line ends and counts
    rows as the reader does (lines of white space alone, up to `max_record_bytes` of it, are no rows).
    """
    parts: list[tuple[int, int, int]] = []
    part_start, part_first_row = 0, 0
    rows = 0
    offset = 0
    line_start = 0
    # What came of the line before this block: its first bytes as long as it may be blank, else None.
    carry: bytes | None = b""
    with open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            data = np.frombuffer(block, np.uint8)
            ends = np.flatnonzero(data == 10)
            begins = np.concatenate([[0], ends + 1])
            for index, end in enumerate(ends.tolist()):
                begin = int(begins[index])
                if carry is None or carry:
                    blank = carry is not None and _is_blank(carry + block[begin:end])
                else:
                    first = data[begin]
                    blank = bool(first <= 32 or first == BOM[0]) and _is_blank(block[begin:end])
                if not blank or offset + end - line_start > max_record_bytes:
                    rows += 1
                carry = b""
                line_start = offset + end + 1
                if line_start // part_bytes > part_start // part_bytes:
                    parts.append((part_start, line_start, part_first_row))
                    part_start, part_first_row = line_start, rows
            if carry is not None:
                carry += block[int(begins[-1]) :]
                # Four bytes of a blank line tell as much as all of it.
                carry = carry[:4] if _is_blank(carry) or BOM.startswith(carry) else None
            offset += len(block)
    if offset > part_start or not parts:
        parts.append((part_start, offset, part_first_row))
    return parts


def holds_any(path: str, needles: Sequence[bytes]) -> bool:
    """Whether the bytes of a plain file hold one of these texts (none longer than 64 bytes)."""
    tail = b""
    with open(path, "rb") as file:
        while needles and (block := file.read(BLOCK_BYTES)):
            if any(needle in block or needle in tail + block[:64] for needle in needles):
                return True
            tail = block[-64:]
    return False


def _is_blank(line: bytes) -> bool:
    return not line.removeprefix(BOM).strip(_SPACE)


def tell_skipped(skipped: list[str]) -> None:
    """Say which files a glob or folder passed over."""
    if skipped:
        shown = ", ".join(skipped[:3]) + (f" and {len(skipped) - 3} more" if len(skipped) > 3 else "")
        log.info(f"skipped (hidden, or of no known format): {shown}")


def raw_file(path: str, relative: str) -> RawFile:
    """Describe a file with the digest of its bytes; for stdin the digest is unknown until it is read."""
    from curator.io.manifest import digest_file

    if path == STDIN:
        return RawFile(path, relative, 0, "")
    return RawFile(path, relative, os.path.getsize(path), digest_file(Path(path)))
