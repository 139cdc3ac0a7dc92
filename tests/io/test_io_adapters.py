"""Adapters: each family of raw rows becomes the same record, and its own text stays as it was."""

import json
from pathlib import Path
from typing import Any

import pytest
from record_samples import ingested, quarantine_of, rows_of, texts_of

from curator.io.adapters import ADAPTERS
from curator.io.adapters.base import ROLE_NAMES, Message, split_trace
from curator.io.build import Builder, SourceSettings
from curator.io.raw import RawRow

TRACE = "<think>\nFirst.\n</think>\n\nSecond."


def draft(row: Any, **source: Any) -> dict[str, Any]:
    """The record of one row; a bad row gives its reason under `bad`."""
    data = row if isinstance(row, bytes) else row.encode() if isinstance(row, str) else json.dumps(row).encode()
    (built,) = Builder(SourceSettings("s", **source), "f").build([RawRow(0, 0, data)])
    return built.records.to_pylist()[0] if built.records.num_rows else {"bad": built.bad.column("reason")[0].as_py()}


def form(record: dict[str, Any]) -> dict[str, Any]:
    return json.loads(record["provenance"]["form"])


@pytest.mark.parametrize("name", ADAPTERS)
def test_the_example_of_an_adapter_is_its_own(name: str) -> None:
    record = draft(ADAPTERS[name].example)
    assert record["provenance"]["adapter"] == name
    assert record["extra"] is None
    assert record["kind"] == ("preference" if name in ("preference", "transcripts") else "sft")
    roles = [message["role"] for message in record["messages"]]
    assert roles == ["user", "assistant"]


@pytest.mark.parametrize(
    ("row", "adapter"),
    [
        ({"instruction": "a", "input": "", "output": "b", "text": "Below is ..."}, "alpaca"),
        ({"instruction": "a", "response": "b"}, "alpaca"),
        ({"question": "a", "answer": "b", "text": "c"}, "pairs"),
        ({"question": "a", "response": "b"}, "pairs"),
        ({"prompt": "a", "response": "b"}, "pairs"),
        ({"prompt": "a", "completion": "b"}, "pairs"),
        ({"prompt": "a", "chosen": "b", "rejected": "c"}, "preference"),
        ({"instruction": "a", "output": "x", "chosen": "b", "rejected": "c"}, "preference"),
        ({"chosen": "\n\nHuman: a\n\nAssistant: b", "rejected": "\n\nHuman: a\n\nAssistant: c"}, "transcripts"),
        ({"text": "\n\nHuman: a\n\nAssistant: b"}, "transcripts"),
        ({"messages": [{"role": "user", "content": "a"}], "text": "x"}, "openai"),
        ({"messages": [{"role": "user", "content": "a"}], "instruction": "x", "output": "y"}, "openai"),
        ({"conversations": [{"from": "human", "value": "a"}], "text": "x"}, "sharegpt"),
    ],
)
def test_the_names_of_the_fields_choose_the_adapter(row: dict[str, Any], adapter: str) -> None:
    assert draft(row)["provenance"]["adapter"] == adapter


# --- alpaca ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "user", "kept"),
    [("1, 2", "Add.\n\n1, 2", "absent"), ("", "Add.", ""), (None, "Add.", None), ("absent", "Add.", "absent")],
)
def test_alpaca_input_joins_only_when_there_is_one(given: Any, user: str, kept: Any) -> None:
    row = {"instruction": "Add.", "output": "3"} | ({} if given == "absent" else {"input": given})
    record = draft(row)
    assert texts_of(record) == [("user", user), ("assistant", "3")]
    assert form(record).get("input", "absent") == kept
    assert "breaks" not in form(record)


def test_alpaca_system_text_comes_first() -> None:
    record = draft({"system": "Be brief.", "instruction": "a", "output": "b"})
    assert texts_of(record) == [("system", "Be brief."), ("user", "a"), ("assistant", "b")]
    assert texts_of(draft({"system": "", "instruction": "a", "output": "b"}))[0] == ("system", "")
    record = draft({"system": None, "instruction": "a", "output": "b"})
    assert texts_of(record) == [("user", "a"), ("assistant", "b")]
    assert form(record)["system"] is None


