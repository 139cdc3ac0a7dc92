"""ShareGPT form: `conversations` of from/value turns; tool calls are turns of their own."""

from collections.abc import Mapping
from typing import Any

from curator.io.adapters.base import json_text, number_text, object_text
from curator.io.export.base import Record, Rendered, Target, left_over, require_turns, text_with_trace, turns_left

_NAMES = {"user": "human", "assistant": "gpt", "tool": "observation"}


def render(record: Record) -> Rendered:
    messages = require_turns(record)
    turns = [text for message in messages for text in _turns(message)]
    fields = {"conversations": f"[{','.join(turns)}]"}
    if record["tools"] is not None:
        fields["tools"] = json_text(record["tools"])
    lost = turns_left(messages, ("name", "tool_call_id", "images")) | left_over(record, "tools")
    return Rendered(fields, lost)


def _turns(message: Mapping[str, Any]) -> list[str]:
    """A message as one turn; an answer that also calls a tool as two."""
    text, calls = text_with_trace(message), message["tool_calls"]
    values = [] if calls is not None and not text else [(_NAMES.get(message["role"], message["role"]), text)]
    if calls is not None:
        values.append(("function_call", calls))
    weight = {} if message["weight"] is None else {"weight": number_text(message["weight"])}
    return [object_text({"from": json_text(name), "value": json_text(value)} | weight) for name, value in values]


TARGET = Target("sharegpt", "conversations of from/value turns", frozenset({"sharegpt"}), render)
