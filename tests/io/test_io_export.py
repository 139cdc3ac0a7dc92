"""Records in the forms of other tools: its own rows to the digit, others written anew with all they hold."""

import json
from typing import Any

import pytest
from adapter_samples import built, exact, record_of
from record_samples import batch_of, message, record

from curator.io.export import TARGETS
from curator.io.export.base import Unrenderable, export_record

_CALL = '[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\\"n\\": 1.0}"}}]'

OWN_ROWS = {
    "alpaca": [
        '{"output":"3","instruction":"Add.","input":"1, 2"}',
        '{"instruction":"a\\n\\nb\\n","input":"\\nc\\n\\nd","output":"<think>\\nhm\\n</think>\\n\\nx","n":1.50}',
        '{"instruction":"a","input":null,"output":"b","id":9007199254740993,"deep":{"z":[1e400,-0,1.0],"a":null}}',
        '{"system":"s","instruction":"a","response":"b","metadata":{"y":1,"domain":"code","x":[]}}',
    ],
    "sharegpt": [
        '{"id":"1","conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a","weight":0.10}]}',
        '{"tools":"[{\\"name\\": \\"f\\"}]","conversations":[{"value":"q","from":"user"},'
        '{"from":"function_call","value":"{\\"name\\": \\"f\\"}"},{"from":"observation","value":"1"},'
        '{"from":"gpt","value":"a"}],"system":"s"}',
        '{"conversations":[{"from":"human","value":"q","mark":{"b":1e2}},{"from":"chatgpt","value":""}],"tools":null}',
    ],
    "messages": [
        '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":' + _CALL + "},"
        '{"role":"tool","content":"1","tool_call_id":"c1"},{"role":"assistant","content":"a"}],"tools":[ {"x":1.0} ]}',
        '{"n":12345678901234567890,"messages":[{"content":[{"type":"text","text":"q"}],"role":"user","weight":0},'
        '{"role":"assistant","reasoning_content":"r","content":"a","name":"x"}]}',
        '{"messages":[{"role":"developer","content":"d"},{"role":"user","content":"q"},{"role":"assistant",'
        '"content":null,"function_call":{"name":"f","arguments":"{}"}}],"weight":1.00}',
    ],
    "preference": [
        '{"prompt":"q","chosen":"good","rejected":"bad","score":0.10}',
        '{"chosen":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],'
        '"rejected":[{"role":"user","content":"q"},{"role":"assistant","content":"b"}],"prompt":"q"}',
        '{"conversations":[{"from":"human","value":"q"}],"chosen":{"from":"gpt","value":"a"},'
        '"rejected":{"from":"gpt","value":"b"}}',
        '{"chosen":"\\n\\nHuman: q\\n\\nAssistant: a","rejected":"\\n\\nHuman: q\\n\\nAssistant: b"}',
    ],
}


def built_of(row: str) -> dict[str, Any]:
    (record,), bad = built(row)
    assert bad == []
    return record


@pytest.mark.parametrize(("target", "row"), [(name, row) for name, rows in OWN_ROWS.items() for row in rows])
def test_its_own_rows_come_back(target: str, row: str) -> None:
    exported = export_record(built_of(row), TARGETS[target], with_tags=False)
    assert exported.is_restored and exported.lost == ()
    assert exact(exported.text) == exact(row)


@pytest.mark.parametrize("row", [row for rows in OWN_ROWS.values() for row in rows])
def test_source_is_the_form_of_each(row: str) -> None:
    assert exact(export_record(built_of(row), TARGETS["source"], False).text) == exact(row)


def test_mapped_rows_come_back() -> None:
    row = '{"body":{"n":1.50,"q":"a"},"answers":[{"text":"b"},{"text":"c"}],"topic":"x"}'
    mapped = record_of(row, "map", map={"prompt": "body.q", "response": "answers[0].text", "metadata.domain": "topic"})
    exported = export_record(mapped, TARGETS["source"], False)
    assert exported.is_restored and exact(exported.text) == exact(row)


def test_what_no_form_is_known_for_is_said() -> None:
    with pytest.raises(Unrenderable, match="came in another form"):
        export_record(
            record_of('{"instruction":"a","instances":[{"input":"","output":"b"}]}'), TARGETS["source"], False
        )


# --- written anew -----------------------------------------------------------------------------------------------------

CHAT = record(
    "s/f#0", ("system", "be brief"), ("user", "q"), message("assistant", "a", reasoning="r"), ("user", "q2"), "x"
)
CHAT["messages"][-1]["role"] = "assistant"
TOOLS = record(
    "s/f#1",
    ("user", "q"),
    message("assistant", "Wait.", tool_calls='[{"name":"f","arguments":{"n": 1.0}}]'),
    message("tool", "1", tool_call_id="c"),
    ("assistant", "a"),
    tools='[ {"name": "f"} ]',
)
PAIR = record("s/f#2", ("user", "q"), ("assistant", "good"), kind="preference", rejected=[message("assistant", "bad")])


