"""Interleaving: in every stretch of the order each slice has its share."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator.kernels.interleave import interleave


def sequence(*counts: int) -> np.ndarray:
    return interleave(np.array(counts, dtype=np.int64))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((), []),
        ((0, 0), []),
        ((3,), [0, 0, 0]),
        ((0, 2, 0), [1, 1]),
        ((1, 1), [0, 1]),
        ((2, 1), [0, 0, 1]),
        ((1, 3), [1, 1, 0, 1]),
        ((4, 2), [0, 0, 1, 0, 0, 1]),
    ],
)
def test_small_sequences_are_pinned(counts: tuple[int, ...], expected: list[int]) -> None:
    result = sequence(*counts)
    assert result.tolist() == expected
    assert result.dtype == np.int32


def worst_prefix_and_window(result: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    """The largest distance from the share in any prefix, and in any window."""
    steps = np.arange(len(result) + 1)[:, None]
    done = np.concatenate([np.zeros((1, len(counts))), np.cumsum(result[:, None] == np.arange(len(counts)), axis=0)])
    off = done - steps * counts / counts.sum()
    # A window is the difference of two prefixes.
    return float(np.abs(off).max()), float((off.max(axis=0) - off.min(axis=0)).max())


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=9).filter(any))
def test_every_prefix_is_under_one_off_and_every_window_under_two(counts: list[int]) -> None:
    result = sequence(*counts)
    assert np.bincount(result, minlength=len(counts)).tolist() == counts
    prefix, window = worst_prefix_and_window(result, np.array(counts))
    assert prefix < 1
    assert window < 2


@pytest.mark.parametrize(
    "counts", [(9973, 1, 1), (5000, 3000, 2000, 1, 7), tuple(range(1, 60)), (1,) * 300, (100_000, 33_333, 7)]
)
def test_long_and_uneven_sequences_do_not_drift(counts: tuple[int, ...]) -> None:
    result = sequence(*counts)
    assert np.bincount(result).tolist() == list(counts)
    prefix, window = worst_prefix_and_window(result, np.array(counts))
    assert prefix < 1
    assert window < 2
