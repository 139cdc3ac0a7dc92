"""CSV and TSV: one row an object, with the place of its first line."""

import csv
import json
import sys
from collections.abc import Iterator

from curator.errors import CuratorError
from curator.io.raw import base
from curator.io.raw.base import BOM, MAX_RECORD_BYTES, Counts, RawRow, too_long


class TableReader:
    """Rows of a table whose cells are separated by `delimiter`."""

    def __init__(self, path: str, delimiter: str, counts: Counts, max_record_bytes: int = MAX_RECORD_BYTES) -> None:
        self.path = path
        self.delimiter = delimiter
        self.counts = counts
        self.max_record_bytes = max_record_bytes

    def rows(self, blocks: Iterator[bytes]) -> Iterator[RawRow]:
        lines = _TableLines(self._lines(blocks), self.max_record_bytes)
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
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
                values, problem = [], f"not CSV: {error}"
                if isinstance(error, _RowTooLong):
                    problem = too_long(lines.size, self.max_record_bytes)
                reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
            if header is None and problem is None:
                header = values
                if len(set(header)) < len(header):
                    raise CuratorError(f"{self.path}: two columns have the same name", hint="rename one in the header")
                continue
            if not values and problem is None:
                self.counts.blank_lines += 1
                continue
            raw = lines.since_mark()
            if problem is None and len(values) != len(header or ()):
                problem = f"wrong number of fields: {len(values)}, the header has {len(header or ())}"
            data = raw if problem is None else raw[: base.KEPT_RAW_BYTES]
            if problem is None:
                try:
                    data = json.dumps(dict(zip(header or (), values, strict=True)), ensure_ascii=False).encode()
                except UnicodeEncodeError:
                    problem = "not UTF-8: the row holds invalid bytes"
            yield RawRow(row, lines.offset_of_mark, data, problem)
            row += 1

    def _lines(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        carry = b""
        first = True
        for block in blocks:
            if first:
                self.counts.byte_order_marks += block.startswith(BOM)
                first = False
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


class _RowTooLong(Exception):
    """A table's row does not end, most often because a quote is missing."""


class _TableLines:
    """Decoded lines for the csv module, remembering the raw bytes since a mark (a quoted field may span lines)."""

    def __init__(self, lines: Iterator[bytes], max_bytes: int) -> None:
        self._lines = lines
        self._max_bytes = max_bytes
        self._taken: list[bytes] = []
        self.size = 0
        self._offset = 0
        self.offset_of_mark = 0

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
        if not self._offset and line.startswith(BOM):
            self._offset, line = len(BOM), line.removeprefix(BOM)
            self.offset_of_mark = self._offset
        self._taken.append(line)
        self._offset += len(line)
        self.size += len(line)
        if self.size > self._max_bytes:
            raise _RowTooLong
        # Invalid bytes survive as surrogates, so that the row can be found and quarantined with its bytes.
        return line.decode("utf-8", "surrogateescape")
