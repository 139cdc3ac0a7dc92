"""JSON lines: rows end at byte 0x0A and nowhere else."""

import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from curator.io.raw import base
from curator.io.raw.base import BOM, MAX_RECORD_BYTES, SPACE, Counts, Found, RawBlock, RawRow, too_long
from curator.io.raw.opening import limited_blocks


class Lines:
    """Splits bytes at line feeds, and at nothing else; blank lines are counted, not numbered."""

    def __init__(self, counts: Counts, max_record_bytes: int = MAX_RECORD_BYTES, offset: int = 0, row: int = 0) -> None:
        """The first byte to come lies at `offset` of the file, and the first row has the number `row`."""
        self._counts = counts
        self._max_bytes = max_record_bytes
        self._offset, self._row = offset, row

    def split(self, blocks: Iterable[bytes]) -> Iterator[Found]:
        """The rows of these bytes: blocks of rows, and between them rows that are too long."""
        carry: list[bytes] = []
        carried = 0
        for block in blocks:
            if carried > self._max_bytes:
                end = block.find(b"\n")
                piece = block if end < 0 else block[:end]
                # Of a line that has grown too long only the beginning is held; its length goes on counting.
                carry = [(b"".join(carry) + piece)[: base.KEPT_RAW_BYTES]]
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
            yield self._too_long(b"".join(carry)[: base.KEPT_RAW_BYTES], carried)
        elif carried:
            yield from self._rows(b"".join(carry))

    def _too_long(self, beginning: bytes, size: int) -> RawRow:
        row = RawRow(self._row, self._offset, beginning, too_long(size, self._max_bytes))
        self._row += 1
        self._offset += size + 1
        return row

    def _rows(self, data: bytes) -> Iterator[Found]:
        """Rows of whole lines."""
        array = np.frombuffer(data, np.uint8)
        line_ends = np.flatnonzero(array == 10)
        if not data.endswith(b"\n"):
            line_ends = np.append(line_ends, len(data))
        begins = np.concatenate([[0], line_ends[:-1] + 1])
        first = 0
        origin = self._offset
        for long in [*np.flatnonzero(line_ends - begins > self._max_bytes).tolist(), len(begins)]:
            self._offset = origin
            block = self._trimmed(data, array, begins[first:long], line_ends[first:long])
            if len(block.starts):
                yield block
            if long < len(begins):
                begin, end = int(begins[long]), int(line_ends[long])
                self._offset = origin + begin
                yield self._too_long(data[begin : min(end, begin + base.KEPT_RAW_BYTES)], end - begin)
            first = long + 1
        self._offset = origin + len(data) + (not data.endswith(b"\n"))

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
                self._counts.byte_order_marks += 1
                line, start = line[len(BOM) :], start + len(BOM)
            left = line.lstrip(SPACE)
            starts[index] = start + len(line) - len(left)
            ends[index] = starts[index] + len(left.rstrip(SPACE))
        is_full = ends > starts
        self._counts.blank_lines += int((~is_full).sum())
        block = RawBlock(array, starts[is_full], ends[is_full], begins[is_full], self._offset, self._row)
        self._row += len(block.starts)
        return block


def split_lines(path: str, part_bytes: int, max_record_bytes: int = MAX_RECORD_BYTES) -> list[tuple[int, int, int]]:
    """Parts of an uncompressed JSON-lines file as (start, stop, number of the first row), one a shard.

    Part k holds the lines that begin in [k, k + 1) * `part_bytes`; one pass over the bytes finds line ends and counts
    rows as the reader does (lines of white space alone, up to `max_record_bytes` of it, are no rows).
    """
    parts: list[tuple[int, int, int]] = []
    part_start = part_first_row = num_rows = end = 0
    with open(path, "rb") as file:
        size = os.path.getsize(path)
        for found in Lines(Counts(), max_record_bytes).split(limited_blocks(file, size)):
            if isinstance(found, RawRow):
                begins, num_rows = np.array([found.byte_offset]), num_rows + 1
            else:
                begins, num_rows = found.begins + found.base, num_rows + len(found.starts)
            shards = begins // part_bytes
            for index in np.flatnonzero(np.diff(shards, prepend=part_start // part_bytes)).tolist():
                # A part begins at the first line behind its border that is a row; blank ones stay with the part before.
                begin, first_row = int(begins[index]), num_rows - len(begins) + index
                if first_row > part_first_row:
                    parts.append((part_start, begin, part_first_row))
                    part_start, part_first_row = begin, first_row
        end = size
    if end > part_start or not parts:
        parts.append((part_start, end, part_first_row))
    return parts


def holds_any(path: str, needles: Sequence[bytes]) -> bool:
    """Whether the bytes of a plain file hold one of these texts (none longer than 64 bytes)."""
    tail = b""
    with open(path, "rb") as file:
        while needles and (block := file.read(base.BLOCK_BYTES)):
            if any(needle in block or needle in tail + block[:64] for needle in needles):
                return True
            tail = block[-64:]
    return False
