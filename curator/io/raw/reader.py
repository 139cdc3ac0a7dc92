"""The rows of one raw file, whatever it is."""

import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import IO, Any

from curator.errors import CuratorError
from curator.io.raw import base
from curator.io.raw.archives import open_member, split_member
from curator.io.raw.arrays import ArrayScanner
from curator.io.raw.base import MAX_RECORD_BYTES, STDIN, Container, Counts, Found, RawRow, one_by_one
from curator.io.raw.columns import arrow_rows, parquet_file, parquet_rows
from curator.io.raw.documents import yaml_rows
from curator.io.raw.lines import Lines
from curator.io.raw.objects import ObjectScanner, layout_of
from curator.io.raw.opening import limited_blocks, open_bytes, read_up_to
from curator.io.raw.sniff import sniff
from curator.io.raw.tables import TableReader

_MAX_HEAD_BYTES = 16 << 20
IN_BLOCKS = ("jsonl", "array")
"""Layouts whose rows lie in the file as they are."""


def _is_open(first: bytes, head: bytes) -> bool:
    """Whether more of the file is needed to tell its layout: of an object or a list, the end or that of its line."""
    return first == b"{" and layout_of(head) is None or first == b"[" and b"\n" not in head[:-1]


def _open(path: str) -> IO[bytes]:
    if (inside := split_member(path)) is not None:
        return open_member(*inside)
    return open(path, "rb")


class _Rejoined(io.RawIOBase):
    """Blocks as a file."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._left = block
        part, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


class RawReader:
    """Rows of one raw file (`-` is stdin, `a.zip!b` a member), or of a part of it, with what was passed over."""

    def __init__(
        self,
        path: str,
        max_record_bytes: int = MAX_RECORD_BYTES,
        header: bool | None = None,
        columns: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.max_record_bytes = max_record_bytes
        self.header = header
        """Whether a table's first row names its columns; None lets the content say."""
        self.columns = columns
        self.counts = Counts()
        self._file: IO[bytes] = sys.stdin.buffer if path == STDIN else _open(path)
        try:
            self.stream, compression = open_bytes(self._file, path)
            self._head = read_up_to(self.stream, 4096, path)
            text = self._head.removeprefix(base.BOM).lstrip(base.SPACE)
            # An object that is longer than the head: read on, so far that its end or the end of its line is seen.
            while len(self._head) < _MAX_HEAD_BYTES and _is_open(text[:1], self._head):
                more = read_up_to(self.stream, 3 * len(self._head), path)
                self._head += more
                if not more:
                    break
            self.container = sniff(path, self._head, compression)
        except BaseException:
            self.close()
            raise

    @property
    def blank_lines(self) -> int:
        return self.counts.blank_lines

    @property
    def byte_order_marks(self) -> int:
        return self.counts.byte_order_marks

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
        if layout in IN_BLOCKS:
            yield from one_by_one(self.blocks())
        elif layout == "parquet":
            yield from parquet_rows(self.parquet_file(), self.path)
        elif layout == "objects":
            yield from ObjectScanner(self.counts, self.max_record_bytes).rows(self._blocks())
        elif layout == "yaml":
            yield from yaml_rows(self._blocks(), self.path, self.max_record_bytes)
        elif layout.startswith("arrow"):
            yield from self._arrow()
        else:
            delimiter = "\t" if layout == "tsv" else ","
            table = TableReader(self.path, delimiter, self.counts, self.max_record_bytes, self.header, self.columns)
            yield from table.rows(self._blocks())

    def blocks(self) -> Iterator[Found]:
        """What `rows` gives, many at a time, of a file whose layout is one of `IN_BLOCKS`."""
        if self.container.layout == "jsonl":
            return Lines(self.counts, self.max_record_bytes).split(self._blocks())
        return ArrayScanner(self.counts, self.max_record_bytes).split(self._blocks())

    def part(self, start: int, stop: int, first_row: int) -> Iterator[Found]:
        """Rows, many at a time, of a plain JSON-lines file that begin in [start, stop); the first is `first_row`."""
        with open(self.path, "rb") as file:
            file.seek(start)
            lines = Lines(self.counts, self.max_record_bytes, start, first_row)
            yield from lines.split(limited_blocks(file, stop - start))

    def _arrow(self) -> Iterator[RawRow]:
        if self.container.compression == "none" and os.path.isfile(self.path):
            with open(self.path, "rb") as file:
                yield from arrow_rows(file, self.path, self.container.layout)
        elif self.container.layout == "arrow stream":
            yield from arrow_rows(_Rejoined(self._blocks()), self.path, self.container.layout)
        else:
            raise CuratorError(f"{self.path}: an Arrow file must be a plain file", hint="unpack it first")

    def _blocks(self) -> Iterator[bytes]:
        yield self._head
        while block := read_up_to(self.stream, base.BLOCK_BYTES, self.path):
            yield block

    def parquet_file(self) -> Any:
        """The file with its footer read. Raises CuratorError when it has none."""
        return parquet_file(self.path, self.container)


def container_of(path: str, header: bool | None = None, columns: Sequence[str] = ()) -> Container:
    """What a file is. Raises CuratorError when it is nothing that is read, or Parquet that is cut."""
    with RawReader(path, header=header, columns=columns) as reader:
        if reader.container.layout == "parquet":
            reader.parquet_file().close()
        elif reader.container.layout == "arrow file" or reader.container.layout in ("csv", "tsv"):
            next(reader.rows(), None)
        return reader.container
