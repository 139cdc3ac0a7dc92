"""One JSON array: its elements, found without decoding them."""

from collections.abc import Iterator

import numpy as np

from curator.io.raw import base as limits
from curator.io.raw.base import BOM, MAX_RECORD_BYTES, SPACE, Counts, RawRow, too_long


class ArrayScanner:
    """The elements of the array that blocks of bytes hold, one row each."""

    def __init__(self, counts: Counts, max_record_bytes: int = MAX_RECORD_BYTES) -> None:
        self.counts = counts
        self.max_record_bytes = max_record_bytes

    def rows(self, blocks: Iterator[bytes]) -> Iterator[RawRow]:
        from curator.kernels.json_scan import STATE_SIZE, scan_elements

        starts, ends = np.empty(4096, np.int64), np.empty(4096, np.int64)
        state = np.zeros(STATE_SIZE, np.int64)
        state[3] = -1
        first = next(blocks)
        opening = first.index(b"[") + 1
        self.counts.byte_order_marks += first.startswith(BOM)
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
                    begin, element = long or (base + start, buffer[start:end].strip(SPACE))
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
                long = long or (base + keep_from, buffer[keep_from : keep_from + limits.KEPT_RAW_BYTES])
                keep_from = len(buffer)
            base += keep_from
            buffer = buffer[keep_from:] + block
            position = len(buffer) - len(block)
            if state[3] >= 0:
                state[3] = 0
        if not closed:
            open_at = int(state[3]) if state[3] >= 0 else len(buffer)
            begin, rest = long or (base + open_at, buffer[open_at:][: limits.KEPT_RAW_BYTES])
            yield RawRow(row, begin, rest, "cut: the JSON array is not closed")
            return
        if after_comma:
            yield RawRow(row, base + position, b"", "not JSON: nothing behind the last comma")
            row += 1
        rest = buffer[position + 1 :].strip(SPACE)
        for block in blocks:
            rest = (rest + block).strip(SPACE)[: limits.KEPT_RAW_BYTES]
        if rest:
            yield RawRow(row, base + position + 1, rest, "after the end: bytes behind the closing ] of the array")

    def _element(self, row: int, offset: int, element: bytes, size: int) -> RawRow:
        if size > self.max_record_bytes:
            return RawRow(row, offset, element[: limits.KEPT_RAW_BYTES], too_long(size, self.max_record_bytes))
        if not element or element == b",":
            return RawRow(row, offset, element, "not JSON: nothing between two commas")
        return RawRow(row, offset, element)
