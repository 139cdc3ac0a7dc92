"""Raw files: which container they are, read from content, and their rows with place and bytes; memory stays flat."""

from curator.io.raw.base import (
    BOM,
    MAX_RECORD_BYTES,
    STDIN,
    Container,
    Counts,
    RawFile,
    RawRow,
    UnknownFormatError,
)
from curator.io.raw.files import expand, raw_file, tell_skipped
from curator.io.raw.lines import split_lines
from curator.io.raw.reader import RawReader, container_of

__all__ = [
    "BOM",
    "MAX_RECORD_BYTES",
    "STDIN",
    "Container",
    "Counts",
    "RawFile",
    "RawReader",
    "RawRow",
    "UnknownFormatError",
    "container_of",
    "expand",
    "raw_file",
    "split_lines",
    "tell_skipped",
]
