"""OpenAI form: `messages` of role/content turns, `tools` as JSON."""

from collections.abc import Mapping
from typing import Any

import msgspec

from curator.io.adapters.base import json_text, number_text, object_text, raw_text
from curator.io.export.base import Record, Rendered, Target, left_over, require_turns, text_with_trace, turns_left

_rows = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_row = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any = msgspec.json.Decoder()


def render(record: Record) -> Rendered:
    messages = require_turns(record)
    fields = {"messages": turns_text(messages)}
    places = []
    if record["tools"] is not None and is_json(record["tools"]):
        fields["tools"] = record["tools"]
        places.append("tools")
    return Rendered(fields, lost_in_turns(messages) | left_over(record, *places))


def turns_text(messages: list[Mapping[str, Any]]) -> str:
    """Messages as a list of role/content turns."""
    return f"[{','.join(map(turn_text, messages))}]"


def turn_text(message: Mapping[str, Any]) -> str:
    """A role/content turn; a trace stands in the text if it did, else in `reasoning_content`."""
    is_inline = message["wrap"] is not None
    texts = {"role": json_text(message["role"])}
    texts["content"] = json_text(text_with_trace(message) if is_inline else message["content"])
    if message["reasoning"] is not None and not is_inline:
        texts["reasoning_content"] = json_text(message["reasoning"])
    calls = None if message["tool_calls"] is None else calls_text(message["tool_calls"])
    if calls is not None:
        texts["tool_calls"] = calls
    for name in ("tool_call_id", "name"):
        if message[name] is not None:
            texts[name] = json_text(message[name])
    if message["weight"] is not None:
        texts["weight"] = number_text(message["weight"])
    return object_text(texts)


def calls_text(text: str) -> str | None:
    """Tool calls as the list of objects with `function` that this form has; None when they are no such JSON.

    Arguments that are an object become the text of it, as it stands.
    """
    try:
        calls = _rows.decode(text) if text.lstrip()[:1] == "[" else [_row.decode(text)]
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    return f"[{','.join(map(_call_text, calls))}]"


def _call_text(call: Mapping[str, msgspec.Raw]) -> str:
    texts = {name: raw_text(raw) for name, raw in call.items()}
    if "function" in texts or "name" not in texts:
        return object_text(texts)
    function: dict[str, str] = {name: texts.pop(name) for name in ("name", "arguments") if name in texts}
    if function.get("arguments", '"')[:1] != '"':
        function["arguments"] = json_text(function["arguments"])
    return object_text({"type": '"function"', **texts, "function": object_text(function)})


def lost_in_turns(messages: list[Mapping[str, Any]]) -> dict[str, str]:
    """What role/content turns have no place for: images, and calls that are no JSON."""
    unread = [
        {
            "images": message["images"],
            "tool_calls": message["tool_calls"]
            if message["tool_calls"] is not None and calls_text(message["tool_calls"]) is None
            else None,
        }
        for message in messages
    ]
    return turns_left(unread, ("images", "tool_calls"))


def is_json(text: str) -> bool:
    try:
        _any.decode(text)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return False
    return True


TARGET = Target("messages", "OpenAI messages of role/content turns", frozenset({"openai"}), render)
