"""Selectors: the same words name the same text for every shape of conversation."""

import pyarrow as pa
import pytest
from record_samples import batch_of, message, record

from curator.errors import UsageError
from curator.schema.record import CONTENT_COLUMNS, RECORD_SCHEMA
from curator.schema.selectors import SELECTORS, check_selector, select_text, selector_columns

CALL = '[{"name": "f"}]'
RECORDS = {
    "simple": record("simple", "q", "a"),
    "system": record("system", ("system", "s"), ("user", "q"), ("assistant", "a")),
    "long": record("long", "q1", "a1", "q2", "a2"),
    "two users": record("two users", ("user", "q1"), ("user", "q2"), ("assistant", "a")),
    "no answer": record("no answer", "q"),
    "empty answer": record("empty answer", "q", ""),
    "null answer": record("null answer", "q", None),
    "tools": record(
        "tools",
        ("user", "q"),
        message("assistant", None, tool_calls=CALL),
        message("tool", "42", name="f"),
        ("assistant", "a"),
        tools="[]",
    ),
    "trace": record(
        "trace", ("user", "q"), message("assistant", "a", reasoning="r1"), "q2", message("assistant", None)
    ),
    "ends with user": record("ends with user", "q1", "a1", "q2"),
    "no messages": record("no messages"),
    "null messages": {**record("null messages"), "messages": None},
    "preference": record("preference", "q", "good", rejected=[message("assistant", "bad")]),
    "no rejected": record("no rejected", "q", "a", rejected=[]),
}
PROMPT = {"long": "q1\n\nq2", "two users": "q1\n\nq2", "ends with user": "q1\n\nq2", "trace": "q\n\nq2"}
LAST = {"long": "q2", "two users": "q2", "ends with user": "q2", "trace": "q2"}
NONE = {"no messages": "", "null messages": ""}
NO_ANSWER = {"no answer": "", "empty answer": "", "null answer": "", **NONE}
ANSWER = {"long": "a2", "ends with user": "a1", "preference": "good", **NO_ANSWER}
EXPECTED: dict[str, tuple[str, dict[str, str]]] = {
    "prompt": ("q", {**PROMPT, **NONE}),
    "last_user": ("q", {**LAST, **NONE}),
    "response": ("a", {**ANSWER, "long": "a1\n\na2"}),
    "final_answer": ("a", ANSWER),
    "reasoning": ("", {"trace": "r1"}),
    "system": ("", {"system": "s"}),
    "tool_calls": ("", {"tools": CALL}),
    "turns": (
        "q\n\na",
        {
            "long": "q1\n\na1\n\nq2\n\na2",
            "two users": "q1\n\nq2\n\na",
            "no answer": "q",
            "empty answer": "q\n\n",
            "null answer": "q",
            "ends with user": "q1\n\na1\n\nq2",
            "trace": "q\n\na\n\nq2",
            "preference": "q\n\ngood",
            **NONE,
        },
    ),
}


@pytest.mark.parametrize("selector", EXPECTED)
def test_selector_finds(selector: str) -> None:
    usual, others = EXPECTED[selector]
    found = dict(zip(RECORDS, select_text(batch_of(list(RECORDS.values())), selector).to_pylist(), strict=True))
    assert found == {name: others.get(name, usual) for name in RECORDS}


def test_every_selector_but_conversation_is_in_the_table() -> None:
    assert set(SELECTORS) == {*EXPECTED, "conversation"}


@pytest.mark.parametrize("selector", SELECTORS)
def test_selected_text_does_not_depend_on_where_a_batch_is_cut(selector: str) -> None:
    batch = batch_of(list(RECORDS.values()))
    whole = select_text(batch, selector).to_pylist()
    for start in range(batch.num_rows):
        for stop in range(start, batch.num_rows + 1):
            assert select_text(batch.slice(start, stop - start), selector).to_pylist() == whole[start:stop]


@pytest.mark.parametrize("selector", SELECTORS)
def test_selectors_take_an_empty_batch(selector: str) -> None:
    empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in RECORD_SCHEMA], schema=RECORD_SCHEMA)
    assert select_text(empty, selector).to_pylist() == []


def test_null_lists_with_text_behind_them_are_empty() -> None:
    lists = batch_of([record("a", "q1", "a1"), record("b", "q2", "a2"), record("c", "q3", "a3")]).column("messages")
    hidden = pa.ListArray.from_arrays(lists.offsets, lists.values, type=lists.type, mask=pa.array([False, True, False]))
    batch = pa.RecordBatch.from_arrays([hidden], ["messages"])
    assert select_text(batch, "prompt").to_pylist() == ["q1", "", "q3"]
    assert select_text(batch, "final_answer").to_pylist() == ["a1", "", "a3"]


def test_conversation_covers_everything_that_a_reader_would_see() -> None:
    base = record("a", "q", message("assistant", "a", reasoning="r", tool_calls=CALL, name="n"), tools="[]")
    text = select_text(batch_of([base]), "conversation")[0].as_py()
    changes = [
        record("b", "q", message("assistant", "a", reasoning="r", tool_calls=CALL, name="n"), tools="[1]"),
        record("b", "q", message("assistant", "a", reasoning="R", tool_calls=CALL, name="n"), tools="[]"),
        record("b", "q", message("assistant", "a", reasoning="r", tool_calls="[]", name="n"), tools="[]"),
        record("b", "q", message("assistant", "a", reasoning="r", tool_calls=CALL, name="m"), tools="[]"),
        record("b", "q", message("assistant", "A", reasoning="r", tool_calls=CALL, name="n"), tools="[]"),
        record("b", "q", message("tool", "a", reasoning="r", tool_calls=CALL, name="n"), tools="[]"),
        record("b", "Q", message("assistant", "a", reasoning="r", tool_calls=CALL, name="n"), tools="[]"),
        {**base, "rejected": [message("assistant", "x")]},
        {**base, "messages": [*base["messages"], message("user", "")]},
    ]
    others = select_text(batch_of(changes), "conversation").to_pylist()
    assert len({text, *others}) == len(changes) + 1
    same = {**base, "id": "z", "metadata": None, "rejected": [], "loss_weight": 2.0}
    assert select_text(batch_of([same]), "conversation")[0].as_py() == text


def test_columns_of_selectors_are_content() -> None:
    assert {column for name in SELECTORS for column in selector_columns(name)} <= set(CONTENT_COLUMNS)


def test_unknown_selector_is_refused_with_the_closest() -> None:
    with pytest.raises(UsageError) as caught:
        check_selector("final_anwser", "dedup.exact")
    assert str(caught.value) == "dedup.exact: no selector 'final_anwser'\nhint: did you mean final_answer?"


def test_separators_inside_a_text_do_not_make_two_conversations_one() -> None:
    texts = ["a\x1f\x1eassistant\x1f\x1f\x1fb", "a\x1b\x1fb", "a\x1fb", "a\x1b\x1b\x1fb"]
    rows = [record(f"s/f#{number}", message("user", text)) for number, text in enumerate(texts)]
    rows.append(record("s/f#9", message("user", "a"), message("assistant", "b")))
    found = select_text(batch_of(rows), "conversation").to_pylist()
    assert len(set(found)) == 5
