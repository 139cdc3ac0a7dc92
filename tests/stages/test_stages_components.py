"""Union-find over labels with sizes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from curator.stages.dedup.components import Components


def test_a_union_has_the_smallest_name_and_the_sum_of_sizes() -> None:
    components = Components()
    for label, size in (("c", 1), ("a", 3), ("b", 1), ("d", 1)):
        components.add(label, size)
    components.union(["c", "b"])
    assert [components.find(label) for label in "abcd"] == ["a", "b", "b", "d"]
    components.union(["c", "a"])
    assert [components.find(label) for label in "abcd"] == ["a", "a", "a", "d"]
    assert components.size("c") == 5
    assert components.size("d") == 1


def test_a_known_label_keeps_its_size_and_a_union_with_itself_changes_nothing() -> None:
    components = Components()
    components.add("a", 3)
    components.add("a", 99)
    components.union(["a", "a"])
    components.union(["a"])
    assert components.size("a") == 3


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=25), st.randoms())
def test_against_sets_in_any_order(pairs: list[tuple[int, int]], random: object) -> None:
    groups = {number: {number} for number in range(13)}
    for left, right in pairs:
        merged = groups[left] | groups[right]
        for number in merged:
            groups[number] = merged
    random.shuffle(pairs)  # type: ignore[attr-defined]
    components = Components()
    for number in range(13):
        components.add(f"{number:02d}", 1)
    for left, right in pairs:
        components.union([f"{left:02d}", f"{right:02d}"])
    for number, group in groups.items():
        assert components.find(f"{number:02d}") == f"{min(group):02d}"
        assert components.size(f"{number:02d}") == len(group)
