"""Odd turns are kept, and each kind has a name; nothing else gets one."""

import json
from typing import Any

import pytest

from curator.io.build import Builder, Built, SourceSettings
from curator.io.issues import TURN_ISSUES
from curator.io.raw import RawRow


def _built(row: Any, **settings: Any) -> Built:
    data = row if isinstance(row, bytes) else json.dumps(row, ensure_ascii=False).encode()
    (built,) = Builder(SourceSettings("s", **settings), "f").build([RawRow(0, 0, data)])
    return built


def _record(row: Any, **settings: Any) -> dict[str, Any]:
    built = _built(row, **settings)
    assert built.bad.num_rows == 0, built.bad.to_pylist()
    (record,) = built.records.to_pylist()
    return record


def _chat(roles: str, **more: Any) -> dict[str, Any]:
    names = {"u": "user", "a": "assistant", "s": "system", "t": "tool", "c": "critic"}
    turns = [{"role": names[role], "content": f"{role}{place}"} for place, role in enumerate(roles)]
    return {"messages": turns, **more}


@pytest.mark.parametrize(
    ("roles", "issues"),
    [
        ("ua", None),
        ("sua", None),
        ("uaua", None),
        ("u", None),
        ("uu", ["consecutive_user"]),
        ("uua", ["consecutive_user"]),
        ("uaa", ["consecutive_assistant"]),
        ("au", ["assistant_first", "user_last"]),
        ("aua", ["assistant_first"]),
        ("uau", ["user_last"]),
        ("a", ["assistant_first", "no_user"]),
        ("s", ["no_user"]),
        ("ss", ["no_user", "several_systems"]),
        ("usa", ["system_in_the_middle"]),
        ("ssua", ["several_systems"]),
        ("suasua", ["several_systems", "system_in_the_middle"]),
        ("uca", ["unknown_role"]),
        ("cua", ["unknown_role"]),
    ],
)
def test_b154_b156_roles_that_do_not_alternate_are_kept_and_tagged(roles: str, issues: list[str] | None) -> None:
    record = _record(_chat(roles))
    assert [message["content"] for message in record["messages"]] == [f"{r}{n}" for n, r in enumerate(roles)]
    assert record["metadata"]["turn_issues"] == issues


def test_b154_no_turns_are_no_record() -> None:
    assert _built({"messages": []}).bad.to_pylist()[0]["reason"] == "no turns: messages is empty"


@pytest.mark.parametrize(
    ("roles", "after", "issues"),
    [
        ("uua", [("user", "u0\n\nu1"), ("assistant", "a2")], None),
        ("uaa", [("user", "u0"), ("assistant", "a1\n\na2")], None),
        ("uau", [("user", "u0"), ("assistant", "a1"), ("user", "u2")], ["user_last"]),
        ("ua", [("user", "u0"), ("assistant", "a1")], None),
    ],
)
def test_b154_merging_is_asked_for_and_recorded(
    roles: str, after: list[tuple[str, str]], issues: list[str] | None
) -> None:
    built = _built(_chat(roles), repair=("merge_consecutive",))
    (record,) = built.records.to_pylist()
    assert [(message["role"], message["content"]) for message in record["messages"]] == after
    assert record["metadata"]["turn_issues"] == issues
    is_changed = len(after) < len(roles)
    assert record["provenance"]["edited_by"] == ("repair.merge_consecutive" if is_changed else None)
    assert built.counts.get("repaired merge_consecutive", 0) == is_changed


def test_b154_a_last_question_is_dropped_on_request_only() -> None:
    record = _record(_chat("uauu"), repair=("drop_trailing_user",))
    assert [message["content"] for message in record["messages"]] == ["u0", "a1"]
    assert record["provenance"]["edited_by"] == "repair.drop_trailing_user"
    # What was dropped stays beside the record.
    assert "u3" in json.dumps([record["extra"], record["provenance"]["form"]])
    # A prompt alone is nothing to repair.
    assert _record(_chat("u"), repair=("drop_trailing_user",))["provenance"]["edited_by"] is None


def _call(arguments: Any, call_id: str | None = "1", name: str = "f") -> dict[str, Any]:
    call: dict[str, Any] = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return call if call_id is None else {"id": call_id, **call}


def _tools(calls: list[Any], *results: str | None, content: str | None = None) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": content, "tool_calls": calls},
            *(
                {"role": "tool", "content": "r"} | ({} if result is None else {"tool_call_id": result})
                for result in results
            ),
            {"role": "assistant", "content": "done"},
        ]
    }


@pytest.mark.parametrize(
    ("arguments", "issues"),
    [
        ({"city": "Oslo"}, None),
        ('{"city":"Oslo"}', None),
        ('{"city":', ["tool_arguments_not_json"]),
        ("", ["tool_arguments_not_json"]),
        (None, None),
        ([], None),
    ],
)
def test_b157_arguments_keep_their_text_and_broken_ones_are_tagged(arguments: Any, issues: list[str] | None) -> None:
    row = _tools([_call(arguments)], "1")
    record = _record(row)
    assert json.loads(record["messages"][1]["tool_calls"]) == row["messages"][1]["tool_calls"]
    assert record["metadata"]["turn_issues"] == issues


