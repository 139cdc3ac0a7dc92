"""Alpaca form: instruction, input, output; earlier turns as `history`, pairs of question and answer."""

from curator.io.adapters.base import json_text
from curator.io.export.base import (
    Record,
    Rendered,
    Target,
    Unrenderable,
    left_over,
    require_turns,
    text_with_trace,
    turns_left,
)


def render(record: Record) -> Rendered:
    """Questions and answers in turn, with at most one system text, which is first."""
    messages = require_turns(record)
    system = messages[0]["content"] if messages[0]["role"] == "system" else None
    turns = messages[system is not None :]
    roles = [message["role"] for message in turns]
    if any(message["tool_calls"] is not None or message["role"] == "tool" for message in turns):
        raise Unrenderable("tool calls")
    if not roles or roles[-1] != "assistant":
        raise Unrenderable("no answer at the end")
    if roles != ["user", "assistant"] * (len(roles) // 2):
        raise Unrenderable("questions and answers do not alternate")
    texts = [text_with_trace(message) for message in turns]
    if None in texts:
        raise Unrenderable("a turn without text")
    fields = {} if system is None else {"system": json_text(system)}
    fields |= {"instruction": json_text(texts[-2]), "input": '""', "output": json_text(texts[-1])}
    if len(texts) > 2:
        fields["history"] = json_text([texts[index : index + 2] for index in range(0, len(texts) - 2, 2)])
    lost = turns_left(messages, ("name", "tool_call_id", "weight", "images")) | left_over(record)
    return Rendered(fields, lost)


TARGET = Target("alpaca", "instruction, input, output", frozenset({"alpaca"}), render)
