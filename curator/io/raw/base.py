"""What raw files and their rows are, and the limits that keep memory flat."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from curator.errors import CuratorError

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
class RawBlock:
    """Consecutive raw rows that can be read, in one buffer."""

    data: np.ndarray
    """uint8"""
    starts: np.ndarray
    ends: np.ndarray
    """int64, [start, end) of each row in `data`, without white space around it."""
    begins: np.ndarray
    """int64, where the row's line begins in `data`: its byte offset counts from there."""
    base: int
    """Byte offset of `data[0]` in the decompressed file."""
    first_row: int

    @property
    def first_offset(self) -> int:
        return self.base + int(self.begins[0])

    def offsets(self, rows: np.ndarray) -> np.ndarray:
        """Byte offsets of these rows of the block, int64."""
        return self.begins[rows] + self.base

    def row(self, index: int) -> RawRow:
        data = self.data[self.starts[index] : self.ends[index]].tobytes()
        return RawRow(self.first_row + index, self.base + int(self.begins[index]), data)

    def slice(self, first: int, stop: int) -> "RawBlock":
        return RawBlock(
            self.data,
            self.starts[first:stop],
            self.ends[first:stop],
            self.begins[first:stop],
            self.base,
            self.first_row + first,
        )

    def pieces(self, shard_bytes: int) -> Iterator["RawBlock"]:
        """The block cut where a shard of the input ends."""
        shards = (self.begins + self.base) // shard_bytes
        cuts = np.flatnonzero(np.diff(shards)) + 1
        for first, stop in zip([0, *cuts.tolist()], [*cuts.tolist(), len(shards)], strict=True):
            if stop > first:
                yield self.slice(first, stop)


Found = RawBlock | RawRow
"""What a splitter gives: rows in a buffer, and single rows that cannot be read."""


def one_by_one(found: Iterable[Found]) -> Iterator[RawRow]:
    """The rows of blocks."""
    for item in found:
        if isinstance(item, RawRow):
            yield item
        else:
            for index in range(len(item.starts)):
                yield item.row(index)


@dataclass(frozen=True)
class Container:
    """What a file is: compression (none, gzip, zstd, bzip2, xz) and layout (jsonl, array, objects, csv, ...)."""

    compression: str
    layout: str

    def __str__(self) -> str:
        return self.layout if self.compression == "none" else f"{self.layout} in {self.compression}"


@dataclass
class Counts:
    """What a reader passed over."""

    blank_lines: int = 0
    byte_order_marks: int = 0


SPACE = b" \t\r\n"
BOM = b"\xef\xbb\xbf"


def too_long(size: int, limit: int) -> str:
    """The problem of a row of `size` bytes that is above `limit`."""
    return f"too long: {size:,} bytes, the limit is {limit:,}"
