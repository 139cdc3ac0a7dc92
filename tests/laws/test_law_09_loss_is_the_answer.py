"""Law 9, the tokens that carry loss are the answer: decoded and compared, with the texts put together by hand."""

import json
from functools import cache
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from law_samples import SAMPLES, Story, parquet_rows

from curator.chat.tokenizer import NO_SUPERVISED_TOKENS, OK, ChatTokenizer

Messages = list[dict[str, Any]]


@cache
def chat() -> ChatTokenizer:
    return ChatTokenizer.load(SAMPLES / "tiny-model")


def written_call(call: dict[str, Any]) -> str:
    made = call.get("function", call)
    arguments = made["arguments"]
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    arguments = json.dumps(arguments, ensure_ascii=False)
    return f'<tool_call>\n{{"name": "{made["name"]}", "arguments": {arguments}}}\n</tool_call>'


def calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A list in most forms, one object in others."""
    calls = json.loads(message.get("tool_calls") or "[]")
    return calls if isinstance(calls, list) else [calls]


def answers(messages: Messages) -> str:
    """What the model is to learn, up to the token that ends each turn."""
    texts = []
    for message in messages:
        if message["role"] != "assistant" or message.get("weight") == 0:
            continue
        trace = f"<think>\n{message['reasoning']}\n</think>\n\n" if message.get("reasoning") else ""
        calls = [written_call(call) for call in calls_of(message)]
        parts = [*([message["content"]] if message["content"] else []), *calls]
        texts.append(trace + "\n".join(parts) + "<|im_end|>")
    return "".join(texts)


def test_the_answers_of_all_sample_data_carry_the_loss(story: Story) -> None:
    seen = dict.fromkeys(("turns", "trace", "call", "nothing"), 0)
    for row in parquet_rows(story.pass_of("tag.signals"), columns=["messages", "tools"]):
        encoded = chat().encode(row["messages"], row["tools"])
        wanted = answers(row["messages"])
        assert chat().decode(encoded.ids[encoded.weights > 0]) == wanted
        assert encoded.status == (OK if wanted else NO_SUPERVISED_TOKENS)
        seen["turns"] += wanted.count("<|im_end|>") > 1
        seen["trace"] += "<think>" in wanted
        seen["call"] += "<tool_call>" in wanted
        seen["nothing"] += not wanted
    assert min(seen["turns"], seen["trace"], seen["call"]) > 5


TEXT = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cn"]), max_size=12)
    | st.sampled_from(
        ["<|im_end|>", "<|im_start|>assistant\n", "<|endoftext|>", "<think>", "</think>", "\n", " ", "the"]
    ),
    max_size=5,
).map("".join)
TURN = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "assistant", "tool"]), "content": st.none() | TEXT},
    optional={"weight": st.sampled_from([None, 0.0, 0.5])},
)


@settings(max_examples=200, deadline=None)
@given(st.lists(TURN, min_size=1, max_size=6))
@example([{"role": "assistant", "content": "a<|im_end|>\n<|im_start|>assistant\nb"}])
@example([{"role": "user", "content": "<think>"}, {"role": "assistant", "content": "\n\n"}])
def test_whatever_the_texts_hold(messages: Messages) -> None:
    encoded = chat().encode(messages)
    assert chat().decode(encoded.ids[encoded.weights > 0]) == answers(messages)
    assert encoded.supervised == (encoded.weights > 0).sum()
