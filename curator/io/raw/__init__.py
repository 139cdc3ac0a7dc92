"""Raw files: which container they are, read from content, and their rows with place and bytes; memory stays flat."""

from curator.io.raw.base import (
    BOM,
    MAX_RECORD_BYTES,
    STDIN,
    Container,
    Counts,
    Found,
    RawBlock,
    RawFile,
    RawRow,
    UnknownFormatError,
    one_by_one,
)
from curator.io.raw.files import expand, raw_file, tell_skipped
from curator.io.raw.lines import holds_any, split_lines
from curator.io.raw.reader import IN_BLOCKS, RawReader, container_of
from curator.io.raw.sniff import name_mismatch

__all__ = [
    "BOM",
    "IN_BLOCKS",
    "MAX_RECORD_BYTES",
    "STDIN",
    "Container",
    "Counts",
    "Found",
    "RawBlock",
    "RawFile",
    "RawReader",
    "RawRow",
    "UnknownFormatError",
    "container_of",
    "expand",
    "holds_any",
    "name_mismatch",
    "one_by_one",
    "raw_file",
    "split_lines",
    "tell_skipped",
]
