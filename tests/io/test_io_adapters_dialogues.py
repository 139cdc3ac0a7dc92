"""Conversations in marks and trees of their own: MOSS, Glaive, ToolBench, Gorilla, dialogues of two speakers."""

import json
from typing import Any

import pytest
from adapter_samples import bad_reason, built, extra_of, parsed, record_of, records_of, turns_of

from curator.io.adapters import ADAPTERS, glaive
from curator.io.adapters.base import Unrestorable
from curator.io.adapters.moss import calls_of, command_of


def moss_turn(human: str, moss: str, thought: str = "None", command: str = "None", result: str | None = None) -> Any:
    results = "<|Results|>:\nNone\n<eor>\n" if result is None else f"<|Results|>:\n{result}\n<eor>\n"
    return {
        "Human": f"<|Human|>: {human}<eoh>\n",
        "Inner Thoughts": f"<|Inner Thoughts|>: {thought}<eot>\n",
        "Commands": f"<|Commands|>: {command}<eoc>\n",
        "Tool Responses": results,
        "MOSS": f"<|MOSS|>: {moss}<eom>\n",
    }


MOSS = {
    "conversation_id": 1,
    "meta_instruction": "You are MOSS.",
    "num_turns": 2,
    "chat": {
        "turn_1": moss_turn("a", "b", "Plain."),
        "turn_2": moss_turn("c", "d", "Needs maths.", 'Calculate("1+1")', 'Calculate("1+1") => 2'),
    },
    "category": "tool",
}


def test_moss_turns_and_their_calls() -> None:
    record = record_of(MOSS, "moss")
    assert turns_of(record) == [
        ("system", "You are MOSS."),
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
        ("assistant", None),
        ("tool", 'Calculate("1+1") => 2'),
        ("assistant", "d"),
    ]
    assert [turn["reasoning"] for turn in record["messages"]] == [
        None,
        None,
        "Plain.",
        None,
        "Needs maths.",
        None,
        None,
    ]
    call = json.loads(record["messages"][4]["tool_calls"])
    assert call == [{"type": "function", "function": {"name": "Calculate", "arguments": '"1+1"'}}]
    assert record["metadata"]["domain"] == "tool" and record["metadata"]["original_id"] == "1"


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"chat": {"turn_1": {**MOSS["chat"]["turn_1"], "Human": "<|Human|>: a <eoh>\n"}}},
        {"chat": {"turn_1": {**MOSS["chat"]["turn_1"], "MOSS": "<|MOSS|>: \n\nb<eom>"}}},
        {"chat": {"turn_1": {"MOSS": "<|MOSS|>: b<eom>\n", "Human": "<|Human|>: a<eoh>\n"}}},
        {"chat": {"turn_1": moss_turn("a", "b", "None", '1. Calculate("1")  # one\n2. Other', "r")}},
        {"chat": {"turn_1": moss_turn("a", "b", "t", 'Search("x"), Search("y")', "r")}, "more": 1.50},
    ],
)
def test_moss_comes_back(change: dict[str, Any]) -> None:
    row = json.dumps({**MOSS, **change})
    restore = ADAPTERS["moss"].restore
    assert restore is not None
    record = record_of(row, "moss")
    assert parsed(restore(record)) == parsed(row)
    assert [list(turn) for turn in parsed(restore(record))["chat"].values()] == [
        list(turn) for turn in parsed(row)["chat"].values()
    ]
    with pytest.raises(Unrestorable):
        restore({**record, "messages": record["messages"][:-1]})


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ('Search("a")', ["Search"]),
        ('Search("a"), Calculate("1+(2)")', ["Search", "Calculate"]),
        ('Search("f(x), g(y)")', ["Search"]),
        ("Search(unclosed", [None]),
        ("look it up", [None]),
        ("", [None]),
    ],
)
def test_commands_and_calls_are_each_others_inverse(command: str, names: list[str | None]) -> None:
    calls = calls_of(command)
    assert command_of(calls) == command
    assert [call["function"]["name"] for call in json.loads(calls)] == names


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        ({"Human": "no marks"}, "no marks: Human of a turn is not between <|...|>: and <eo.>"),
        ({"Human": None}, "wrong type: Human is null, expected text"),
        ({"Mood": "<|Mood|>: x<eom>"}, "unknown field in a turn: Mood"),
        ({"Inner Thoughts": "<|Inner Thoughts|>: x<eot>\n"}, "no answer: a turn has thoughts alone"),
        ({"Tool Responses": "<|Results|>:\nr\n<eor>\n"}, "no command: a turn has a tool's result without one"),
    ],
)
def test_moss_turns_of_another_shape_say_so(turn: Any, reason: str) -> None:
    assert bad_reason({"num_turns": 1, "chat": {"turn_1": turn}}) == reason
    assert bad_reason({"num_turns": 0, "chat": {}}) == "no turns: chat is empty"


