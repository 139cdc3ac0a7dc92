"""The bytes that a content hash is made of, for many records at once."""

import numpy as np
from numba import njit

from curator.kernels.words import copy_bytes

# One tag a message field, in this order: role, content, reasoning, tool_calls, tool_call_id, name.
_TAGS = np.frombuffer(b"rctfin", np.uint8).copy()


@njit(cache=True, nogil=True)
def _put(out: np.ndarray, at: int, tag: int, data: np.ndarray, begin: int, end: int) -> int:
    """A tag, the number of bytes in decimal, a colon, the bytes; returns the place behind them."""
    out[at] = tag
    at += 1
    size = end - begin
    digits = 1
    while size >= 10**digits:
        digits += 1
    for digit in range(digits):
        out[at + digits - 1 - digit] = 48 + size % 10
        size //= 10
    at += digits
    out[at] = 58
    at += 1
    copy_bytes(out, at, data, begin, end - begin)
    return at + end - begin


_AROUND = 22
"""Bytes that a tag, a length and a colon take at most."""


@njit(cache=True, nogil=True)
def encode_records(
    version: np.ndarray,
    first_messages: np.ndarray,
    texts: tuple[np.ndarray, ...],
    text_starts: tuple[np.ndarray, ...],
    are_valid: tuple[np.ndarray, ...],
    row_tags: np.ndarray,
    row_texts: tuple[np.ndarray, ...],
    row_text_starts: tuple[np.ndarray, ...],
    row_are_valid: tuple[np.ndarray, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """What `schema.record.content_hash` hashes for each record: bytes (uint8) and starts (int64 [num_records + 1]).

    Record r has the messages `first_messages[r]` to `first_messages[r + 1]`; `texts`, `text_starts` (int64) and
    `are_valid` (uint8) are their six text columns, the `row_` ones are the record's own under `row_tags` (uint8).
    """
    num_records = first_messages.shape[0] - 1
    room = num_records * version.shape[0] + first_messages[num_records]
    for column in range(6):
        count = text_starts[column].shape[0] - 1
        room += text_starts[column][count] - text_starts[column][0] + _AROUND * count
    for column in range(len(row_texts)):
        count = row_text_starts[column].shape[0] - 1
        room += row_text_starts[column][count] - row_text_starts[column][0] + _AROUND * count
    out = np.empty(room, np.uint8)
    starts = np.empty(num_records + 1, np.int64)
    at = 0
    for record in range(num_records):
        starts[record] = at
        copy_bytes(out, at, version, 0, version.shape[0])
        at += version.shape[0]
        for message in range(first_messages[record], first_messages[record + 1]):
            out[at] = 77  # M
            at += 1
            for column in range(6):
                if are_valid[column][message]:
                    begin, end = text_starts[column][message], text_starts[column][message + 1]
                    at = _put(out, at, _TAGS[column], texts[column], begin, end)
        for column in range(len(row_texts)):
            if row_are_valid[column][record]:
                begin, end = row_text_starts[column][record], row_text_starts[column][record + 1]
                at = _put(out, at, row_tags[column], row_texts[column], begin, end)
    starts[num_records] = at
    return out, starts