def test_metadata_form_goes_to_the_columns_and_the_rest_to_extra() -> None:
    inner = (
        '{"difficulty":"hard","score": 4.50,"reasoning_trace":true,"source":null,"domain":"math",'
        '"n":12345678901234567890}'
    )
    record = draft(f'{{"instruction":"a","input":"","output":"b","metadata":{inner}}}')
    tags = {name: value for name, value in record["metadata"].items() if value is not None}
    assert tags == {"source": "s", "difficulty": "hard", "reasoning_trace": True, "domain": "math"}
    assert record["extra"] == '{"metadata":{"score":4.50,"source":null,"n":12345678901234567890}}'
    assert form(record)["metadata"] == ["difficulty", "score", "reasoning_trace", "source", "domain", "n"]


@pytest.mark.parametrize(
    ("value", "taken"),
    [('"yes"', None), ("1", None), ("true", True), ("false", False), ("null", None)],
)
def test_a_tag_of_another_type_stays_in_extra(value: str, taken: Any) -> None:
    record = draft(f'{{"instruction":"a","output":"b","metadata":{{"reasoning_trace":{value}}}}}')
    assert record["metadata"]["reasoning_trace"] is taken
    assert record["extra"] == (None if taken is not None else f'{{"metadata":{{"reasoning_trace":{value}}}}}')


def test_tags_that_curator_gives_are_not_taken_from_rows() -> None:
    inner = {"split": "test", "original_id": "x", "turn_issues": "y", "teacher": "t"}
    record = draft({"instruction": "a", "output": "b", "metadata": inner})
    assert record["metadata"]["split"] is None and record["metadata"]["original_id"] is None
    assert record["metadata"]["teacher"] == "t"
    assert json.loads(record["extra"]) == {"metadata": {"split": "test", "original_id": "x", "turn_issues": "y"}}


@pytest.mark.parametrize("value", ['"m"', "null", "[]", "7", "[1]"])
def test_metadata_that_is_no_object_stays_in_extra(value: str) -> None:
    assert draft(f'{{"instruction":"a","output":"b","metadata":{value}}}')["extra"] == f'{{"metadata":{value}}}'


@pytest.mark.parametrize(
    ("text", "original", "extra"),
    [
        ('"tkt-1"', "tkt-1", None),
        ("1", "1", None),
        ("1.0", "1.0", None),
        ("18446744073709551616", "18446744073709551616", None),
        ("null", None, '{"id":null}'),
        ("true", None, '{"id":true}'),
        ("[1]", None, '{"id":[1]}'),
    ],
)
def test_ids_of_rows_are_kept_to_the_digit(text: str, original: str | None, extra: str | None) -> None:
    record = draft(f'{{"instruction":"a","output":"b","id":{text}}}')
    assert (record["metadata"]["original_id"], record["extra"]) == (original, extra)


# --- traces ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (TRACE, ("<think>\n", "First.", "\n</think>\n\n", "Second.")),
        ("<think>a</think>b", ("<think>", "a", "</think>", "b")),
        ("  \n<think> a\nb </think> ", ("  \n<think> ", "a\nb", " </think> ", "")),
        ("<think>a</think>", ("<think>", "a", "</think>", "")),
    ],
)
def test_a_trace_and_its_marks_add_up_to_the_text(text: str, parts: tuple[str, str, str, str]) -> None:
    message = split_trace(Message("assistant", text))
    assert message.wrap is not None
    assert (message.wrap["open"], message.reasoning, message.wrap["close"], message.content) == parts
    assert "".join(parts) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no trace",
        "Say <think>a</think>",
        "<think></think>b",
        "<think> \n </think>b",
        "<think>a",
        "a</think>b",
        "<think>a</think>b<think>c</think>d",
        "<think>a<think>b</think></think>c",
        "<THINK>a</THINK>b",
        "x" * 70 + "<think>a</think>",
    ],
)
def test_what_is_not_one_leading_trace_stays_inline(text: str) -> None:
    message = split_trace(Message("assistant", text))
    assert (message.content, message.reasoning, message.wrap) == (text, None, None)