def test_glaive_chats_and_what_stands_between_turns() -> None:
    chat = (
        'USER: a\nUSERS: not a turn\n\n\nASSISTANT: <functioncall> {"name": "f", "arguments": \'{}\'} <|endoftext|>'
        '\n\n\nFUNCTION RESPONSE: {"x": 1}\n\n\nASSISTANT: b <|endoftext|>\n\n\n'
    )
    record = record_of({"system": "SYSTEM: Be brief.\n", "chat": chat}, "glaive")
    assert turns_of(record) == [
        ("system", "Be brief.\n"),
        ("user", "a\nUSERS: not a turn"),
        ("assistant", '<functioncall> {"name": "f", "arguments": \'{}\'}'),
        ("tool", '{"x": 1}'),
        ("assistant", "b"),
    ]
    assert glaive.restore_chat(record["messages"], json.loads(record["provenance"]["form"])) == chat
    assert bad_reason({"chat": "a"}) == "not a chat: it must begin with USER:, ASSISTANT: or FUNCTION RESPONSE:"


@pytest.mark.parametrize(
    ("code", "turns"),
    [
        ("{'Instruction': Load it., 'Output': {'api_call': \"f('x')\"}}", ("Load it.", "{'api_call': \"f('x')\"}")),
        ("###Instruction: Load it.\n###Output: {'a': 'f('x')'}\n", ("Load it.", "{'a': 'f('x')'}\n")),
    ],
)
def test_apis_in_a_string(code: str, turns: tuple[str, str]) -> None:
    row = {"code": code, "api_call": "f('x')", "provider": "P", "api_data": {"Params (M)": 32.45}}
    record = record_of(row, "apis")
    assert turns_of(record) == [("user", turns[0]), ("assistant", turns[1])]
    restore = ADAPTERS["apis"].restore
    assert restore is not None and parsed(restore(record)) == parsed(json.dumps(row))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("{'Instruction': a, 'Output': b, 'Output': c}", "not certain: code holds \", 'Output':\" more than once"),
        ("just code", "not certain: code is neither"),
        ("{'Instruction': a}", "not certain: code is neither"),
    ],
)
def test_what_is_not_certain_is_a_bad_row(code: str, reason: str) -> None:
    assert bad_reason({"code": code, "api_call": "f"}).startswith(reason)


TOOLBENCH = {
    "win": True,
    "tree": {"size": 7, "Elo": 1000.0},
    "answer_generation": {
        "valid_data": True,
        "function": [{"name": "f", "parameters": {"x": 1.0}}],
        "train_messages": [
            [
                {"role": "system", "content": "s"},
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{\n}"}},
            ],
            [
                {"role": "user", "content": "q", "valid": False},
                {"role": "function", "name": "f", "content": "r"},
                {"role": "assistant", "content": "a"},
            ],
        ],
        "query": "q",
    },
}


def test_toolbench_steps_are_records_of_one_group() -> None:
    first, second = records_of(TOOLBENCH, "toolbench")
    assert first["group"] == second["group"] == "s/f#7"
    assert turns_of(first) == [("system", "s"), ("user", "q"), ("assistant", None)]
    assert '{"name": "f", "arguments": "{\\n}"}' in first["messages"][2]["tool_calls"]
    assert turns_of(second)[1] == ("tool", "r") and second["messages"][1]["name"] == "f"
    assert first["tools"] == second["tools"] == '[{"name": "f", "parameters": {"x": 1.0}}]'
    # The search tree is kept once, with the first.
    assert extra_of(first)["tree"] == {"size": 7, "Elo": 1000.0}
    assert extra_of(second) == {"turns": {"0": {"valid": False}}}


