"""Shingle sets against Python's own, for text of every kind."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from near_reference import characters, jaccard, shingles, words

from curator.kernels.characters import character_tables
from curator.kernels.shingles import shingle_sets
from curator.kernels.texts import text_buffers

TEXT = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from("ab 1.+_-\n\u3000今\u0e01é\u0301İß\x00")), max_size=40
)


def sets_of(texts: list[str], unit: str, size: int) -> tuple[list[set[int]], list[int]]:
    array = pa.array(texts, pa.string())
    hashes, offsets, digests = shingle_sets(*text_buffers(array), size, unit == "words", *character_tables())
    parts = [hashes[start:stop].tolist() for start, stop in zip(offsets[:-1], offsets[1:], strict=True)]
    assert all(part == sorted(set(part)) for part in parts)
    return [set(part) for part in parts], digests.tolist()


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXT, max_size=6), st.sampled_from(["words", "characters"]), st.integers(1, 6))
@example(["", " ", "!!!", "???", "a", "a b", "a b c"], "words", 3)
@example(["İstanbul ISTANBUL", "x\u0300 X\u0300", "\U000323b0", "\U0010ffff!"], "characters", 2)
def test_sets_have_the_size_and_overlap_of_the_reference(texts: list[str], unit: str, size: int) -> None:
    found, digests = sets_of(texts, unit, size)
    expected = [shingles(text, unit, size) for text in texts]
    assert [len(part) for part in found] == [len(part) for part in expected]
    for one in range(len(texts)):
        for other in range(len(texts)):
            shared = len(found[one] & found[other])
            assert shared == len(expected[one] & expected[other])
            assert (digests[one] == digests[other]) == (expected[one] == expected[other])


def test_what_a_word_is() -> None:
    assert words("Don't say 12+30, naïve_x: 今天 é! 😀") == [
        *["don", "t", "say", "12", "+", "30", "naïve_x", "今", "天", "é", "😀"],
    ]
    assert characters("  A\n\tb  ") == ["a", " ", "b"]


@pytest.mark.parametrize("unit", ["words", "characters"])
def test_slices_and_wide_offsets_are_honoured(unit: str) -> None:
    texts = ["left out", "the quick brown fox", "", "jumps over", "left out too"]
    array = pa.array(texts)
    whole, _ = sets_of(texts[1:4], unit, 2)
    for version in (array.slice(1, 3), array.cast(pa.large_string()).slice(1, 3)):
        hashes, offsets, _ = shingle_sets(*text_buffers(version), 2, unit == "words", *character_tables())
        parts = [set(hashes[a:b].tolist()) for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
        assert parts == whole
    assert text_buffers(pa.array([None, "a"]))[1].tolist() == [0, 0, 1]
    assert text_buffers(pa.array([], pa.string()))[1].tolist() == [0]
    assert text_buffers(pa.array(["", ""]))[1].tolist() == [0, 0, 0]


def test_ten_megabytes_in_one_text() -> None:
    text = "word " * 2_000_000 + "end"
    (found,), _ = sets_of([text], "words", 3)
    assert len(found) == 2


def test_tables_know_every_assigned_character_of_the_reference() -> None:
    from near_reference import is_blank, stands_alone

    classes, _ = character_tables()
    for code in [*range(0x3000), *range(0x3000, len(classes), 7)]:
        character = chr(code)
        if 0xD800 <= code < 0xE000:
            continue
        assert (classes[code] == 2) == stands_alone(character), hex(code)
        assert (classes[code] == 3) == is_blank(character), hex(code)


def test_jaccard_of_the_reference_is_that_of_the_cases() -> None:
    one, other = (
        "Route 1506 is a short county road located in Lake County.",
        "Route 1507 is a short county road located in Lake County.",
    )
    figures = {("words", 5): 0.56, ("words", 2): 0.67, ("characters", 5): 0.82}
    for (unit, size), expected in figures.items():
        assert round(jaccard(shingles(one, unit, size), shingles(other, unit, size)), 2) == expected
    assert np.isclose(jaccard({("a",)}, set()), 0)
