"""A person's own mapping: paths, places, what stays in extra, and the way back to the object that came in."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator.errors import UsageError
from curator.io.build import Builder, SourceSettings
from curator.io.mapping import parse_place, place_text, restore
from curator.io.raw import RawRow


def record(row: Any, mapping: dict[str, str], **source: Any) -> dict[str, Any]:
    """The record of one row, which must lead back to that row; a bad row gives its reason under `bad`."""
    data = row.encode() if isinstance(row, str) else json.dumps(row, ensure_ascii=False).encode()
    (built,) = Builder(SourceSettings("s", map=mapping, **source), "f#.jsonl").build([RawRow(0, 0, data)])
    if built.bad.num_rows:
        return {"bad": built.bad.column("reason")[0].as_py()}
    result = built.records.to_pylist()[0]
    assert exact(restore(result)) == exact(data)
    assert result["provenance"]["adapter"] == "map"
    return result


def exact(text: str | bytes) -> Any:
    """With key order and number text."""
    return json.loads(text, object_pairs_hook=lambda pairs: ("object", pairs), parse_int=str, parse_float=str)


def turns(messages: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in messages]


# --- paths --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("a", ("a",)),
        ("body.question", ("body", "question")),
        ("answers[0].text", ("answers", 0, "text")),
        ("a[-1][2]", ("a", -1, 2)),
        ('"odd key"', ("odd key",)),
        ("'odd.key'.b", ("odd.key", "b")),
        ('a."b c"[0]', ("a", "b c", 0)),
        ("a['b c']", ("a", "b c")),
        ("['a']['b']", ("a", "b")),
        (' a."say \\"x\\"" ', ("a", 'say "x"')),
        ("größe.名前.a-b", ("größe", "名前", "a-b")),
    ],
)
def test_a_path_has_steps(text: str, steps: tuple[str | int, ...]) -> None:
    assert parse_place(text).steps == steps
    assert not parse_place(text).optional and parse_place(f"{text.strip()}?").optional
    assert parse_place(place_text(steps)).steps == steps


@given(st.lists(st.text(min_size=1) | st.integers(-9, 9), min_size=1, max_size=5))
@settings(max_examples=100, deadline=None)
def test_a_path_is_written_as_it_is_read(steps: list[str | int]) -> None:
    steps = ["top", *steps]
    assert parse_place(place_text(steps)).steps == tuple(steps)


@pytest.mark.parametrize(
    ("mapping", "message", "hint"),
    [
        ({"promt": "a"}, "source s: map: promt: no such place in a record", "did you mean prompt?"),
        ({"prompt": "a[0"}, "map: prompt: path 'a[0' cannot be read from character 2 on: '[0'", "names with dots"),
        ({"prompt": "a..b"}, "path 'a..b' cannot be read from character 2 on", "names with dots"),
        ({"prompt": "[0].a"}, "path '[0].a' cannot be read from character 1 on", "names with dots"),
        ({"prompt": "a b"}, "path 'a b' cannot be read from character 2 on", "quotes"),
        ({"prompt": ""}, "map: prompt: path '' is empty", "names with dots"),
        ({"prompt": "=x"}, "constant '=x' cannot be read", "='text'"),
        ({"prompt": "a", "metadata.domian": "x"}, "metadata.domian: no such metadata field", "did you mean domain?"),
        ({"prompt": "a", "metadata.team": "x"}, "no such metadata field", "--field team:string"),
        ({"prompt": "a", "metadata.split": "x"}, "metadata.split: not to be mapped", "mix writes it"),
        ({"prompt": "a", "verifier.tset": "x"}, "no such place in a record", "did you mean verifier.tests?"),
        ({"messages": "a", "messages.rle": "x"}, "no such place in a record", "did you mean messages.role?"),
        ({"messages": "a", "messages.role": "x.y"}, "'x.y' is not one key of a turn", "messages.role: speaker"),
        ({"messages": "a", "role.Agent": "assistent"}, "no role 'assistent'", "did you mean assistant?"),
        ({"prompt": "a", "role.Agent": "user"}, "keys and roles of turns are named, but no messages", "map messages"),
        ({"system": "a"}, "map: nothing to talk about", "map prompt and response"),
        ({"prompt": "a", "reasoning": "b"}, "map: reasoning needs response", "map response too"),
        ({"prompt": "a", "rejected": "b"}, "map: rejected needs chosen", "map chosen too"),
        ({"prompt": "a", "chosen": "b"}, "map: chosen needs rejected", "map rejected too"),
        ({"prompt": "a", "chosen": "b", "rejected": "c", "response": "d"}, "are the same place", "leave one out"),
        ({"prompt": "a", "verifier.exact": "b", "verifier.math": "c"}, "a record has one verifier", "extra"),
    ],
)
def test_a_wrong_mapping_is_refused_before_any_work(mapping: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        SourceSettings("s", map=mapping)
    assert message in caught.value.message
    assert caught.value.hint is not None and hint in caught.value.hint


def test_a_map_and_an_adapter_are_two_words_for_one_thing() -> None:
    with pytest.raises(UsageError, match="source s: adapter and map"):
        SourceSettings("s", map={"prompt": "a"}, adapter="alpaca")


# --- places -------------------------------------------------------------------------------------------------------


def test_text_and_tags_from_deep_inside() -> None:
    row = (
        '{"body": {"question": "q", "lang": "en"}, "answers": [{"text": "a", "score": 1.50}, {"text": "b"}], '
        '"topic": "math", "uid": 12345678901234567890, "n": 1e400}'
    )
    got = record(row, {"prompt": "body.question", "response": "answers[0].text", "metadata.domain": "topic"})
    assert turns(got["messages"]) == [("user", "q"), ("assistant", "a")]
    assert got["kind"] == "sft" and got["metadata"]["domain"] == "math"
    # Siblings stay, numbers as they were written; an element that is used up leaves its place.
    assert got["extra"] == (
        '{"uid":12345678901234567890,"n":1e400,"body":{"lang":"en"},"answers":[{"score":1.50},{"text": "b"}]}'
    )


@pytest.mark.parametrize(
    ("row", "mapping", "extra"),
    [
        ({"a": ["x"]}, {"prompt": "a[0]"}, None),
        ({"a": ["x", "y"]}, {"prompt": "a[0]"}, {"a": [None, "y"]}),
        ({"a": ["x", "y"]}, {"prompt": "a[-1]"}, {"a": ["x", None]}),
        ({"a": ["x", None]}, {"prompt": "a[0]"}, {"a": [None, None]}),
        ({"a": {"b": {"c": "x"}}, "d": {}}, {"prompt": "a.b.c"}, {"d": {}}),
        ({"a": {"b": "x", "c": {}}}, {"prompt": "a.b"}, {"a": {"c": {}}}),
        ({"a": "x", "b": "x"}, {"prompt": "a", "metadata.domain": "a"}, {"b": "x"}),
        ({"a.b": "x", "a": {"b": "y"}}, {"prompt": "'a.b'"}, {"a": {"b": "y"}}),
    ],
)
def test_what_is_not_mapped_is_kept(row: Any, mapping: dict[str, str], extra: Any) -> None:
    got = record(row, mapping)
    assert (json.loads(got["extra"]) if got["extra"] else None) == extra
    assert got["kind"] == "prompt"


def test_every_place_of_a_record() -> None:
    row = {
        "sys": "Be brief.", "q": "q", "a": "a", "why": "because", "tools": [{"name": "t", "n": 1.0}], "w": 2,
        "g": "g#1", "id": "x-1", "ok": True, "check": {"answer": [1, 2.50]}, "team": 7, "score": 2.25, "level": 3,
    }  # fmt: skip
    mapping = {
        "system": "sys", "prompt": "q", "response": "a", "reasoning": "why", "tools": "tools", "loss_weight": "w",
        "group": "g", "id": "id", "metadata.reasoning_trace": "ok", "verifier.exact": "check.answer",
        "metadata.team": "team", "metadata.score": "score", "metadata.difficulty": "level", "kind": "='sft'",
        "metadata.language": "='en'",
    }  # fmt: skip
    got = record(row, mapping, fields={"team": "int", "score": "float"})
    assert turns(got["messages"]) == [("system", "Be brief."), ("user", "q"), ("assistant", "a")]
    assert got["messages"][-1]["reasoning"] == "because" and got["messages"][-1]["wrap"] is None
    assert got["tools"] == '[{"name": "t", "n": 1.0}]'
    assert got["verifier"] == {"kind": "exact", "payload": "[1, 2.5]"}
    assert (got["loss_weight"], got["group"]) == (2.0, "s/f#.jsonl#g#1")
    wanted = {"original_id": "x-1", "reasoning_trace": True, "team": 7, "score": 2.25, "difficulty": "3"}
    assert wanted.items() <= got["metadata"].items() and got["metadata"]["language"] == "en"
    # A number in a text column, and one that a float may not give back, stay in extra too.
    assert got["extra"] == '{"score":2.25,"level":3}'


@pytest.mark.parametrize("value", [{"a": 1}, [1], None])
def test_a_tag_that_does_not_fit_stays_in_extra(value: Any) -> None:
    got = record({"q": "q", "t": value}, {"prompt": "q", "metadata.domain": "t"})
    assert got["metadata"]["domain"] is None and json.loads(got["extra"]) == {"t": value}


def test_a_declared_field_is_filled_from_its_path_alone() -> None:
    row = {"q": "q", "team": "outer", "org": {"team": "inner"}}
    got = record(row, {"prompt": "q", "metadata.team": "org.team"}, fields={"team": "string"})
    assert got["metadata"]["team"] == "inner" and got["extra"] == '{"team":"outer"}'
    got = record({"q": "q", "team": "outer"}, {"prompt": "q", "metadata.team": "org.team"}, fields={"team": "string"})
    assert got["metadata"]["team"] is None and got["extra"] == '{"team":"outer"}'


def test_turns_with_names_of_their_own() -> None:
    row = {
        "chat": [
            {"speaker": "Client", "said": "hi", "at": 1.0},
            {"said": "<think>x</think>yo", "speaker": "Agent", "weight": 0},
            {"speaker": "system", "said": None},
        ]
    }
    mapping = {
        "messages": "chat",
        "messages.role": "speaker",
        "messages.content": "said",
        "role.Client": "user",
        "role.Agent": "assistant",
    }
    got = record(row, mapping)
    assert turns(got["messages"]) == [("user", "hi"), ("assistant", "yo"), ("system", None)]
    assert got["messages"][1]["reasoning"] == "x" and got["messages"][1]["weight"] == 0
    assert got["extra"] == '{"chat":[{"at":1.0},null,null]}'


def test_known_names_of_turns_need_no_word() -> None:
    calls = '[{"id": "1", "function": {"name": "f", "arguments": "{\\"x\\": 1.0}"}}]'
    row = (
        '{"past": [{"from": "human", "value": "a"}, {"role": "assistant", "content": null, "tool_calls": '
        + calls
        + '}, {"role": "tool", "tool_call_id": "1", "name": "f", "content": "r"}, '
        '{"from": "function_call", "value": "{}"}], "now": "b", "reply": "c"}'
    )
    got = record(row, {"messages": "past", "prompt": "now", "response": "reply", "system": "='s'"})
    assert turns(got["messages"]) == [
        ("system", "s"), ("user", "a"), ("assistant", None), ("tool", "r"), ("assistant", None), ("user", "b"),
        ("assistant", "c"),
    ]  # fmt: skip
    assert got["messages"][2]["tool_calls"] == calls and got["messages"][4]["tool_calls"] == "{}"
    assert got["extra"] is None


@pytest.mark.parametrize(
    ("chosen", "rejected"),
    [
        ("<think>t</think>good", "bad"),
        ({"role": "assistant", "content": "good", "n": 1}, {"role": "assistant", "content": "bad"}),
        (
            [{"from": "gpt", "value": "same"}, {"from": "human", "value": "more"}, {"from": "gpt", "value": "good"}],
            [{"from": "gpt", "value": "same"}, {"from": "human", "value": "more"}, {"from": "gpt", "value": "bad"}],
        ),
    ],
)
def test_preferences(chosen: Any, rejected: Any) -> None:
    got = record({"q": "q", "w": chosen, "l": rejected}, {"prompt": "q", "chosen": "w", "rejected": "l"})
    assert got["kind"] == "preference"
    assert (got["messages"][-1]["content"], turns(got["rejected"])) == ("good", [("assistant", "bad")])


def test_a_question_mark_makes_an_answer_optional() -> None:
    mapping = {"prompt": "q", "response": "a.text?"}
    assert [record(row, mapping)["kind"] for row in ({"q": "q", "a": {"text": "a"}}, {"q": "q"}, {"q": "q", "a": {}})]
    kinds = [record(row, mapping)["kind"] for row in ({"q": "q", "a": {"text": "a"}}, {"q": "q"}, {"q": "q", "a": 7})]
    assert kinds == ["sft", "prompt", "prompt"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, "no value: body.q (no body)"),
        ({"body": 7}, "no value: body.q (body is number, expected object)"),
        ({"body": {}}, "no value: body.q (no q in body)"),
        ({"body": {"q": None}}, "no value: body.q is null"),
        ({"body": {"q": ["x"]}}, "wrong type: body.q is list, expected text"),
        ({"body": {"q": "x"}, "a": {}}, "no value: a[0] (a is object, expected list)"),
        ({"body": {"q": "x"}, "a": []}, "no value: a[0] (a has 0 elements)"),
        ({"body": {"q": "x"}, "a": [1]}, "wrong type: a[0] is number, expected text"),
        ({"body": {"q": "x"}, "a": ["y"], "s": 1}, "wrong type: s is number, expected text"),
        ({"body": {"q": "x"}, "a": ["y"], "w": "1"}, "wrong type: w is text, expected a number"),
        ({"body": {"q": "x"}, "a": ["y"], "k": "sfd"}, "unknown kind: k is 'sfd', not sft"),
        ('{"body": {"q": "x", "q": "y"}, "a": ["y"]}', "key twice: q"),
        ('{"body": {"q": "\\ud83d"}, "a": ["y"]}', "not text: a lone surrogate"),
    ],
)
def test_a_row_that_does_not_fit_names_path_and_type(row: Any, reason: str) -> None:
    mapping = {"prompt": "body.q", "response": "a[0]", "system": "s", "loss_weight": "w", "kind": "k"}
    assert record(row, mapping)["bad"].startswith(reason)


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        ("hi", "wrong type: c[0] is text, expected a turn"),
        ({"content": "x"}, "no value: c[0].role"),
        ({"role": "user", "content": ["x"]}, "wrong type: c[0].content is list, expected text"),
        ({"role": "user", "content": "x", "tool_calls": {}}, "wrong type: c[0].tool_calls is object, expected a list"),
    ],
)
def test_a_turn_that_does_not_fit(turn: Any, reason: str) -> None:
    assert record({"c": [turn]}, {"messages": "c"})["bad"].startswith(reason)
    assert record({"c": []}, {"messages": "c"})["bad"] == "no turns: c is empty"


def test_an_empty_group_ties_nothing() -> None:
    row = {"a": "q", "g": ""}
    assert record(row, {"prompt": "a", "group": "g"})["group"] is None
    assert record(row, {"prompt": "g", "group": "g"})["group"] is None


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from("abc"), _VALUES, min_size=1),
    st.dictionaries(
        st.sampled_from(
            ["prompt", "system", "response", "tools", "id", "group", "metadata.domain", "verifier.math", "loss_weight",
             "metadata.n", "metadata.reasoning_trace"]
        ),
        st.sampled_from(["a", "b", "a.b", "a.b.c", "a[0]", "b[-1]", "b[0].a", "c.a[1]", "c"]),
        min_size=1,
    ),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_whatever_is_mapped_comes_back(row: dict[str, Any], mapping: dict[str, str]) -> None:
    optional = {target: f"{path}?" for target, path in mapping.items()}
    record(row, {"prompt": "='p'", **optional}, fields={"n": "int"})
