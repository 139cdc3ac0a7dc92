"""The order: strata, permutations and epochs that depend on the seed alone."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator.errors import CuratorError
from curator.io.manifest import digest_file
from curator.mixture import sampler
from curator.mixture.sampler import MAX_STRATA, Order, cut_strata, draw_order, seeded_permutation, write_order

# --- permutations -------------------------------------------------------------------------------------------------


def test_permutations_are_pinned() -> None:
    assert seeded_permutation(10, 0).tolist() == PINNED[0]
    assert seeded_permutation(10, 7, 3, 1).tolist() == PINNED[1]
    assert seeded_permutation(6, -1).tolist() == PINNED[2]
    assert seeded_permutation(6, 2**64 - 1).tolist() == PINNED[2]
    assert seeded_permutation(0, 1).tolist() == []
    assert seeded_permutation(1, 1).tolist() == [0]


PINNED = [[6, 8, 0, 9, 3, 1, 4, 2, 7, 5], [3, 0, 9, 8, 4, 7, 5, 1, 6, 2], [0, 1, 3, 5, 2, 4]]


def splitmix(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) % 2**64
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    return value ^ value >> 31


def test_permutations_follow_splitmix64() -> None:
    """Against plain integers: the index times the golden gamma, mixed, starting from the mixed seeds."""
    key = 0
    for seed in (7, 3, 1):
        key = splitmix(key ^ seed)
    gamma = 0x9E3779B97F4A7C15
    keys = [splitmix((index * gamma + key - gamma) % 2**64) for index in range(50)]
    assert seeded_permutation(50, 7, 3, 1).tolist() == sorted(range(50), key=keys.__getitem__)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 300), st.integers(0, 2**40), st.integers(0, 50))
def test_permutations_hold_every_index_once_and_differ_by_seed(size: int, seed: int, unit: int) -> None:
    permutation = seeded_permutation(size, seed, unit)
    assert sorted(permutation.tolist()) == list(range(size))
    assert (permutation == seeded_permutation(size, seed, unit)).all()
    if size > 30:
        assert (permutation != seeded_permutation(size, seed, unit + 1)).any()
        assert (permutation != seeded_permutation(size, seed + 1, unit)).any()


def test_permutations_are_even() -> None:
    """Each index lands in each quarter about as often."""
    quarters = np.zeros((40, 4))
    for seed in range(400):
        permutation = seeded_permutation(40, seed)
        quarters[permutation, np.arange(40) // 10] += 1
    assert quarters.min() > 60
    assert quarters.max() < 140


# --- strata -------------------------------------------------------------------------------------------------------


def test_few_weights_keep_their_own_stratum() -> None:
    weights = np.array([2.0, 0.0, 1.0, 2.0, 0.5])
    strata, means = cut_strata(weights)
    assert means.tolist() == [0.0, 0.5, 1.0, 2.0]
    assert means[strata].tolist() == weights.tolist()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1.0]) | st.floats(0, 100, allow_subnormal=False), min_size=1, max_size=400),
    st.booleans(),
)
def test_strata_are_few_ordered_and_keep_equal_weights_together(values: list[float], many: bool) -> None:
    weights = np.array(values + ([index / 7 for index in range(200)] if many else []))
    strata, means = cut_strata(weights)
    assert len(means) <= MAX_STRATA
    assert len(np.unique(strata)) == len(means)
    for stratum in range(len(means)):
        inside = weights[strata == stratum]
        assert means[stratum] == pytest.approx(inside.mean())
        if (inside == 0).any():
            assert (inside == 0).all()
    for value in np.unique(weights):
        assert len(np.unique(strata[weights == value])) == 1
    order = np.argsort(weights, kind="stable")
    assert (np.diff(strata[order]) >= 0).all()
    assert (weights * 1.0).sum() == pytest.approx((means[strata]).sum())


def test_many_weights_are_cut_at_equal_counts() -> None:
    strata, _ = cut_strata(np.arange(1, 6301, dtype=np.float64))
    counts = np.bincount(strata)
    assert len(counts) == 63
    assert counts.min() == counts.max() == 100


# --- drawing ------------------------------------------------------------------------------------------------------


def draws(unit_of_row: list[int], counts: list[list[int]], seed: int = 0) -> dict[str, np.ndarray]:
    num_units = len(counts[0])
    return draw_order(np.array(unit_of_row), num_units, [np.array(phase) for phase in counts], seed)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_each_epoch_of_a_unit_is_a_permutation_before_any_row_comes_again(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    unit_of_row = data.draw(st.permutations([unit for unit, size in enumerate(sizes) for _ in range(size)] + [-1, -1]))
    counts = data.draw(
        st.lists(st.lists(st.integers(0, 15), min_size=len(sizes), max_size=len(sizes)), min_size=1, max_size=3)
    )
    order = draws(unit_of_row, counts, data.draw(st.integers(0, 5)))
    assert len(order["row"]) == sum(map(sum, counts))
    assert np.bincount(order["phase"], minlength=len(counts)).tolist() == [sum(phase) for phase in counts]
    assert (np.diff(order["phase"]) >= 0).all()
    for phase, asked in enumerate(counts):
        assert np.bincount(order["unit"][order["phase"] == phase], minlength=len(sizes)).tolist() == asked
    for unit, size in enumerate(sizes):
        mine = order["unit"] == unit
        rows, epochs = order["row"][mine], order["epoch"][mine]
        members = [row for row, of in enumerate(unit_of_row) if of == unit]
        assert epochs.tolist() == [index // size for index in range(len(rows))]
        for start in range(0, len(rows) - size + 1, size):
            assert sorted(rows[start : start + size].tolist()) == members
        assert len(set(rows[len(rows) // size * size :].tolist())) == len(rows) % size


def test_epochs_and_seeds_have_permutations_of_their_own() -> None:
    order = draws([0] * 30, [[90]])
    epochs = order["row"].reshape(3, 30)
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 3
    assert (draws([0] * 30, [[30]], seed=1)["row"] != epochs[0]).any()
    assert (draws([0] * 30, [[30]], seed=0)["row"] == epochs[0]).all()


def test_cutting_a_phase_does_not_change_what_a_unit_gives() -> None:
    whole = draws([0] * 7 + [1] * 5, [[14, 10]])
    parts = draws([0] * 7 + [1] * 5, [[5, 4], [9, 6]])
    for unit in (0, 1):
        assert whole["row"][whole["unit"] == unit].tolist() == parts["row"][parts["unit"] == unit].tolist()


def test_an_order_of_nothing() -> None:
    order = draws([0, -1], [[0]])
    assert {name: (len(column), column.dtype) for name, column in order.items()} == {
        "row": (0, np.dtype(np.int64)),
        "epoch": (0, np.dtype(np.int32)),
        "phase": (0, np.dtype(np.int32)),
        "unit": (0, np.dtype(np.int32)),
    }


# --- the stored order -----------------------------------------------------------------------------------------------


def stored(folder: Path, rows: int) -> Order:
    columns = {name: np.arange(rows) % modulus for name, modulus in (("epoch", 3), ("phase", 2), ("slice", 5))}
    digest = write_order(folder / "order.parquet", {"row": np.arange(rows)[::-1], **columns})
    mixture = {
        "order": {"positions": rows, "xxh3": digest},
        "phases": [{"name": "all", "first": 0, "last": rows}],
        "slices": ["a", "b", "c", "d", "e"],
    }
    (folder / "mixture.json").write_text(json.dumps(mixture))
    return Order.open(folder)


def test_an_order_is_read_by_position_across_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "_ROW_GROUP", 10)
    order = stored(tmp_path, 35)
    assert order.num_positions == 35
    for start, stop in [(0, 35), (9, 11), (10, 20), (34, 35), (5, 5), (30, 99), (-3, 2)]:
        expected = [34 - position for position in range(35)][max(start, 0) : stop]
        assert order.read(start, stop).column("row").to_pylist() == expected
    assert order.read(12, 14).to_pylist() == [
        {"row": 22, "epoch": 0, "phase": 0, "slice": 2},
        {"row": 21, "epoch": 1, "phase": 1, "slice": 3},
    ]


def test_the_same_order_has_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        stored(tmp_path / name, 100)
    assert digest_file(tmp_path / "a" / "order.parquet") == digest_file(tmp_path / "b" / "order.parquet")
    (tmp_path / "c").mkdir()
    assert stored(tmp_path / "c", 0).read(0, 5).num_rows == 0


def test_a_changed_or_missing_order_is_refused(tmp_path: Path) -> None:
    stored(tmp_path, 10)
    path = tmp_path / "order.parquet"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(CuratorError, match=r"is missing or not the order that mixture\.json names"):
        Order.open(tmp_path)
    path.unlink()
    with pytest.raises(CuratorError, match="is missing or not the order"):
        Order.open(tmp_path)
    with pytest.raises(CuratorError, match=r"is not a mixture: it has no mixture\.json"):
        Order.open(tmp_path / "nothing")
