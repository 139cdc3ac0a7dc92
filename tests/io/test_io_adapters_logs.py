"""Logs of calls: requests and responses in the shapes in which services, batches, proxies and tracers write them."""

import json
from typing import Any

import pytest
from adapter_samples import bad_reason, extra_of, record_of, records_of, turns_of

ASK = {"model": "gpt-4o", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]}
USAGE = {"prompt_tokens": 3, "total_tokens": 4}
ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1700000000,
    "model": "gpt-4o-2024-08-06",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "a", "refusal": None, "annotations": []},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": USAGE,
}
TURNS = [("system", "s"), ("user", "q"), ("assistant", "a")]

WHOLE: dict[str, dict[str, Any]] = {
    "plain": {"request": {**ASK, "temperature": 0.70}, "response": ANSWER},
    "bodies": {"request_body": ASK, "response_body": ANSWER, "response_status": 200, "user_id": "u"},
    "bodies as text": {"request_body": json.dumps(ASK), "response_body": json.dumps(ANSWER)},
    "under body": {
        "request": {"url": "/v1/chat/completions", "body": ASK},
        "response": {"status": 200, "body": ANSWER},
    },
    "batch, merged": {
        "custom_id": "c-1",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": ASK,
        "response": {"status_code": 200, "request_id": "r", "body": ANSWER},
        "error": None,
    },
    "litellm": {"id": "x", "messages": ASK["messages"], "response": ANSWER, "status": "success"},
    "response a text": {"messages": ASK["messages"], "response": "a", "model": "m"},
    "tracer": {"id": "t", "input": ASK, "output": {"role": "assistant", "content": "a"}, "model": "m"},
    "tracer, turns": {"input": ASK["messages"], "output": {"role": "assistant", "content": "a"}},
    "tracer, text": {"input": ASK["messages"], "output": "a"},
    "stored": {**ANSWER, "messages": ASK["messages"], "metadata": {"team": "x"}},
    "responses": {
        "request": {"model": "m", "instructions": "s", "input": "q"},
        "response": {
            "id": "resp_1",
            "model": "m",
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}],
        },
    },
    "parts": {
        "request": {"system": "s", "messages": [{"role": "user", "content": "q"}]},
        "response": {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "a"}], "model": "m"},
    },
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_call_with_its_answer_is_a_conversation(name: str) -> None:
    record = record_of(WHOLE[name], "logs")
    assert record["kind"] == "sft" and record["group"] is None
    assert turns_of(record) == TURNS


def test_what_a_body_says_besides_stays_in_order_and_digits() -> None:
    row = '{"request":{"model":"m","messages":[{"role":"user","content":"q"}],"temperature":0.70,"seed":12345678901234567890},"response":{"choices":[{"message":{"role":"assistant","content":"a"}}],"usage":{"n":1e400}},"latency":1.50}'  # noqa: E501
    record = record_of(row, "logs")
    assert record["extra"] == (
        '{"latency":1.50,"request":{"model":"m","temperature":0.70,"seed":12345678901234567890},'
        '"response":{"choices":[{}],"usage":{"n":1e400}}}'
    )
    record = record_of(WHOLE["plain"], "logs")
    assert extra_of(record)["response"]["choices"] == [
        {"index": 0, "logprobs": None, "finish_reason": "stop", "message": {"refusal": None, "annotations": []}}
    ]
    assert record["metadata"]["teacher"] == "gpt-4o-2024-08-06"


def test_a_body_that_is_a_text_stays_as_it_is() -> None:
    row = {"request_body": json.dumps(ASK, indent=3), "response_body": json.dumps(ANSWER, indent=3)}
    assert extra_of(record_of(row, "logs")) == row


def test_several_choices_are_one_group() -> None:
    choices = [{"index": index, "message": {"role": "assistant", "content": text}} for index, text in enumerate("ab")]
    first, second = records_of({"request": ASK, "response": {**ANSWER, "choices": choices}}, "logs")
    assert [first["id"], second["id"]] == ["s/f#7.0", "s/f#7.1"] and first["group"] == second["group"] == "s/f#7"
    assert turns_of(first)[-1] == ("assistant", "a") and turns_of(second)[-1] == ("assistant", "b")
    assert extra_of(second)["response"]["choices"] == [{"index": 1}]


