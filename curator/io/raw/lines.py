"""JSON lines: rows end at byte 0x0A and nowhere else."""

from collections.abc import Iterator

import numpy as np

from curator.io.raw import base
from curator.io.raw.base import BOM, MAX_RECORD_BYTES, SPACE, Counts, RawRow, too_long


class LineSplitter:
    """Splits blocks of bytes into rows; blank lines and byte order marks are counted in `counts`."""

    def __init__(self, counts: Counts, max_record_bytes: int = MAX_RECORD_BYTES) -> None:
        self.counts = counts
        self.max_record_bytes = max_record_bytes

    def rows(self, blocks: Iterator[bytes], offset: int = 0, row: int = 0) -> Iterator[RawRow]:
        """Split at byte 0x0A only, from `offset` and `row` on; blank lines are counted, not numbered."""
        carry: list[bytes] = []
        carried = 0
        long = 0

        def finish(line: bytes, size: int) -> RawRow | None:
            nonlocal row, offset
            begin = offset
            offset += size + 1
            if long:
                row += 1
                return RawRow(row - 1, begin, line, too_long(size, self.max_record_bytes))
            if line.startswith(BOM):
                self.counts.byte_order_marks += 1
                line = line[3:]
            line = line.strip(SPACE)
            if not line:
                self.counts.blank_lines += 1
                return None
            row += 1
            return RawRow(row - 1, begin, line)

        for block in blocks:
            lines = block.split(b"\n")
            for index, line in enumerate(lines):
                last = index == len(lines) - 1
                if last:
                    carried += len(line)
                    if carried > self.max_record_bytes:
                        # Only the beginning of an over-long row is held; its length goes on counting.
                        long = carried
                        kept = b"".join([*carry, line])[: base.KEPT_RAW_BYTES]
                        carry = [kept]
                    elif not long:
                        carry.append(line)
                    break
                size = carried + len(line)
                whole = b"".join([*carry, line]) if carry else line
                if size > self.max_record_bytes:
                    long, whole = size, whole[: base.KEPT_RAW_BYTES]
                if (raw := finish(whole, size)) is not None:
                    yield raw
                carry, carried, long = [], 0, 0
        if carried and (raw := finish(b"".join(carry), carried)) is not None:
            yield raw


def split_lines(path: str, part_bytes: int, max_record_bytes: int = MAX_RECORD_BYTES) -> list[tuple[int, int, int]]:
    """Parts of an uncompressed JSON-lines file as (start, stop, number of the first row), one a shard.

    Part k holds the lines that begin in [k, k + 1) * `part_bytes`; one pass over the bytes finds line ends and counts
    rows as the reader does (lines of white space alone, up to `max_record_bytes` of it, are no rows).
    """
    parts: list[tuple[int, int, int]] = []
    part_start, part_first_row = 0, 0
    rows = 0
    offset = 0
    line_start = 0
    # What came of the line before this block: its first bytes as long as it may be blank, else None.
    carry: bytes | None = b""
    with open(path, "rb") as file:
        while block := file.read(base.BLOCK_BYTES):
            data = np.frombuffer(block, np.uint8)
            ends = np.flatnonzero(data == 10)
            begins = np.concatenate([[0], ends + 1])
            for index, end in enumerate(ends.tolist()):
                begin = int(begins[index])
                if carry is None or carry:
                    blank = carry is not None and _is_blank(carry + block[begin:end])
                else:
                    first = data[begin]
                    blank = bool(first <= 32 or first == BOM[0]) and _is_blank(block[begin:end])
                if not blank or offset + end - line_start > max_record_bytes:
                    rows += 1
                carry = b""
                line_start = offset + end + 1
                if line_start // part_bytes > part_start // part_bytes:
                    parts.append((part_start, line_start, part_first_row))
                    part_start, part_first_row = line_start, rows
            if carry is not None:
                carry += block[int(begins[-1]) :]
                # Four bytes of a blank line tell as much as all of it.
                carry = carry[:4] if _is_blank(carry) or BOM.startswith(carry) else None
            offset += len(block)
    if offset > part_start or not parts:
        parts.append((part_start, offset, part_first_row))
    return parts


def _is_blank(line: bytes) -> bool:
    return not line.removeprefix(BOM).strip(SPACE)
