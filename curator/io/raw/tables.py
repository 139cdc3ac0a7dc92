"""CSV and TSV: one row an object, with the place of its first line."""

import csv
import io
import itertools
import json
import re
import sys
from collections.abc import Iterator, Sequence

from curator.errors import CuratorError
from curator.io.raw import base
from curator.io.raw.base import BOM, MAX_RECORD_BYTES, Counts, RawRow, too_long

_MAX_NAME_CHARS = 64
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*|")
_NO_NAME = re.compile(r"^-?[0-9.,]+%?$|[.?!:;。？！।]$|[\n]")
"""A number, a sentence, or several lines: no name of a column."""
_KNOWN = frozenset(
    [
        "id",
        "prompt",
        "question",
        "answer",
        "instruction",
        "input",
        "output",
        "response",
        "text",
        "completion",
        "label",
        "category",
        "type",
        "source",
        "target",
        "content",
        "role",
        "messages",
        "context",
        "title",
        "system",
        "chosen",
        "rejected",
    ]
)


class TableReader:
    """Rows of a table whose cells are separated by `delimiter`."""

    def __init__(
        self,
        path: str,
        delimiter: str,
        counts: Counts,
        max_record_bytes: int = MAX_RECORD_BYTES,
        header: bool | None = None,
        columns: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.delimiter = delimiter
        self.counts = counts
        self.header = header
        self.columns = list(columns)
        self.max_record_bytes = max_record_bytes

    def rows(self, blocks: Iterator[bytes]) -> Iterator[RawRow]:
        head = next(blocks, b"")
        lines = _TableLines(self._delimited(self._lines(itertools.chain([head], blocks))), self.max_record_bytes)
        lines.peek()
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
                named = self._is_header(values, head)
                header = self.columns or (values if named else [f"column_{n}" for n in range(1, len(values) + 1)])
                if len(set(header)) < len(header):
                    raise CuratorError(f"{self.path}: two columns have the same name", hint="rename one in the header")
                if named:
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

    def _is_header(self, cells: list[str], head: bytes) -> bool:
        """Whether the first row names the columns. Raises CuratorError when that is in doubt: no row is lost."""
        if self.header is not None:
            return self.header
        if self.columns:
            return cells == self.columns
        names = [cell.strip() for cell in cells]
        if any(_NO_NAME.search(name) or len(name) > _MAX_NAME_CHARS for name in names):
            return False
        if any(name.lower() in _KNOWN for name in names):
            return True
        if self._recurs(cells, head):
            return False
        if all(_NAME.fullmatch(name) for name in names):
            return True
        shown = ", ".join(names)[:100]
        raise CuratorError(
            f"{self.path}: is the first row a header or data? It reads: {shown}",
            hint="say `header: true` or `header: false`, or name the `columns`, in the settings of the source",
        )

    def _recurs(self, cells: list[str], head: bytes) -> bool:
        """Whether a cell of the first row stands again in its column, which names of columns do not."""
        text = head.decode("utf-8", "replace").removeprefix("\ufeff")
        try:
            others = list(csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter))[1:]
        except csv.Error:
            return False
        return any(
            cell and cell == other for row in others if row != cells for cell, other in zip(cells, row, strict=False)
        )

    def _delimited(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """The same lines; a CSV whose first line holds semicolons and no comma is cut at semicolons."""
        first = next(lines, b"")
        if self.delimiter == "," and b";" in first and b"," not in first:
            self.delimiter = ";"
        if first:
            yield first
        yield from lines

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
        self._lines: Iterator[bytes] = lines
        self._max_bytes = max_bytes
        self._taken: list[bytes] = []
        self.size = 0
        self._offset = 0
        self.offset_of_mark = 0

    def mark(self) -> None:
        self._taken.clear()
        self.size = 0
        self.offset_of_mark = self._offset

    def peek(self) -> None:
        """Read the first line ahead, which settles the delimiter."""
        first = next(self._lines, None)
        if first is not None:
            self._lines = itertools.chain([first], self._lines)

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
