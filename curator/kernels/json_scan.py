"""Finding the elements of a JSON array in a stream of bytes, without parsing them."""

import numpy as np
from numba import njit

# State between blocks: nesting depth, inside a string, after a backslash, start of the element or -1.
STATE_SIZE = 4


@njit(cache=True, nogil=True)
def scan_elements(
    data: np.ndarray, begin: int, state: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[int, int]:
    """Find array elements that end in `data[begin:]` (uint8), the array's own `[` being depth 0 and already read.

    `state` is int64 [4] and carries depth, in-string, escaped and the start of the open element (an offset in `data`,
    -1 for none) from block to block. Fills `starts` and `ends` (int64) with the [start, end) of finished elements.
    Returns how many, and where scanning stopped: at the closing `]` of the array, when `starts` is full, or at the end.
    An element is whatever stands between commas at depth 0, so broken ones are found as well.
    """
    depth = state[0]
    in_string = state[1]
    escaped = state[2]
    start = state[3]
    found = 0
    position = begin
    size = data.shape[0]
    while position < size:
        byte = data[position]
        if in_string:
            if escaped:
                escaped = 0
            elif byte == 92:  # backslash
                escaped = 1
            elif byte == 34:  # quote
                in_string = 0
        elif byte == 34:
            in_string = 1
            if start < 0:
                start = position
        elif byte == 123 or byte == 91:  # { [
            depth += 1
            if start < 0:
                start = position
        elif byte == 125 or byte == 93:  # } ]
            if depth == 0:
                if start >= 0:
                    starts[found] = start
                    ends[found] = position
                    found += 1
                    start = -1
                break
            depth -= 1
        elif byte == 44 and depth == 0:  # comma
            if start < 0:
                start = position
            starts[found] = start
            ends[found] = position
            found += 1
            start = -1
            if found == starts.shape[0]:
                position += 1
                break
        elif start < 0 and byte != 32 and byte != 10 and byte != 13 and byte != 9:
            start = position
        position += 1
    state[0] = depth
    state[1] = in_string
    state[2] = escaped
    state[3] = start
    return found, position