@pytest.mark.parametrize(
    "row",
    [
        {"instruction": "a", "output": TRACE},
        {"question": "a", "answer": TRACE},
        {"prompt": "a", "completion": TRACE},
        {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": TRACE}]},
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": TRACE}]},
        {"prompt": "a", "chosen": TRACE, "rejected": "c"},
    ],
)
def test_every_family_splits_traces(row: dict[str, Any]) -> None:
    answer = draft(row)["messages"][-1]
    assert (answer["reasoning"], answer["content"]) == ("First.", "Second.")


# --- sharegpt and messages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "role"), ROLE_NAMES.items())
def test_role_names_are_mapped_by_a_table(name: str, role: str) -> None:
    record = draft({"conversations": [{"from": name, "value": "x"}]})
    assert record["messages"][0]["role"] == role
    key = "call" if name in ("function_call", "tool_call") else role
    common = name in ("human", "gpt", "system", "function_call", "observation")
    assert form(record).get("roles") == (None if common else {key: name})


@pytest.mark.parametrize("name", ["hummany", "narrator", "USER", "", " user"])
def test_an_unknown_role_is_never_guessed(name: str) -> None:
    for row in ({"conversations": [{"from": name, "value": "x"}]}, {"messages": [{"role": name, "content": "x"}]}):
        record = draft(row)
        assert texts_of(record) == [(name, "x")]
        assert record["metadata"]["turn_issues"] == ["no_user", "unknown_role"]
        assert record["kind"] == "prompt"


def test_sharegpt_with_tools_keeps_every_character() -> None:
    tools = '[{"name": "f", "parameters": {"b": 1.10, "a": 4.50}}]'
    call = '{"name": "f", "arguments": {"n": 12345678901234567890,  "z": 1.0, "a": null}}'
    row = {
        "conversations": [
            {"from": "human", "value": "q"},
            {"from": "function_call", "value": call},
            {"from": "observation", "value": '{"ok": true}'},
            {"from": "gpt", "value": "done"},
        ],
        "system": "s",
        "tools": tools,
    }
    record = draft(row)
    assert texts_of(record) == [
        ("system", "s"),
        ("user", "q"),
        ("assistant", None),
        ("tool", '{"ok": true}'),
        ("assistant", "done"),
    ]
    assert record["messages"][2]["tool_calls"] == call
    assert record["tools"] == tools
    assert form(record)["tools"] == "text"


@pytest.mark.parametrize(
    ("tools", "stored"),
    [
        ('[{"b": 1.10,  "a":4.50}]', '[{"b": 1.10,  "a":4.50}]'),
        ("null", None),
        ('""', ""),
        ("[]", "[]"),
        ("{}", "{}"),
        ('"[ 1 ]"', "[ 1 ]"),
    ],
)
def test_tool_schemas_are_the_text_that_came(tools: str, stored: str | None) -> None:
    for turns in ('"messages":[{"role":"user","content":"a"}]', '"conversations":[{"from":"human","value":"a"}]'):
        record = draft(f'{{{turns},"tools":{tools}}}')
        assert record["tools"] == stored
        assert record["extra"] is None


def test_tool_calls_are_the_text_that_came() -> None:
    calls = '[{"type":"function","id":"1","function":{"name":"f","arguments":"{\\"b\\": 1.10}"}}, {"z":4.50,"a":null}]'
    row = (
        f'{{"messages":[{{"role":"assistant","content":null,"tool_calls":{calls}}},'
        '{"role":"tool","content":"42","tool_call_id":"1","name":"f"}]}'
    )
    record = draft(row)
    assert record["messages"][0]["tool_calls"] == calls
    assert record["messages"][0]["content"] is None
    assert (record["messages"][1]["tool_call_id"], record["messages"][1]["name"]) == ("1", "f")


@pytest.mark.parametrize(
    ("turn", "calls", "content"),
    [
        ({"role": "assistant", "content": None, "tool_calls": None}, None, None),
        ({"role": "assistant", "content": "", "tool_calls": []}, "[]", ""),
        ({"role": "assistant", "tool_calls": [1]}, "[1]", None),
        ({"role": "assistant"}, None, None),
    ],
)
def test_null_absent_and_empty_in_turns_stay_apart(turn: dict[str, Any], calls: str | None, content: Any) -> None:
    record = draft({"messages": [turn]})
    assert (record["messages"][0]["tool_calls"], record["messages"][0]["content"]) == (calls, content)
    standard = [key for key in ("role", "content", "tool_calls") if turn.get(key) is not None]
    assert form(record).get("turn_keys", standard) == list(turn)


def test_weights_and_reasoning_of_turns() -> None:
    turns = [
        {"role": "user", "content": "q", "weight": 0},
        {"role": "assistant", "content": TRACE, "reasoning_content": "given", "weight": 0.5},
    ]
    messages = draft({"messages": turns})["messages"]
    assert [message["weight"] for message in messages] == [0.0, 0.5]
    assert (messages[1]["reasoning"], messages[1]["content"], messages[1]["wrap"]) == ("given", TRACE, None)
    messages = draft({"conversations": [{"from": "human", "value": "q", "weight": 16777217}]})["messages"]
    assert messages[0]["weight"] == 16777216.0


@pytest.mark.parametrize("weight", ["true", '"1"', "[]", "1e999", "1e39", "-1e300", "1" + "0" * 400])
def test_a_weight_must_be_a_number(weight: str) -> None:
    for row in (
        f'{{"messages":[{{"role":"user","content":"a","weight":{weight}}}]}}',
        f'{{"conversations":[{{"from":"human","value":"a","weight":{weight}}}]}}',
    ):
        assert draft(row)["bad"] == f"wrong type: weight of a turn is {weight[:40]}, expected a number"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"messages": []}, "no turns: messages is empty"),
        ({"conversations": []}, "no turns: conversations is empty"),
        ({"messages": "text"}, "wrong type: messages is text, expected a list of objects"),
        ({"messages": ["text"]}, "wrong type: messages is list, expected a list of objects"),
        ({"conversations": None}, "wrong type: conversations is null, expected a list of objects"),
        ({"messages": [{"content": "a"}]}, "no field: role"),
        ({"conversations": [{"value": "a"}]}, "no field: from"),
        ({"messages": [{"role": 1, "content": "a"}]}, "wrong type: role is number, expected text"),
        ({"messages": [{"role": "user", "content": ["text"]}]}, "wrong type: content is list, expected text"),
        ({"messages": [{"role": "user", "content": 7}]}, "wrong type: content is number, expected text"),
        (
            {"messages": [{"role": "user", "content": "a", "tool_calls": "x"}]},
            "wrong type: tool_calls is text, expected a list",
        ),
        (
            {"messages": [{"role": "user", "content": "a", "function_call": "x"}]},
            "wrong type: function_call is text, expected an object",
        ),
        ({"conversations": [{"from": "human", "value": 5}]}, "wrong type: value is number, expected text"),
        ({"question": "a", "answer": None}, "wrong type: answer is null, expected text"),
        ({"prompt": 5, "completion": "a"}, "wrong type: prompt is number, expected text"),
        ({"prompt": "a", "chosen": 1, "rejected": "b"}, "wrong type: chosen is number, expected text or turns"),
        ({"text": "just text"}, "not a transcript: it must begin with a blank line and Human: or Assistant:"),
        (
            {"chosen": [{"role": "assistant", "content": "a"}], "rejected": [{"role": "assistant", "content": "b"}]},
            "no prompt: a preference needs a user turn",
        ),
    ],
)
def test_rows_of_the_wrong_shape_say_so(row: dict[str, Any], reason: str) -> None:
    assert draft(row) == {"bad": reason}


