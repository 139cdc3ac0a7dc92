"""Who stays, against the rule said slowly in Python; components; buckets."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from curator.kernels.buckets import equal_folds, lists_of_rows, pack, shared_keys
from curator.kernels.components import connect
from curator.kernels.jaccard import choose_keepers, jaccard

MEMBER = st.tuples(st.frozensets(st.integers(0, 9), max_size=8), st.frozensets(st.integers(0, 4), max_size=3))


def flat(lists: list[list[int]], dtype: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ends = np.cumsum([0, *map(len, lists)])
    return np.array([item for part in lists for item in part], dtype), ends[:-1], ends[1:]


def similarity(one: frozenset[int], other: frozenset[int]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0


@settings(max_examples=150, deadline=None)
@given(st.lists(MEMBER, max_size=9, unique_by=lambda member: member[0]), st.sampled_from([0.2, 0.5, 2 / 3, 0.8, 1.0]))
def test_keepers_follow_the_rule(members: list[tuple[frozenset[int], frozenset[int]]], threshold: float) -> None:
    sets, set_starts, set_ends = flat([sorted(own) for own, _ in members], np.uint64)
    buckets, starts, ends = flat([sorted(own) for _, own in members], np.int64)
    keeper, value, component, full, _ = choose_keepers(starts, ends, buckets, set_starts, set_ends, sets, threshold, 99)
    kept: list[int] = []
    parts = [{number} for number in range(len(members))]
    for number, (own, own_buckets) in enumerate(members):
        best = (-1.0, 0)
        for other in range(number):
            found = similarity(own, members[other][0])
            if own_buckets & members[other][1] and found >= threshold:
                merged = parts[number] | parts[other]
                for place in merged:
                    parts[place] = merged
                if other in kept:
                    best = max(best, (found, -other))
        if best[0] < 0:
            kept.append(number)
            assert keeper[number] == -1
        else:
            assert (value[number], keeper[number]) == (best[0], -best[1])
    assert [min(part) for part in parts] == component.tolist()
    assert len(full) == 0


def test_a_full_bucket_is_named_and_compares_its_first_members() -> None:
    own = [frozenset({1, 2, 3, 4, number}) for number in range(10, 15)]
    sets, set_starts, set_ends = flat([sorted(part) for part in own], np.uint64)
    buckets, starts, ends = flat([[7]] * 5, np.int64)
    keeper, _, _, full, came = choose_keepers(starts, ends, buckets, set_starts, set_ends, sets, 0.6, 3)
    assert keeper.tolist() == [-1, 0, 0, -1, -1]
    assert (full.tolist(), came.tolist()) == ([7], [5])


@settings(max_examples=200, deadline=None)
@given(st.frozensets(st.integers(0, 30)), st.frozensets(st.integers(0, 30)), st.floats(0.01, 1))
def test_jaccard_is_exact_from_the_threshold_on(one: frozenset[int], other: frozenset[int], threshold: float) -> None:
    sets, starts, ends = flat([sorted(one), sorted(other)], np.uint64)
    expected = similarity(one, other)
    found = jaccard(sets, starts[0], ends[0], starts[1], ends[1], threshold)
    assert found == (expected if expected >= threshold and one and other else -1.0)


def test_connect_names_the_smallest_member() -> None:
    edges = np.array([(5, 3), (3, 8), (1, 1), (0, 6)])
    assert connect(edges[:, 0].copy(), edges[:, 1].copy(), 9).tolist() == [0, 1, 2, 3, 4, 3, 0, 7, 3]


def test_rows_with_the_same_key_or_text_meet() -> None:
    keys = np.array([4, 9, 4, 9, 4, 1], np.uint64)
    pairs = np.empty(6, np.uint64)
    assert pack(keys.astype(np.uint32), np.ones(6, np.bool_), pairs) == 6
    pairs.sort()
    assert pairs.tolist() == sorted(int(key) << 32 | row for row, key in enumerate(keys))
    some = np.empty(6, np.uint64)
    assert pack(keys.astype(np.uint32), keys == 9, some) == 2
    assert (some[:2] & 0xFF).tolist() == [1, 3]
    rows, firsts = shared_keys(pairs)
    assert list(zip(rows.tolist(), firsts.tolist(), strict=True)) == [(0, 0), (2, 0), (4, 0), (1, 1), (3, 1)]
    folds = np.array([(4 << 32, 1), (9 << 32, 0), (4 << 32, 2), (9 << 32, 0), (4 << 32, 1), (1, 1)], np.uint64)
    rows, firsts = equal_folds(pairs, folds)
    assert list(zip(rows.tolist(), firsts.tolist(), strict=True)) == [(0, 0), (4, 0), (1, 1), (3, 1)]
    lists, offsets = lists_of_rows(np.array([2, 0, 2]), np.array([10, 11, 12]), 4)
    assert (lists.tolist(), offsets.tolist()) == ([11, 10, 12], [0, 1, 1, 3, 3])
