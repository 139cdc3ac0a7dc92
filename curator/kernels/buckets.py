"""Rows that have something in common: equal texts, and equal keys of a band."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def pack(keys: np.ndarray, is_chosen: np.ndarray, out: np.ndarray) -> int:
    """Fill `out` (uint64, as long) with keys (uint32) above row numbers, of the chosen rows; returns how many.

    Sorting this is quicker than sorting indices.
    """
    used = 0
    for row in range(keys.shape[0]):
        out[used] = np.uint64(keys[row]) << np.uint64(32) | np.uint64(row)
        used += is_chosen[row]
    return used


@njit(cache=True, nogil=True)
def equal_folds(pairs: np.ndarray, folds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose text equals another's, in ascending order within a text, and the first row of each text; int64.

    `pairs` are from `pack`, sorted, with the upper half of `folds[row, 0]` as key; `folds` is uint64 [num_rows, 2].
    """
    count = pairs.shape[0]
    rows = np.empty(count, np.int64)
    firsts = np.empty(count, np.int64)
    is_seen = np.zeros(count, np.bool_)
    used = 0
    low = np.uint64(0xFFFFFFFF)
    for place in range(count):
        if is_seen[place]:
            continue
        first = np.int64(pairs[place] & low)
        begin = used
        other = place + 1
        while other < count and pairs[other] >> np.uint64(32) == pairs[place] >> np.uint64(32):
            row = np.int64(pairs[other] & low)
            if folds[row, 0] == folds[first, 0] and folds[row, 1] == folds[first, 1]:
                if used == begin:
                    rows[used] = first
                    firsts[used] = first
                    used += 1
                rows[used] = row
                firsts[used] = first
                used += 1
                is_seen[other] = True
            other += 1
    return rows[:used].copy(), firsts[:used].copy()


@njit(cache=True, nogil=True)
def shared_keys(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose key another row has, bucket by bucket, and the first row of each bucket; int64.

    `pairs` are from `pack`, sorted.
    """
    count = pairs.shape[0]
    rows = np.empty(count, np.int64)
    firsts = np.empty(count, np.int64)
    used = 0
    begin = 0
    while begin < count:
        end = begin + 1
        while end < count and pairs[end] >> np.uint64(32) == pairs[begin] >> np.uint64(32):
            end += 1
        if end - begin > 1:
            first = np.int64(pairs[begin] & np.uint64(0xFFFFFFFF))
            for place in range(begin, end):
                rows[used] = np.int64(pairs[place] & np.uint64(0xFFFFFFFF))
                firsts[used] = first
                used += 1
        begin = end
    return rows[:used].copy(), firsts[:used].copy()


@njit(cache=True, nogil=True)
def lists_of_rows(rows: np.ndarray, values: np.ndarray, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The values of each row, one after the other in their order, and where each row's begin, int64 [num_rows + 1]."""
    offsets = np.zeros(num_rows + 1, np.int64)
    for row in rows:
        offsets[row + 1] += 1
    for row in range(num_rows):
        offsets[row + 1] += offsets[row]
    places = offsets[:-1].copy()
    lists = np.empty(values.shape[0], values.dtype)
    for index in range(rows.shape[0]):
        row = rows[index]
        lists[places[row]] = values[index]
        places[row] += 1
    return lists, offsets
