"""Validation rows: whole groups, the share asked, the same ones for the same keys."""

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from curator.mixture.splits import assign_validation


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 30).map(str), max_size=120),
    st.sampled_from([0.01, 0.05, 0.2, 0.5]),
    st.integers(0, 9),
    st.randoms(),
)
def test_groups_stay_together_in_any_order_of_rows(keys: list[str], fraction: float, seed: int, random: object) -> None:
    held = assign_validation(keys, fraction, seed)
    by_key = {key: {bool(held[row]) for row, other in enumerate(keys) if other == key} for key in keys}
    assert all(len(sides) == 1 for sides in by_key.values())
    order = list(range(len(keys)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = assign_validation([keys[row] for row in order], fraction, seed)
    assert (shuffled == held[order]).all()
    if len(by_key) >= 2:
        assert 0 < held.sum() < len(keys)


@pytest.mark.parametrize(("fraction", "expected"), [(0.0, 0), (0.01, 10), (0.1, 100), (0.333, 333), (0.5, 500)])
def test_rows_alone_give_the_share_exactly(fraction: float, expected: int) -> None:
    held = assign_validation([f"s/f#{row}" for row in range(1000)], fraction, 7)
    assert held.dtype == bool
    assert held.sum() == expected


def test_groups_give_the_share_up_to_one_group() -> None:
    keys = [f"g{row // 3}" for row in range(999)]
    held = assign_validation(keys, 0.1, 7)
    assert 97 <= held.sum() <= 99


def test_the_choice_depends_on_the_seed_and_mostly_stays_when_rows_are_added() -> None:
    keys = [f"s/f#{row}" for row in range(1000)]
    held = assign_validation(keys, 0.1, 7)
    assert (held != assign_validation(keys, 0.1, 8)).sum() > 100
    more = assign_validation([*keys, *(f"t/f#{row}" for row in range(100))], 0.1, 7)
    assert (held & more[:1000]).sum() >= 90


def test_the_choice_is_pinned() -> None:
    held = assign_validation([f"k{row}" for row in range(20)], 0.2, 7)
    assert np.flatnonzero(held).tolist() == PINNED


PINNED = [0, 2, 8, 14]


@pytest.mark.parametrize("keys", [[], ["a"], ["a"] * 5])
def test_less_than_two_groups_are_never_held_out(keys: list[str]) -> None:
    assert assign_validation(keys, 0.5, 0).sum() == 0


def test_a_group_above_the_share_stays_in_training_even_when_its_turn_comes_first() -> None:
    names = sorted((f"k{row}" for row in range(100)), key=lambda key: xxhash.xxh3_64_intdigest(key.encode(), 7))
    for giant in (names[0], names[2], names[50]):
        keys = [giant] * 500 + names
        held = assign_validation(keys, 0.05, 7)
        assert held.sum() == 30
        assert {keys[row] for row in np.flatnonzero(held)} == set([name for name in names if name != giant][:30])
    assert assign_validation(["a"] * 30 + ["b"] * 20, 0.01, 0).tolist() == [False] * 30 + [True] * 20
