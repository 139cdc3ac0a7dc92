"""What raw files and their rows are, and the limits that keep memory flat."""

from dataclasses import dataclass

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
