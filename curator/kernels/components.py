"""Connected components by union-find over integers."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, inline="always")
def find(parent: np.ndarray, member: int) -> int:
    """The root of `member`; paths are halved on the way."""
    while parent[member] != member:
        parent[member] = parent[parent[member]]
        member = parent[member]
    return member


@njit(cache=True, nogil=True)
def connect(left: np.ndarray, right: np.ndarray, num_members: int) -> np.ndarray:
    """The smallest member of each member's component, int64 [num_members]; `left` and `right` (int64) are the edges."""
    parent = np.arange(num_members)
    for edge in range(left.shape[0]):
        one = find(parent, left[edge])
        other = find(parent, right[edge])
        if one < other:
            parent[other] = one
        else:
            parent[one] = other
    for member in range(num_members):
        parent[member] = find(parent, member)
    return parent
