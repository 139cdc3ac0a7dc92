"""JSON objects one behind another, without line breaks between them or printed over many lines."""

import json
import re
from collections.abc import Iterator

from curator.io.raw import base
from curator.io.raw.base import BOM, MAX_RECORD_BYTES, SPACE, Counts, RawRow, too_long

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["{}\[\]]', re.DOTALL)
_LINE_TOKEN = re.compile(rb'"(?:[^"\\\n]++|\\[^\n])*+"|[^ \t\r]')


def holds_turns(head: bytes) -> bool:
    """Whether a text that begins with `[` is JSON lines of turns: a list of them ends with its line, another begins."""
    line, _, rest = head.partition(b"\n")
    if rest.lstrip(SPACE)[:1] != b"[":
        return False
    try:
        (first, *_) = json.loads(line)
        return isinstance(first, dict) and ("role" in first or "from" in first)
    except (ValueError, RecursionError):
        return False


def layout_of(head: bytes) -> str | None:
    """`objects` or `jsonl` for a text that begins with `{`; None when `head` is too short to tell.

    JSON lines end their first object with its line; a line that is cut or broken is a bad row of JSON lines. What is
    left are objects that go on after the line in a way that JSON allows, or that share a line.
    """
    stack = bytearray()
    before = b""
    at_line_end = False
    for match in _LINE_TOKEN.finditer(head, len(BOM) if head.startswith(BOM) else 0):
        token = match[0]
        first = token[:1]
        if token == b"\n":
            at_line_end = True
            if not stack and before:
                return "jsonl"
            continue
        if not stack and before:
            return "objects" if first == b"{" else "jsonl"
        if first == b'"' and len(token) == 1:
            # An open quote: cut by the end of what was read, or by the end of the line, which breaks the row.
            return "jsonl" if b"\n" in head[match.start() :] else None
        if at_line_end:
            goes_on = first in b"}],:" or (first == b'"' and before in b"{,[:")
            return "objects" if goes_on or before in b"[:" or (before == b"," and stack[-1:] == b"[") else "jsonl"
        if first in b"{[":
            stack += first
        elif first in b"}]":
            if not stack:
                return "jsonl"
            stack.pop()
        before = first
    return None


class ObjectScanner:
    """The objects of a text, one row each; what stands between two of them is a row with a problem."""

    def __init__(self, counts: Counts, max_record_bytes: int = MAX_RECORD_BYTES) -> None:
        self.counts = counts
        self.max_record_bytes = max_record_bytes
        self._row = 0
        self._line_begin = 0
        """Where the line begins in which the last object or stretch between two ended."""

    def rows(self, blocks: Iterator[bytes]) -> Iterator[RawRow]:
        buffer, offset, line = b"", 0, 1
        depth = position = start = 0
        first = True
        for block in blocks:
            if first and block.startswith(BOM):
                self.counts.byte_order_marks += 1
                block, offset = block[len(BOM) :], len(BOM)
            first = False
            buffer += block
            # `start` is where the open object begins, or where the last one ended.
            while (match := _TOKEN.search(buffer, position)) is not None:
                token = match[0]
                if token == b'"':
                    # The text may end in another block; between objects a quote opens nothing.
                    position = match.start() if depth else match.end()
                    if depth:
                        break
                    continue
                position = match.end()
                if token in b"{":
                    if depth == 0:
                        yield from self._between(buffer[start : match.start()], offset + start, line)
                        line += self._lines(buffer, start, match.start(), offset)
                        start = match.start()
                    depth += 1
                elif token in b"[" and depth:
                    depth += 1
                elif token in b"}]" and depth:
                    depth -= 1
                    if depth == 0:
                        yield self._object(buffer[start:position], offset + start)
                        line += self._lines(buffer, start, position, offset)
                        start = position
            else:
                position = len(buffer)
            if len(buffer) - start > self.max_record_bytes:
                yield self._rest(buffer[start:], offset + start, line, blocks)
                return
            buffer, offset, position, start = buffer[start:], offset + start, position - start, 0
        if depth:
            problem = f"cut: the JSON object that begins in line {line} is not closed"
            yield RawRow(self._row, offset, buffer[: base.KEPT_RAW_BYTES], problem)
        else:
            yield from self._between(buffer, offset, line)

    def _lines(self, buffer: bytes, start: int, stop: int, offset: int) -> int:
        """How many lines end in this stretch of the buffer."""
        last = buffer.rfind(b"\n", start, stop)
        if last >= 0:
            self._line_begin = offset + last + 1
        return buffer.count(b"\n", start, stop)

    def _object(self, data: bytes, offset: int) -> RawRow:
        self._row += 1
        if len(data) > self.max_record_bytes:
            problem = too_long(len(data), self.max_record_bytes)
            return RawRow(self._row - 1, offset, data[: base.KEPT_RAW_BYTES], problem)
        return RawRow(self._row - 1, offset, data)

    def _between(self, data: bytes, offset: int, line: int) -> Iterator[RawRow]:
        text = data.strip(SPACE)
        if text:
            begin = data.index(text)
            line += data.count(b"\n", 0, begin)
            newline = data.rfind(b"\n", 0, begin)
            column = begin - newline if newline >= 0 else offset + begin - self._line_begin + 1
            what = "a comma between objects, is it an array without [ ]?" if text == b"," else "bytes between objects"
            problem = f"not JSON: {what} (line {line}, column {column})"
            yield RawRow(self._row, offset + begin, text[: base.KEPT_RAW_BYTES], problem)
            self._row += 1

    def _rest(self, data: bytes, offset: int, line: int, blocks: Iterator[bytes]) -> RawRow:
        size = len(data) + sum(len(block) for block in blocks)
        problem = f"{too_long(size, self.max_record_bytes)} (an object from line {line} that does not end)"
        return RawRow(self._row, offset, data[: base.KEPT_RAW_BYTES], problem)