def test_a_conversation_without_answer_is_a_prompt() -> None:
    assert draft({"messages": [{"role": "user", "content": "a"}]})["kind"] == "prompt"
    assert draft({"conversations": [{"from": "human", "value": "a"}]})["kind"] == "prompt"
    assert draft({"text": "\n\nHuman: a"})["kind"] == "prompt"


# --- preferences and transcripts --------------------------------------------------------------------------------------

Q = {"role": "user", "content": "q"}
GOOD, BAD = {"role": "assistant", "content": "good"}, {"role": "assistant", "content": "bad"}


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "q", "chosen": "good", "rejected": "bad"},
        {"question": "q", "chosen": "good", "rejected": "bad"},
        {"instruction": "q", "chosen": "good", "rejected": "bad"},
        {"prompt": [Q], "chosen": "good", "rejected": "bad"},
        {"prompt": [Q], "chosen": [GOOD], "rejected": [BAD]},
        {"prompt": "q", "chosen": GOOD, "rejected": BAD},
        {"messages": [Q], "chosen": GOOD, "rejected": BAD},
        {"chosen": [Q, GOOD], "rejected": [Q, BAD]},
        {
            "conversations": [{"from": "human", "value": "q"}],
            "chosen": {"from": "gpt", "value": "good"},
            "rejected": {"from": "gpt", "value": "bad"},
        },
        {"chosen": "\n\nHuman: q\n\nAssistant: good", "rejected": "\n\nHuman: q\n\nAssistant: bad"},
    ],
)
def test_preferences_in_any_form_are_the_same_record(row: dict[str, Any]) -> None:
    record = draft(row)
    assert record["kind"] == "preference"
    assert texts_of(record) == [("user", "q"), ("assistant", "good")]
    assert texts_of({"messages": record["rejected"]}) == [("assistant", "bad")]


