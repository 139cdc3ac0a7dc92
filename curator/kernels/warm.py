"""Compiles every kernel into numba's cache, so that workers only load them."""

import numpy as np


def warm() -> None:
    """Call each kernel once on a tiny input of the types it is used with."""
    from curator.kernels.interleave import interleave
    from curator.kernels.json_scan import STATE_SIZE, scan_elements

    interleave(np.array([1, 1], dtype=np.int64))
    state = np.zeros(STATE_SIZE, dtype=np.int64)
    state[3] = -1
    scan_elements(np.frombuffer(b"1]", np.uint8), 0, state, np.empty(4, np.int64), np.empty(4, np.int64))
