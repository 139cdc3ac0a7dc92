"""Shingles of UTF-8 text as 64-bit hashes: n words or n characters in a row, without making strings."""

import numpy as np
from numba import njit

from curator.kernels.characters import ALONE, SEPARATOR, SPACE, WORD

_WORD_STEP = np.uint64(0x9E3779B97F4A7C15)
_ROLL = np.uint64(0xD6E8FEB86659FD93)
_START = np.uint64(0x243F6A8885A308D3)
_FOLD_STEP = np.uint64(0xC2B2AE3D27D4EB4F)
# Indices are unsigned where a loop is hot: for signed ones numba checks at each access whether they count from the end.
_ONE = np.uintp(1)


@njit(cache=True, nogil=True, inline="always")
def mix64(value: np.uint64) -> np.uint64:
    """Spread 64 bits over 64 bits, one to one (the finalizer of MurmurHash3, public domain)."""
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xFF51AFD7ED558CCD)
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xC4CEB9FE1A85EC53)
    return value ^ (value >> np.uint64(33))


@njit(cache=True, nogil=True)
def power(exponent: int) -> np.uint64:
    """The rolling factor to a power, modulo 2**64."""
    result = np.uint64(1)
    for _ in range(exponent):
        result *= _ROLL
    return result


@njit(cache=True, nogil=True, inline="always")
def _code_point(data: np.ndarray, position: np.uintp) -> tuple[np.uint32, np.uintp]:
    """The code point at `position` of valid UTF-8, and where the next one begins."""
    first = np.uint32(data[position])
    position += _ONE
    if first < 0x80:
        return first, position
    second = np.uint32(data[position]) & np.uint32(0x3F)
    position += _ONE
    if first < 0xE0:
        return (first & np.uint32(0x1F)) << np.uint32(6) | second, position
    third = np.uint32(data[position]) & np.uint32(0x3F)
    position += _ONE
    if first < 0xF0:
        return (first & np.uint32(0x0F)) << np.uint32(12) | second << np.uint32(6) | third, position
    fourth = np.uint32(data[position]) & np.uint32(0x3F)
    code = (first & np.uint32(0x07)) << np.uint32(18) | second << np.uint32(12) | third << np.uint32(6) | fourth
    return code, position + _ONE


@njit(cache=True, nogil=True)
def _words(
    data: np.ndarray, start: int, stop: int, classes: np.ndarray, lower: np.ndarray, units: np.ndarray
) -> tuple[int, bool]:
    """Hash the words of `data[start:stop]` into `units`; returns how many, and whether all of it is white space."""
    count = np.uintp(0)
    word = _START
    in_word = False
    is_blank = True
    position, end = np.uintp(start), np.uintp(stop)
    while position < end:
        code, position = _code_point(data, position)
        kind = classes[code] if code < classes.shape[0] else SEPARATOR
        if kind == WORD:
            word = (word ^ np.uint64(lower[code])) * _WORD_STEP
            in_word = True
            continue
        if kind != SPACE:
            is_blank = False
        if in_word:
            units[count] = mix64(word)
            count += _ONE
            word = _START
            in_word = False
        if kind == ALONE:
            units[count] = mix64((_START ^ np.uint64(lower[code])) * _WORD_STEP)
            count += _ONE
    if in_word:
        units[count] = mix64(word)
        count += _ONE
    return int(count), bool(is_blank and count == 0)


@njit(cache=True, nogil=True)
def _characters(
    data: np.ndarray, start: int, stop: int, classes: np.ndarray, lower: np.ndarray, units: np.ndarray
) -> tuple[int, bool]:
    """Hash the characters of `data[start:stop]` into `units`, a run of white space as one blank and none at the ends;
    returns how many, and whether all of it is white space."""
    count = np.uintp(0)
    in_space = False
    position, end = np.uintp(start), np.uintp(stop)
    while position < end:
        code, position = _code_point(data, position)
        kind = SEPARATOR
        if code < classes.shape[0]:
            kind = classes[code]
            code = lower[code]
        if kind == SPACE:
            in_space = bool(count > 0)
            continue
        if in_space:
            units[count] = mix64(_START ^ np.uint64(32))
            count += _ONE
            in_space = False
        units[count] = mix64(_START ^ np.uint64(code))
        count += _ONE
    return int(count), bool(count == 0)