def test_turns_that_both_sides_share_go_to_the_prompt_but_never_all() -> None:
    chosen = [Q, GOOD, {"role": "user", "content": "q2"}, GOOD]
    record = draft({"chosen": chosen, "rejected": [Q, GOOD, {"role": "user", "content": "q2"}, BAD]})
    assert len(record["messages"]) == 4
    assert [message["content"] for message in record["rejected"]] == ["bad"]
    assert form(record)["shared"] == 3
    equal = draft({"chosen": [Q, GOOD], "rejected": [Q, GOOD]})
    assert [message["content"] for message in equal["rejected"]] == ["good"]


@pytest.mark.parametrize("side", ["chosen", "rejected"])
def test_one_side_without_the_other_is_no_preference(side: str) -> None:
    turns = [{"role": "user", "content": "b"}]
    record = draft({"text": "\n\nHuman: a", side: turns})
    assert texts_of(record) == [("user", "a")]
    assert json.loads(record["extra"]) == {side: turns}


def test_transcripts_keep_the_space_after_the_colon_in_mind() -> None:
    text = "\n\nHuman: a\n\nHuman:b\n\nAssistant:  c \n\nAssistant:"
    record = draft({"text": text})
    assert texts_of(record) == [("user", "a"), ("user", "b"), ("assistant", " c "), ("assistant", "")]
    assert form(record)["no_space"] == [1, 3]
    names = {"user": "Human", "assistant": "Assistant"}
    rebuilt = "".join(
        f"\n\n{names[role]}:{'' if index in form(record)['no_space'] else ' '}{content}"
        for index, (role, content) in enumerate(texts_of(record))
    )
    assert rebuilt == text


# --- the sample data --------------------------------------------------------------------------------------------------

_REASONS = {
    "cut_json": "not JSON",
    "invalid_utf8": "not UTF-8",
    "lone_surrogate": "not text",
    "single_quotes": "not JSON",
    "empty_object": "no adapter",
    "no_role": "no field",
    "wrong_type": "wrong type",
    "not_an_object": "wrong type",
    "trailing_comma": "not JSON",
    "cut_file": "not JSON",
}
_ADAPTERS = {
    "alpaca": "alpaca",
    "sharegpt": "sharegpt",
    "messages": "openai",
    "prompt_completion": "pairs",
    "question_answer": "pairs",
    "preference": "preference",
    "transcripts": "transcripts",
}
_TRUTH = json.loads((Path(__file__).parents[2] / "sample_data" / "truth.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", _TRUTH["files"])
def test_sample_files_give_the_rows_that_the_truth_names(tmp_path: Path, sample_data: Path, name: str) -> None:
    truth = _TRUTH["files"][name]
    outcome = ingested(sample_data / name, tmp_path / "out")
    assert outcome.ledger.read == truth["rows"]
    bad = {entry["row"]: _REASONS[entry["reason"]] for entry in truth["bad"]}
    found = quarantine_of(tmp_path / "out")
    assert {row["row"]: row["reason"].partition(":")[0] for row in found} == bad
    records = rows_of(tmp_path / "out")
    assert [record["provenance"]["row"] for record in records] == [n for n in range(truth["rows"]) if n not in bad]
    assert {record["provenance"]["adapter"] for record in records} == {_ADAPTERS[truth["format"]]}
    if not name.endswith((".gz", ".zst")):
        data = (sample_data / name).read_bytes()
        for row in found:
            assert data[row["byte_offset"] :].startswith(row["raw"])


def test_sample_metadata_and_traces_are_those_of_the_truth(tmp_path: Path, sample_data: Path) -> None:
    ingested(sample_data / "alpaca_metadata.jsonl", tmp_path / "out")
    records = rows_of(tmp_path / "out")
    for field, counts in _TRUTH["metadata"].items():
        found: dict[str, int] = {}
        for record in records:
            value = record["metadata"][field]
            if field == "source" and value == "s":
                continue
            found[str(value)] = found.get(str(value), 0) + 1
        assert found == counts, field
    traces = [row["provenance"]["row"] for row in records if row["messages"][-1]["reasoning"] is not None]
    assert traces == [row for name, row in _TRUTH["reasoning"] if name == "alpaca_metadata.jsonl"]
    assert sum("4.50" in (record["extra"] or "") for record in records) >= 1