def test_a_search_that_found_nothing_is_a_prompt() -> None:
    row = {**TOOLBENCH, "answer_generation": {"query": "q", "function": [], "finish_type": "give_up"}}
    record = record_of(row, "toolbench")
    assert record["kind"] == "prompt" and turns_of(record) == [("user", "q")]
    assert extra_of(record)["answer_generation"] == {"finish_type": "give_up"}


# --- dialogues of two speakers --------------------------------------------------------------------------------------


FIRST = {"speaker": "USER", "utterance": "a", "frames": [{"n": 1.0}]}
INDEXED = [{"index": 0, "speaker": "ASSISTANT", "text": "a"}, {"index": 1, "speaker": "USER", "text": "b"}]
SAMPLE = [{"role": "user", "content": "a"}, {"role": "char", "content": "b"}]


@pytest.mark.parametrize(
    ("row", "turns"),
    [
        (
            {"dialogue_id": "1", "turns": [FIRST, {"speaker": "SYSTEM", "utterance": "b"}]},
            [("user", "a"), ("assistant", "b")],
        ),
        ({"conversation_id": "1", "utterances": INDEXED}, [("assistant", "a"), ("user", "b")]),
        (
            {"name": "Zel", "context": "An elf.", "greeting": "Hail.", "example_dialogue": SAMPLE},
            [("system", "An elf."), ("assistant", "Hail."), ("user", "a"), ("assistant", "b")],
        ),
    ],
)
def test_dialogues_by_speaker(row: Any, turns: Any) -> None:
    record = record_of(row, "dialogues")
    assert turns_of(record) == turns and record["kind"] == "sft"


def test_dialogues_keep_what_a_turn_tells_besides() -> None:
    turns = [{"speaker": "USER", "text": "a", "frames": [{"n": 1.0}]}, {"speaker": "SYSTEM", "text": "b"}]
    record = record_of({"dialogue_id": "1_00000", "services": ["R"], "turns": turns}, "dialogues")
    assert extra_of(record) == {"services": ["R"], "turns": {"0": {"frames": [{"n": 1.0}]}}}
    assert record["metadata"]["original_id"] == "1_00000"


def test_dialogstudio_objects_hold_several_dialogues() -> None:
    log = [
        {"turn id": 1, "user utterance": "a", "system response": "b", "dialog history": ""},
        {"turn id": 2, "user utterance": "c", "system response": "", "dialog history": "<USER> a <SYSTEM> b"},
    ]
    row = {"SGD--train--1": {"dialog index": 1, "log": log, "prompt": []}, "SGD--train--2": {"log": log[:1]}}
    first, second = records_of(row, "dialogues")
    assert turns_of(first) == [("user", "a"), ("assistant", "b"), ("user", "c")]
    assert turns_of(second) == [("user", "a"), ("assistant", "b")]
    assert second["metadata"]["original_id"] == "SGD--train--2" and first["group"] is None
    kept = extra_of(first)["SGD--train--1"]
    assert kept["log"][1] == {"turn id": 2, "system response": "", "dialog history": "<USER> a <SYSTEM> b"}


def test_a_table_turned_on_its_side() -> None:
    row = {
        "id": ["x", "y"],
        "dialog": [
            [{"id": 0, "sender": "p2", "text": "a"}, {"id": 1, "sender": "p1", "text": "b"}],
            [{"id": 0, "sender": "p1", "text": "c"}],
        ],
        "eval_score": [1, 2.50],
    }
    first, second = records_of(row, "dialogues")
    assert turns_of(first) == [("user", "a"), ("assistant", "b")] and second["kind"] == "prompt"
    assert first["metadata"]["original_id"] == "x" and extra_of(second)["eval_score"] == 2.5
    assert bad_reason({**row, "eval_score": [1]}) == "no turns: the lists beside dialog are not as long as it is"


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        ([{"speaker": "USER", "text": "a"}, {"speaker": "NARRATOR", "text": "b"}], "unknown speaker: 'NARRATOR'"),
        ([{"speaker": "USER", "text": "a"}, {"text": "b"}], "unknown turn: it has text"),
        ([{"speaker": "USER", "text": 1}], "wrong type: text is number, expected text"),
    ],
)
def test_dialogues_of_the_wrong_shape_say_so(turns: Any, reason: str) -> None:
    assert bad_reason({"turns": turns}) == reason


