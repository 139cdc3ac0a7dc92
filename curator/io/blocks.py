"""Raw rows many at a time: where they lie in one buffer."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from curator.io.raw import BOM, KEPT_RAW_BYTES, RawRow, too_long

_SPACE = b" \t\r\n"


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


class Lines:
    """Splits bytes at line feeds, and at nothing else; blank lines are counted, not numbered."""

    def __init__(self, max_record_bytes: int, offset: int = 0, row: int = 0) -> None:
        """The first byte to come lies at `offset` of the file, and the first row has the number `row`."""
        self._max_bytes = max_record_bytes
        self._offset, self._row = offset, row
        self.blank_lines = self.byte_order_marks = 0

    def split(self, blocks: Iterable[bytes]) -> Iterator[RawBlock | RawRow]:
        """The rows of these bytes: blocks of rows, and between them rows that are too long."""
        carry: list[bytes] = []
        carried = 0
        for block in blocks:
            if carried > self._max_bytes:
                end = block.find(b"\n")
                piece = block if end < 0 else block[:end]
                # Of a line that has grown too long only the beginning is held; its length goes on counting.
                carry = [(b"".join(carry) + piece)[:KEPT_RAW_BYTES]]
                carried += len(piece)
                if end < 0:
                    continue
                yield self._too_long(carry[0], carried)
                carry, carried, block = [], 0, block[end + 1 :]
            if end := block.rfind(b"\n") + 1:
                yield from self._rows(b"".join([*carry, block[:end]]))
                carry, carried, block = [], 0, block[end:]
            carry.append(block)
            carried += len(block)
        if carried > self._max_bytes:
            yield self._too_long(b"".join(carry)[:KEPT_RAW_BYTES], carried)
        elif carried:
            yield from self._rows(b"".join(carry))

    def _too_long(self, beginning: bytes, size: int) -> RawRow:
        row = RawRow(self._row, self._offset, beginning, too_long(size, self._max_bytes))
        self._row += 1
        self._offset += size + 1
        return row

    def _rows(self, data: bytes) -> Iterator[RawBlock | RawRow]:
        """Rows of whole lines."""
        array = np.frombuffer(data, np.uint8)
        line_ends = np.flatnonzero(array == 10)
        if not data.endswith(b"\n"):
            line_ends = np.append(line_ends, len(data))
        begins = np.concatenate([[0], line_ends[:-1] + 1])
        first = 0
        base = self._offset
        for long in [*np.flatnonzero(line_ends - begins > self._max_bytes).tolist(), len(begins)]:
            self._offset = base
            block = self._trimmed(data, array, begins[first:long], line_ends[first:long])
            if len(block.starts):
                yield block
            if long < len(begins):
                begin, end = int(begins[long]), int(line_ends[long])
                self._offset = base + begin
                yield self._too_long(data[begin : min(end, begin + KEPT_RAW_BYTES)], end - begin)
            first = long + 1
        self._offset = base + len(data) + (not data.endswith(b"\n"))

    def _trimmed(self, data: bytes, array: np.ndarray, begins: np.ndarray, line_ends: np.ndarray) -> RawBlock:
        """Lines without white space and byte order marks around them, and without those of which nothing is left."""
        starts, ends = begins.copy(), line_ends.copy()
        is_cut = ends > starts
        ends[is_cut] -= array[ends[is_cut] - 1] == 13
        is_full = ends > starts
        heads, tails = np.full(len(starts), 32, np.uint8), np.full(len(starts), 32, np.uint8)
        heads[is_full], tails[is_full] = array[starts[is_full]], array[ends[is_full] - 1]
        for index in np.flatnonzero((heads <= 32) | (heads == BOM[0]) | (tails <= 32)).tolist():
            line = data[int(starts[index]) : int(ends[index])]
            start = int(starts[index])
            if line.startswith(BOM):
                self.byte_order_marks += 1
                line, start = line[len(BOM) :], start + len(BOM)
            left = line.lstrip(_SPACE)
            starts[index] = start + len(line) - len(left)
            ends[index] = starts[index] + len(left.rstrip(_SPACE))
        is_full = ends > starts
        self.blank_lines += int((~is_full).sum())
        block = RawBlock(array, starts[is_full], ends[is_full], begins[is_full], self._offset, self._row)
        self._row += len(block.starts)
        return block
