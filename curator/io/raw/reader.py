"""The rows of one raw file, whatever it is."""

import sys
from collections.abc import Iterator
from typing import IO, Any

from curator.io.raw import base
from curator.io.raw.arrays import ArrayScanner
from curator.io.raw.base import MAX_RECORD_BYTES, STDIN, Container, Counts, RawRow
from curator.io.raw.columns import parquet_file, parquet_rows
from curator.io.raw.lines import LineSplitter
from curator.io.raw.opening import limited_blocks, open_bytes, read_up_to
from curator.io.raw.sniff import sniff
from curator.io.raw.tables import TableReader


class RawReader:
    """Rows of one raw file (`-` is stdin), or of a part of it, with counts of what was passed over."""

    def __init__(self, path: str, max_record_bytes: int = MAX_RECORD_BYTES) -> None:
        self.path = path
        self.max_record_bytes = max_record_bytes
        self.counts = Counts()
        self._file: IO[bytes] = sys.stdin.buffer if path == STDIN else open(path, "rb")  # noqa: SIM115 (close() does)
        try:
            self.stream, compression = open_bytes(self._file, path)
            self._head = read_up_to(self.stream, 4096, path)
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
        if layout == "jsonl":
            yield from LineSplitter(self.counts, self.max_record_bytes).rows(self._blocks())
        elif layout == "array":
            yield from ArrayScanner(self.counts, self.max_record_bytes).rows(self._blocks())
        elif layout == "parquet":
            yield from parquet_rows(self.parquet_file())
        else:
            delimiter = "\t" if layout == "tsv" else ","
            yield from TableReader(self.path, delimiter, self.counts, self.max_record_bytes).rows(self._blocks())

    def part(self, start: int, stop: int, first_row: int) -> Iterator[RawRow]:
        """Rows of a plain JSON-lines file that begin in [start, stop); `first_row` is the number of the first."""
        with open(self.path, "rb") as file:
            file.seek(start)
            blocks = limited_blocks(file, stop - start)
            yield from LineSplitter(self.counts, self.max_record_bytes).rows(blocks, start, first_row)

    def _blocks(self) -> Iterator[bytes]:
        yield self._head
        while block := read_up_to(self.stream, base.BLOCK_BYTES, self.path):
            yield block

    def parquet_file(self) -> Any:
        """The file with its footer read. Raises CuratorError when it has none."""
        return parquet_file(self.path, self.container)


def container_of(path: str) -> Container:
    """What a file is. Raises CuratorError when it is nothing that is read, or Parquet that is cut."""
    with RawReader(path) as reader:
        if reader.container.layout == "parquet":
            reader.parquet_file().close()
        return reader.container
