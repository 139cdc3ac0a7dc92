"""tag.signals on hand-made records."""

from typing import Any

import pytest
from record_samples import message, record, through

from curator.stages.tag.signals import Signals


def signals(*turns: Any, **columns: Any) -> dict[str, Any]:
    """Value of each score; the status instead where there is no value."""
    (row,), dropped = through(Signals(), [record("a", *turns, **columns)])
    assert dropped == []
    assert {score["by"] for score in row["scores"].values()} == {"signals@1"}
    return {
        name: score["status"] if score["value"] is None else score["value"] for name, score in row["scores"].items()
    }


def test_a_plain_conversation() -> None:
    assert signals(("system", "Be brief."), ("user", "Hello, wörld!"), ("assistant", "Hi.\nTwo words?")) == {
        "num_turns": 3,
        "num_prompt_chars": 13,
        "num_response_chars": 14,
        "num_prompt_words": 2,
        "num_response_words": 3,
        "has_code": False,
        "has_math": False,
        "has_tool_use": False,
        "has_trace": False,
        "is_refusal": False,
    }


def test_turns_are_summed_with_the_blank_line_between_them() -> None:
    found = signals("one two", "three", "four", "five six")
    assert (found["num_turns"], found["num_prompt_chars"], found["num_response_chars"]) == (4, 13, 15)
    assert (found["num_prompt_words"], found["num_response_words"]) == (3, 3)


def test_without_an_answer_there_are_no_response_figures() -> None:
    found = signals("q")
    assert {name for name, value in found.items() if value == "no_response"} == {
        "num_response_chars",
        "num_response_words",
        "is_refusal",
    }
    assert signals()["num_turns"] == 0
    assert signals()["num_prompt_chars"] == 0
    (row,), _ = through(Signals(), [{**record("a"), "messages": None}])
    assert row["scores"]["num_turns"]["value"] == 0
    assert row["scores"]["is_refusal"]["status"] == "no_response"


def test_an_empty_answer_is_measured() -> None:
    found = signals("q", "")
    assert (found["num_response_chars"], found["num_response_words"], found["is_refusal"]) == (0, 0, False)
    assert signals("q", None)["num_response_chars"] == 0


def test_hard_text_is_counted_in_characters() -> None:
    found = signals("今天天气", "\0\u2028 مرحبا 😀")
    assert (found["num_prompt_chars"], found["num_response_chars"]) == (4, 10)
    assert (found["num_prompt_words"], found["num_response_words"]) == (1, 1)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```python\nx\n```", True),
        ("def f(x):\n    return x", True),
        ("Some words\n  import numpy", True),
        ("#include <stdio.h>", True),
        ("SELECT a FROM b", True),
        ("#!/bin/sh", True),
        ("<?php echo 1;", True),
        ("const x = 1;", True),
        ("I will define the import of this class", False),
        ("Select one from the list", False),
        ("", False),
    ],
)
def test_code_is_seen_in_prompt_and_response(text: str, code: bool) -> None:
    assert signals("q", text)["has_code"] is code
    assert signals(text, "a")["has_code"] is code


@pytest.mark.parametrize(
    ("text", "math"),
    [
        (r"\frac{1}{2}", True),
        ("$$x$$", True),
        ("12 + 3 * 2 = 18", True),
        ("<<16-3=13>>", True),
        ("It costs $5 or $6.", False),
        ("2024-01-15", False),
        ("12 + 3", False),
    ],
)
def test_mathematics_is_seen_by_its_marks(text: str, math: bool) -> None:
    assert signals("q", text)["has_math"] is math


def test_tool_use_is_a_call_or_a_result() -> None:
    assert signals("q", message("assistant", None, tool_calls="[{}]"))["has_tool_use"] is True
    assert signals("q", ("tool", "42"))["has_tool_use"] is True
    assert signals("q", "a", tools="[{}]")["has_tool_use"] is False
    assert signals("q", message("assistant", "a", tool_calls=""))["has_tool_use"] is False


@pytest.mark.parametrize(
    ("answer", "trace"),
    [
        (message("assistant", "a", reasoning="r"), True),
        (message("assistant", "a", reasoning=""), False),
        (message("assistant", "x <think> y"), True),
        (message("assistant", "I think so"), False),
    ],
)
def test_a_trace_also_fills_the_metadata_but_never_changes_it(answer: dict[str, Any], trace: bool) -> None:
    rows = [
        record("a", "q", answer),
        record("b", "q", answer, metadata={"reasoning_trace": not trace}),
        record("c", "q", answer, metadata=None),
    ]
    kept, _ = through(Signals(), rows)
    assert [row["scores"]["has_trace"]["value"] for row in kept] == [trace] * 3
    assert [row["metadata"]["reasoning_trace"] for row in kept] == [trace, not trace, trace]


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        ("I cannot help with that.", True),
        ("I can't do that", True),
        ("I'm sorry, but no.", True),
        ("Sorry, but I will not.", True),
        ("As an AI language model, I cannot feel.", True),
        ("**I apologize, but** no", True),
        ("Unfortunately, I am unable to", True),
        ("I'm sorry, I can't assist with that.", True),
        ("I’m sorry, but I can’t help.", True),
        ("Sorry. I cannot do this.", True),
        ("I am not able to open links.", True),
        ("I am sorry to hear that. Try this:", False),
        ("I can help.", False),
        ("The answer: I cannot say it better.", False),
        ("Sorry for the delay. Here it is.", False),
        ("", False),
    ],
)
def test_refusals_are_read_off_the_last_answer(answer: str, refusal: bool) -> None:
    assert signals("q", "Sure.", "again", answer)["is_refusal"] is refusal
    assert signals("q", answer, "again", "Sure.")["is_refusal"] is False


def test_batches_of_any_cut_give_the_same() -> None:
    rows = [record(str(n), "q " * n, *(["a " * n] if n % 3 else [])) for n in range(12)]
    whole, _ = through(Signals(), rows)
    for cut in (1, 5, 11):
        parts = [*through(Signals(), rows[:cut])[0], *through(Signals(), rows[cut:])[0]]
        assert parts == whole