def test_the_records_of_a_row_have_ids_of_their_own() -> None:
    records, _ = built(TOOLBENCH)
    assert [record["id"] for record in records] == ["s/f#7.0", "s/f#7.1"]
    assert {record["provenance"]["row"] for record in records} == {7}


# --- turns under other names ----------------------------------------------------------------------------------------

ASK = [{"role": "user", "content": "q"}]
REPLY = [{"role": "assistant", "content": "a"}]


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"conversation_id": "c", "model": "m", "conversation": ASK + REPLY, "turn": 1, "language": "English"}, "sft"),
        ({"conversation": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}, "sft"),
        ({"id": "1", "data": ["q", "a"]}, "sft"),
        ({"dialog": ["q", "a"], "act": [1, 2]}, "sft"),
        ({"prompt": ASK, "completion": REPLY}, "sft"),
        ({"prompt": ASK, "response": "a"}, "sft"),
        ({"prompt": ASK, "completion": None}, "prompt"),
        ({"prompt": ASK, "extra_info": {"n": 1.0}}, "prompt"),
    ],
)
def test_turns_under_other_names(row: Any, kind: str) -> None:
    record = record_of(row, "chats")
    assert record["kind"] == kind
    assert turns_of(record) == [("user", "q"), ("assistant", "a")][: 2 if kind == "sft" else 1]
    if "model" in row:
        assert record["metadata"]["teacher"] == "m" and record["metadata"]["original_id"] == "c"
        assert extra_of(record) == {"turn": 1, "language": "English"}


@pytest.mark.parametrize(
    "row",
    [
        '[{"role":"user","content":"q"},{"content":"<think>r</think>a","role":"assistant","n":1.0}]',
        '[ {"from":"human","value":"q"},{"from":"gpt","value":"<think>r</think>a"} ]',
    ],
)
def test_a_row_that_is_a_list_of_turns(row: str) -> None:
    record = record_of(row, "chats")
    assert turns_of(record) == [("user", "q"), ("assistant", "a")] and record["messages"][1]["reasoning"] == "r"


@pytest.mark.parametrize("row", ["[]", "[1]", '["q","a"]', "3", "null", '[{"a":1}]', '[{"role":"user"},3]'])
def test_other_rows_that_are_no_objects(row: str) -> None:
    assert bad_reason(row).startswith("wrong type: ")


def test_an_object_around_rows_says_how_to_get_at_them() -> None:
    assert bad_reason({"v": 1, "data": [{"instruction": "a", "output": "b"}]}).endswith(
        "jq -c '.data[]' writes as rows"
    )
    assert "jq" not in bad_reason({"v": 1, "data": [1]})


def test_lists_that_hold_no_turns_are_left_alone() -> None:
    assert bad_reason({"data": ["q", "a"], "columns": 2}).startswith("no adapter: ")
    assert bad_reason({"conversation": []}).startswith("no adapter: ")
    assert bad_reason({"conversation": [1, 2]}).startswith("no adapter: ")


@pytest.mark.parametrize("as_text", [True, False])
def test_calls_that_answer_a_query(as_text: bool) -> None:
    tools, answers = '[{"name":  "f"}]', '[{"name": "f",  "arguments": {"x": 1.0}}]'
    shown = [json.dumps(text) if as_text else text for text in (tools, answers)]
    row = f'{{"id": 3, "query": "q", "tools": {shown[0]}, "answers": {shown[1]}}}'
    record = record_of(row, "calls")
    assert record["tools"] == tools and record["messages"][1]["tool_calls"] == answers
    assert turns_of(record) == [("user", "q"), ("assistant", None)] and record["metadata"]["original_id"] == "3"
    assert bad_reason({"query": "q", "tools": "[]", "answers": "none"}).startswith("wrong type: answers is text")