@pytest.mark.parametrize(
    "row",
    [
        {"custom_id": "c", "method": "POST", "url": "/v1/chat/completions", "body": ASK},
        {"request": ASK, "response": None},
        {"request": ASK, "response": {"error": {"message": "overloaded", "type": "server"}}},
        {"request": ASK, "response": {"status_code": 429, "body": {}}},
        {"request_body": ASK, "response_body": {"error": {"message": "no"}}, "response_status": 500},
        {"request": ASK, "response": {**ANSWER, "choices": []}},
        {"messages": ASK["messages"], "response": {"error": "timeout"}, "status": "failure"},
    ],
)
def test_a_request_without_an_answer_is_a_prompt(row: Any) -> None:
    record = record_of(row, "logs")
    assert record["kind"] == "prompt" and turns_of(record) == TURNS[:2]


def test_the_callers_name_for_a_call_goes_before_the_services() -> None:
    row = {"id": "batch_req_1", "custom_id": "c-1", "response": {"status_code": 200, "body": ANSWER}, "error": None}
    record = record_of(row, "logs")
    assert record["kind"] == "text" and turns_of(record) == [("assistant", "a")]
    assert record["metadata"]["original_id"] == "c-1" and extra_of(record)["id"] == "batch_req_1"


def batch(response: Any, **fields: Any) -> dict[str, Any]:
    return {"custom_id": "c", "response": response, **fields}


def answered(choice: Any) -> dict[str, Any]:
    return {"request": ASK, "response": {"choices": [choice]}}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (batch({"status_code": 400, "body": {}}), "failed call: status 400"),
        (batch(None, error={"code": "expired", "message": "late"}), 'failed call: error "late"'),
        (batch({"body": {"choices": []}}), "no answer: the log holds neither a prompt nor an answer"),
        ({"custom_id": "c", "url": "/v1/embeddings", "body": ASK}, "not a chat: a call of /v1/embeddings"),
        (answered({"index": 0}), "no answer: a choice has index"),
        (answered({"message": {"content": None}}), "no answer: the message of a choice is empty"),
        ({"request": {"messages": []}, "response": ANSWER}, "no turns: messages is empty"),
    ],
)
def test_a_log_without_anything_to_learn_says_why(row: Any, reason: str) -> None:
    assert bad_reason(row) == reason


def test_tools_and_calls_stay_their_own_text() -> None:
    tools = '[{"type": "function", "function": {"name": "f", "parameters": {"x": 1.0}}}]'
    calls = '[{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\\"x\\": 1.0}"}}]'
    row = f'{{"request": {{"messages": [{{"role": "user", "content": "q"}}], "tools": {tools}}}, "response": {{"choices": [{{"message": {{"role": "assistant", "content": null, "tool_calls": {calls}}}}}]}}}}'  # noqa: E501
    record = record_of(row, "logs")
    assert record["tools"] == tools
    assert record["messages"][1]["tool_calls"] == calls and record["messages"][1]["content"] is None
    legacy = '{"name": "f", "arguments": "{}"}'
    row = f'{{"request": {{"messages": [{{"role": "user", "content": "q"}}]}}, "response": {{"choices": [{{"message": {{"role": "assistant", "content": null, "function_call": {legacy}}}}}]}}}}'  # noqa: E501
    assert legacy in record_of(row, "logs")["messages"][1]["tool_calls"]


def test_reasoning_of_a_response() -> None:
    message = {"role": "assistant", "reasoning_content": "r", "content": "a"}
    record = record_of({"request": ASK, "response": {"choices": [{"message": message}]}}, "logs")
    assert record["messages"][-1]["reasoning"] == "r"
    message = {"role": "assistant", "content": "<think>r</think>a"}
    record = record_of({"request": ASK, "response": {"choices": [{"message": message}]}}, "logs")
    assert (record["messages"][-1]["reasoning"], record["messages"][-1]["content"]) == ("r", "a")


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("label", True, "feedback"),
        ("thumbs", "up", "feedback"),
        ("feedback", "thumbs_down", "feedback"),
        ("rating", "good", "feedback"),
        ("rating", 4, "sft"),
        ("score", 0.5, "sft"),
        ("feedback", "I liked the tone", "sft"),
        ("feedback", None, "sft"),
    ],
)
def test_what_people_said_is_kept_and_a_verdict_makes_feedback(field: str, value: Any, kind: str) -> None:
    record = record_of({**WHOLE["plain"], field: value}, "logs")
    assert record["kind"] == kind and extra_of(record)[field] == value


@pytest.mark.parametrize(
    ("row", "adapter"),
    [
        ({"prompt": "q", "response": "a"}, "pairs"),
        ({"instruction": "i", "input": "x", "output": "o"}, "alpaca"),
        ({"input": "x", "output": "o"}, "questions"),
        ({"messages": [{"role": "user", "content": "q"}]}, "openai"),
    ],
)
def test_other_families_keep_their_rows(row: Any, adapter: str) -> None:
    assert record_of(row)["provenance"]["adapter"] == adapter