@njit(cache=True, nogil=True)
def shingle_text(
    data: np.ndarray,
    start: int,
    stop: int,
    size: int,
    by_word: bool,
    drop_factor: np.uint64,
    classes: np.ndarray,
    lower: np.ndarray,
    units: np.ndarray,
    shingles: np.ndarray,
) -> tuple[int, int]:
    """Hash the shingles of one text, `data[start:stop]` (uint8, valid UTF-8), in order and with repeats.

    `units` and `shingles` (uint64) need room for `stop - start` and one more; `drop_factor` is `power(size)`. Fills
    `units` with the hashes of its words or characters, `shingles` with those of every `size` units in a row; returns
    the number of each. A text with fewer units is one shingle, and so is one without any unit (punctuation only), by
    its bytes; a text of nothing but white space has none.
    """
    if by_word:
        num_units, is_blank = _words(data, start, stop, classes, lower, units)
    else:
        num_units, is_blank = _characters(data, start, stop, classes, lower, units)
    if is_blank:
        return 0, 0
    rolling = np.uint64(0)
    if num_units == 0:
        for place in range(start, stop):
            rolling = rolling * _ROLL + mix64(_START + np.uint64(data[place]))
        units[0] = mix64(rolling)
        num_units = 1
    if num_units < size:
        for index in range(num_units):
            rolling = rolling * _ROLL + units[index]
        # Its length keeps a short text apart from the shingles of longer ones.
        shingles[0] = mix64(rolling ^ np.uint64(size - num_units) * _FOLD_STEP)
        return num_units, 1
    for index in range(size):
        rolling = rolling * _ROLL + units[index]
    shingles[0] = mix64(rolling)
    for index in range(size, num_units):
        rolling = rolling * _ROLL + units[index] - units[index - size] * drop_factor
        shingles[index - size + 1] = mix64(rolling)
    return num_units, num_units - size + 1


@njit(cache=True, nogil=True)
def buffers(offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Room for the units and the shingles of the longest text, as `shingle_text` wants it."""
    longest = 0
    for text in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[text + 1] - offsets[text])
    return np.empty(longest + 1, np.uint64), np.empty(longest + 1, np.uint64)


@njit(cache=True, nogil=True)
def fold_units(units: np.ndarray, count: int) -> tuple[np.uint64, np.uint64]:
    """A 128-bit hash, in two halves, of a sequence of unit hashes: equal for texts that are equal in words."""
    low = np.uint64(count)
    high = _START
    for index in range(count):
        low = (low ^ units[index]) * _FOLD_STEP
        low ^= low >> np.uint64(29)
        high = (high + units[index]) * _ROLL
        high ^= high >> np.uint64(32)
    return low, high


@njit(cache=True, nogil=True)
def shingle_sets(
    data: np.ndarray,
    offsets: np.ndarray,
    size: int,
    by_word: bool,
    classes: np.ndarray,
    lower: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct shingle hashes of each text, sorted: uint64 one after the other, and offsets int64 [num_texts + 1];
    and a digest of each set, uint64 [num_texts], equal for equal sets.

    `data` is uint8, `offsets` [num_texts + 1] say where each text begins in it.
    """
    num_texts = offsets.shape[0] - 1
    ends = np.zeros(num_texts + 1, np.int64)
    digests = np.zeros(num_texts, np.uint64)
    out = np.empty(offsets[num_texts] - offsets[0] + num_texts, np.uint64)
    units, shingles = buffers(offsets)
    drop_factor = power(size)
    used = 0
    for text in range(num_texts):
        _, count = shingle_text(
            data, offsets[text], offsets[text + 1], size, by_word, drop_factor, classes, lower, units, shingles
        )
        ordered = np.sort(shingles[:count])
        for index in range(count):
            if index == 0 or ordered[index] != ordered[index - 1]:
                out[used] = ordered[index]
                used += 1
        ends[text + 1] = used
        digests[text] = fold_units(out[ends[text] : used], used - ends[text])[0]
    return out[:used].copy(), ends, digests
