"""Components of duplicates, joined across dedup steps."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from curator.stages.dedup.components import unite


def united(labels: list[str], sizes: list[int], partners: list[int]) -> tuple[list[str], list[int]]:
    names, totals = unite(pa.array(labels, pa.string()), np.array(sizes, np.int64), np.array(partners, np.int64))
    return names.to_pylist(), totals.tolist()


def test_a_union_has_the_smallest_label_and_the_sum_of_sizes() -> None:
    assert united(["c", "a", "b", "d"], [1, 3, 1, 1], [2, 1, 2, 3]) == (["b", "a", "b", "d"], [2, 3, 2, 1])
    assert united(["c", "a", "b", "d"], [1, 3, 1, 1], [2, 0, 2, 3]) == (["a", "a", "a", "d"], [5, 5, 5, 1])


def test_lines_of_one_label_are_one_component_whose_size_counts_once() -> None:
    assert united(["x", "x", "a", "b"], [7, 7, 1, 1], [0, 1, 1, 3]) == (["a", "a", "a", "b"], [8, 8, 8, 1])


def test_no_lines_are_no_components() -> None:
    assert united([], [], []) == ([], [])


def test_labels_compare_as_text() -> None:
    assert united(["s#10", "s#9", "\u00e9", "z"], [1, 1, 1, 1], [1, 1, 3, 3])[0] == ["s#10", "s#10", "z", "z"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=25), st.randoms())
def test_against_sets_in_any_order(pairs: list[tuple[int, int]], random: object) -> None:
    groups = {number: {number} for number in range(13)}
    for left, right in pairs:
        merged = groups[left] | groups[right]
        for number in merged:
            groups[number] = merged
    # Every label has a line of its own, and one for each pair, in any order.
    lines = [(number, number) for number in range(13)] + pairs
    random.shuffle(lines)  # type: ignore[attr-defined]
    place = {left: index for index, (left, _) in enumerate(lines)}
    names, sizes = united([f"{left:02d}" for left, _ in lines], [1] * len(lines), [place[right] for _, right in lines])
    for (left, _), name, size in zip(lines, names, sizes, strict=True):
        assert name == f"{min(groups[left]):02d}"
        assert size == len(groups[left])