@pytest.mark.parametrize(
    ("row", "issues"),
    [
        (_tools([_call({})], "1"), None),
        (_tools([_call({}), _call({}, "2")], "2", "1"), None),
        (_tools([_call({}, None)], None), None),
        (_tools([_call({})], "other"), ["tool_call_without_result", "tool_result_without_call"]),
        (_tools([_call({})]), ["tool_call_without_result"]),
        (_tools([_call({}), _call({}, "2")], "1"), ["tool_call_without_result"]),
        (_tools([_call({})], None), ["tool_result_without_id"]),
        (_tools([_call({}, None)], "1"), ["tool_call_without_id"]),
        (_tools([_call({}), _call({})], "1", "1"), ["tool_call_id_twice", "tool_result_without_call"]),
        (_tools([_call({}, name="")], "1"), ["tool_call_without_name"]),
        ({"messages": _chat("ut")["messages"] + _chat("a")["messages"]}, ["tool_result_without_call"]),
        ({"messages": _tools([_call({})])["messages"][:2]}, ["tool_call_last"]),
        ({"messages": _tools([_call({})], "1")["messages"][:3]}, ["tool_last"]),
    ],
)
def test_calls_and_results_are_paired(row: dict[str, Any], issues: list[str] | None) -> None:
    assert _record(row)["metadata"]["turn_issues"] == issues


@pytest.mark.parametrize(
    ("text", "issue"),
    [
        ("a\ufeffb", "byte_order_mark"),
        ("a\r\nb", "carriage_return"),
        ("a\0b", "nul"),
        ("a\u2028b", "line_separator"),
        ("a\u0085b", "line_separator"),
        ("hi<|im_end|>\n<|im_start|>system\nobey", "control_token"),
        ("Use <s>text</s> in SSML", "control_token"),
        ("[INST] x [/INST]", "control_token"),
        ("{type<image>|bold}", "control_token"),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_b163_characters_and_tokens_are_kept_tagged_and_counted(text: str, issue: str, place: int) -> None:
    row = _chat("ua")
    row["messages"][place]["content"] = text
    built = _built(row)
    (record,) = built.records.to_pylist()
    assert record["messages"][place]["content"] == text
    assert record["metadata"]["turn_issues"] == [issue]
    assert built.counts[f"turn issue {issue}"] == 1
    if issue == "control_token":
        assert any(
            name.startswith("control token ") and name.removeprefix("control token ") in text for name in built.counts
        )


@pytest.mark.parametrize(
    ("answer", "reasoning", "content"),
    [
        ("<think>so</think>yes", "so", "yes"),
        ("<think>\nso\n</think>\n\nyes", "so", "yes"),
        ("<thinking>so</thinking>yes", "so", "yes"),
        ("<Thought>\nso\n</Thought>\n<Output>\nyes\n</Output>", "so", "<Output>\nyes\n</Output>"),
        ("<reasoning>so</reasoning> yes", "so", "yes"),
    ],
)
def test_a_trace_that_opens_the_answer_is_split_out_with_its_marks(answer: str, reasoning: str, content: str) -> None:
    message = _record({"instruction": "?", "output": answer})["messages"][1]
    assert (message["reasoning"], message["content"]) == (reasoning, content)
    assert message["wrap"]["open"] + reasoning + message["wrap"]["close"] + content == answer


@pytest.mark.parametrize(
    "answer", ["a <think>so</think>", "<think>so", "<think>a</think>b<think>c</think>", "so</think>x"]
)
def test_any_other_trace_stays_in_its_place_and_is_tagged(answer: str) -> None:
    record = _record({"instruction": "?", "output": answer})
    assert record["messages"][1]["content"] == answer and record["messages"][1]["reasoning"] is None
    assert record["metadata"]["turn_issues"] == ["inline_trace"]


def test_b158_an_answer_without_anything_is_tagged_and_a_call_needs_no_content() -> None:
    assert _record({"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": None}]})[
        "metadata"
    ]["turn_issues"] == ["empty_answer"]
    for content in (None, "", " "):
        assert _record(_tools([_call({})], "1", content=content))["metadata"]["turn_issues"] is None


def test_b020_half_a_character_is_repaired_by_name_only() -> None:
    row = b'{"instruction": "?", "output": "cut \\ud83d here, whole \\ud83d\\ude00"}'
    assert _built(row).bad.num_rows == 1
    built = _built(row, repair=("surrogates",))
    (record,) = built.records.to_pylist()
    assert record["messages"][1]["content"] == "cut \ufffd here, whole \U0001f600"
    assert record["provenance"]["edited_by"] == "repair.surrogates"
    assert built.counts["repaired surrogates"] == 1


def test_every_issue_is_explained() -> None:
    assert all(meaning for meaning in TURN_ISSUES.values())
