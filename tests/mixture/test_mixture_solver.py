"""From asked shares to counts, against a slow solution of the same task."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator.mixture.solver import Allotment, allot


def allotted(
    sizes: list[float],
    weights: list[float],
    budget: float | None,
    capacity: list[int] | None = None,
    row_size: list[float] | None = None,
) -> Allotment:
    row_size = row_size or [1.0] * len(sizes)
    if capacity is None:
        capacity = [int(size / one) for size, one in zip(sizes, row_size, strict=True)]
    arrays = [np.array(values, dtype=np.float64) for values in (sizes, weights, row_size)]
    return allot(arrays[0], arrays[1], np.array(capacity, dtype=np.int64), arrays[2], budget)


@pytest.mark.parametrize(
    ("sizes", "weights", "budget", "counts"),
    [
        ([100, 100], [1, 1], 10, [5, 5]),
        ([100, 100], [3, 1], 40, [30, 10]),
        ([300, 100], [1, 1], 40, [30, 10]),
        ([300, 100], [1, 3], 40, [20, 20]),
        ([10, 100], [1, 1], 110, [10, 100]),
        ([10, 100], [10, 1], 60, [10, 50]),
        ([10, 100], [10, 1], 1000, [10, 100]),
        ([100, 100, 100], [1, 1, 0], 30, [15, 15, 0]),
        ([100, 100], [0, 0], 30, [0, 0]),
        ([100, 100, 100], [1, 1, 1], 10, [4, 3, 3]),
        ([100, 100], [1, 1], None, [100, 100]),
        ([100, 100], [2, 1], None, [100, 50]),
        ([50, 100], [4, 1], None, [50, 25]),
        ([100, 0], [1, 1], 10, [10, 0]),
    ],
)
def test_small_tasks(sizes: list[float], weights: list[float], budget: float | None, counts: list[int]) -> None:
    assert allotted(sizes, weights, budget).counts.tolist() == counts


def test_what_a_full_unit_cannot_take_goes_to_the_others_in_proportion() -> None:
    result = allotted([10, 200, 100], [30, 1, 1], 190)
    assert result.counts.tolist() == [10, 120, 60]
    assert result.capped.tolist() == [True, False, False]
    assert result.shares == pytest.approx([0.5, 1 / 3, 1 / 6])


def test_a_budget_above_everything_there_is_is_capped_everywhere() -> None:
    assert allotted([100, 100, 100], [1, 1, 0], 500).capped.tolist() == [True, True, False]
    assert allotted([100, 100], [1, 1], 200).capped.tolist() == [False, False]


def test_a_budget_in_tokens_counts_rows_by_their_mean_size() -> None:
    result = allotted([1000, 1000], [1, 1], 500, row_size=[10.0, 50.0])
    assert result.counts.tolist() == [25, 5]
    assert allotted([1000, 1000], [1, 3], 400, row_size=[10.0, 50.0]).counts.tolist() == [10, 6]


def slow_amounts(shares: np.ndarray, capacity: np.ndarray, budget: float) -> np.ndarray:
    """Water-filling by bisection on the level."""
    target = min(budget, float(capacity[shares > 0].sum()))
    low, high = 0.0, 1e12
    for _ in range(200):
        level = (low + high) / 2
        amounts = np.minimum(level * shares, capacity)
        low, high = (level, high) if amounts.sum() < target else (low, level)
    return np.minimum(high * shares, np.where(shares > 0, capacity, 0))


_UNITS = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from([0.0, 0.25, 1.0, 2.0, 7.0]), st.integers(1, 3)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=200, deadline=None)
@given(_UNITS, st.integers(1, 400))
def test_rows_are_the_water_filling_rounded_and_never_above_the_cap(
    units: list[tuple[int, float, int]], budget: int
) -> None:
    sizes = np.array([size for size, _, _ in units], dtype=np.float64)
    weights = np.array([weight for _, weight, _ in units])
    capacity = np.array([size * epochs for size, _, epochs in units])
    result = allot(sizes, weights, capacity, np.ones(len(units)), float(budget))
    asked = sizes * weights
    assert (result.counts <= capacity).all()
    assert (result.counts[asked == 0] == 0).all()
    if asked.sum() == 0:
        return
    shares = asked / asked.sum()
    assert result.shares == pytest.approx(shares)
    wanted = slow_amounts(shares, capacity.astype(float), budget)
    assert np.abs(result.counts - wanted).max() < 1 + 1e-6
    assert result.counts.sum() == min(budget, capacity[asked > 0].sum())


@settings(max_examples=100, deadline=None)
@given(_UNITS)
def test_without_a_budget_every_share_holds_and_one_unit_is_used_up(units: list[tuple[int, float, int]]) -> None:
    sizes = np.array([size for size, _, _ in units], dtype=np.float64)
    weights = np.array([weight for _, weight, _ in units])
    capacity = np.array([size * epochs for size, _, epochs in units])
    result = allot(sizes, weights, capacity, np.ones(len(units)), None)
    asked = sizes * weights
    active = asked > 0
    if not active.any():
        assert result.counts.sum() == 0
        return
    assert (result.counts <= capacity).all()
    assert (result.counts[active] == capacity[active]).any()
    total = (capacity[active] / asked[active]).min() * asked.sum()
    assert np.abs(result.counts - total * asked / asked.sum()).max() < 1 + 1e-6
    assert not result.capped.any()


@settings(max_examples=100, deadline=None)
@given(_UNITS, st.integers(10, 5000), st.lists(st.floats(1, 80), min_size=6, max_size=6))
def test_a_token_budget_is_met_up_to_half_a_row_a_unit(
    units: list[tuple[int, float, int]], budget: int, row_sizes: list[float]
) -> None:
    row_size = np.array(row_sizes[: len(units)])
    counts = np.array([size for size, _, _ in units])
    weights = np.array([weight for _, weight, _ in units])
    capacity = counts * np.array([epochs for _, _, epochs in units])
    result = allot(counts * row_size, weights, capacity, row_size, float(budget))
    active = (counts > 0) & (weights > 0)
    assert (result.counts <= capacity).all()
    reachable = min(budget, float((capacity * row_size)[active].sum()))
    assert abs(float((result.counts * row_size).sum()) - reachable) <= row_size[active].sum() + 1e-6