@pytest.mark.parametrize(
    ("target", "row", "expected"),
    [
        (
            "alpaca",
            CHAT,
            '{"system":"be brief","instruction":"q2","input":"","output":"x",'
            '"history":[["q","<think>\\nr\\n</think>\\n\\na"]]}',
        ),
        (
            "sharegpt",
            CHAT,
            '{"conversations":[{"from":"system","value":"be brief"},{"from":"human","value":"q"},'
            '{"from":"gpt","value":"<think>\\nr\\n</think>\\n\\na"},{"from":"human","value":"q2"},'
            '{"from":"gpt","value":"x"}]}',
        ),
        (
            "messages",
            CHAT,
            '{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"q"},{"role":"assistant",'
            '"content":"a","reasoning_content":"r"},{"role":"user","content":"q2"},{"role":"assistant","content":"x"}]}',
        ),
        (
            "messages",
            TOOLS,
            '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"Wait.","tool_calls":[{"type":'
            '"function","function":{"name":"f","arguments":"{\\"n\\": 1.0}"}}]},{"role":"tool","content":"1",'
            '"tool_call_id":"c"},{"role":"assistant","content":"a"}],"tools":[ {"name": "f"} ]}',
        ),
        (
            "sharegpt",
            TOOLS,
            '{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"Wait."},{"from":"function_call",'
            '"value":"[{\\"name\\":\\"f\\",\\"arguments\\":{\\"n\\": 1.0}}]"},{"from":"observation","value":"1"},'
            '{"from":"gpt","value":"a"}],"tools":"[ {\\"name\\": \\"f\\"} ]",'
            '"metadata":{"turns":{"2":{"tool_call_id":"c"}}}}',
        ),
        (
            "preference",
            PAIR,
            '{"prompt":[{"role":"user","content":"q"}],"chosen":[{"role":"assistant","content":"good"}],'
            '"rejected":[{"role":"assistant","content":"bad"}]}',
        ),
        (
            "messages",
            PAIR,
            '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"good"}],'
            '"metadata":{"rejected":[{"role":"assistant","content":"bad"}]}}',
        ),
    ],
)
def test_other_records_are_written_anew(target: str, row: dict[str, Any], expected: str) -> None:
    exported = export_record(whole(row), TARGETS[target], with_tags=False)
    assert not exported.is_restored
    assert json_lists(exact(exported.text)) == json_lists(exact(expected))


def whole(row: dict[str, Any]) -> dict[str, Any]:
    """A record with all its columns, as a dataset gives it."""
    (full,) = batch_of([row]).to_pylist()
    return full


def json_lists(value: Any) -> Any:
    return json.loads(json.dumps(value))


@pytest.mark.parametrize(
    ("target", "row", "reason"),
    [
        ("alpaca", TOOLS, "tool calls"),
        ("alpaca", record("a", ("user", "q")), "no answer at the end"),
        ("alpaca", record("a", ("user", "q"), ("user", "q"), ("assistant", "a")), "do not alternate"),
        ("alpaca", record("a", ("assistant", "q"), ("assistant", "a")), "do not alternate"),
        ("alpaca", record("a", ("user", None), ("assistant", "a")), "without text"),
        ("messages", record("a", ("assistant", "text"), kind="text"), "kind text"),
        ("preference", CHAT, "kind sft"),
        ("sharegpt", record("a"), "no turns"),
    ],
)
def test_what_a_form_cannot_hold_is_said(target: str, row: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unrenderable, match=reason):
        export_record(whole(row), TARGETS[target], with_tags=False)


def test_nothing_of_a_record_is_dropped_on_the_way() -> None:
    """What a form has no place for stands in `metadata`, and is named."""
    row = record(
        "a",
        message("user", "q", name="ann"),
        message("assistant", "a", weight=0.5),
        verifier={"kind": "math", "payload": '{"answer": 1.0}'},
        loss_weight=0.25,
        extra='{"z": 1e400}',
    )
    exported = export_record(whole(row), TARGETS["alpaca"], with_tags=False)
    assert set(exported.lost) == {"turns", "verifier", "loss_weight", "extra"}
    left = dict(dict(exact(exported.text))["metadata"])
    assert left["extra"] == (("z", "1e400"),)
    assert left["verifier"] == (("kind", "math"), ("payload", (("answer", "1.0"),)))
    assert left["loss_weight"] == "0.25"
    assert left["turns"] == (("0", (("name", "ann"),)), ("1", (("weight", "0.5"),)))


def test_a_trace_goes_back_between_its_own_marks() -> None:
    row = '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"<Thought>r</Thought>a"}]}'
    for target, path in (("alpaca", "output"), ("messages", "messages"), ("sharegpt", "conversations")):
        text = export_record(record_of(row), TARGETS[target], False).text
        assert "<Thought>r</Thought>a" in text, (target, path)


def test_a_record_that_a_step_changed_is_written_anew() -> None:
    changed = record_of('{"instruction":"a","input":"","output":"b"}')
    changed["messages"].append({**changed["messages"][0]})
    changed["messages"].append({**changed["messages"][1]})
    exported = export_record(changed, TARGETS["alpaca"], False)
    assert not exported.is_restored and json.loads(exported.text)["history"] == [["a", "b"]]


# --- tags -------------------------------------------------------------------------------------------------------------


def test_tags_stand_beside_what_the_source_said() -> None:
    row = '{"instruction":"a","input":"","output":"b","metadata":{"domain":"maths","own":1.50}}'
    tagged = record_of(row, metadata={"difficulty": "hard"})
    tagged["scores"] = {"quality": {"value": 0.5, "by": "x"}, "empty": {"value": None}, "none": None}
    exported = export_record(tagged, TARGETS["alpaca"], with_tags=True)
    inner = dict(dict(exact(exported.text))["metadata"])
    assert inner["domain"] == "maths" and inner["own"] == "1.50" and inner["difficulty"] == "hard"
    assert inner["scores"] == (("quality", "0.5"),)


def test_metadata_that_is_no_object_is_left_alone() -> None:
    row = '{"instruction":"a","input":"","output":"b","metadata":"text"}'
    fields = json.loads(export_record(record_of(row), TARGETS["alpaca"], with_tags=True).text)
    assert fields["metadata"] == "text" and fields["curator_metadata"]["source"] == "s"
