"""ShareGPT rows: `conversations` of from/value turns, with system, tools, function calls and observations."""

from collections.abc import Mapping, Sequence
from typing import Any

from curator.io.adapters.base import (
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    Unrestorable,
    form_of,
    json_text,
    kind_of,
    metadata_of,
    number_text,
    object_in_order,
    raw_text,
    restore_object,
    role_of,
    rows_of,
    split_trace,
    text_of,
    turn_form,
    turn_name,
    turns_form,
    value_of,
    weight_left,
    weight_of,
    whole_content,
)

TURNS = "conversations"
CALL_NAMES = ("function_call", "tool_call")
TURN_NAMES = {"user": "human", "assistant": "gpt", "call": "function_call", "tool": "observation"}
"""Role names that need no word in `form`."""


def turn(fields: Fields) -> tuple[Message, str, dict[str, Any]]:
    """A from/value turn as a message, the role name it came with, and what is unusual about it."""
    name = text_of(fields, "from") or ""
    value = text_of(fields, "value", required=False)
    weight = weight_of(fields)
    if name in CALL_NAMES:
        message = Message("assistant", None, tool_calls=value, weight=weight)
    else:
        message = split_trace(Message(role_of(name), value, weight=weight))
    left = {key: raw_text(raw) for key, raw in fields.items() if key not in ("from", "value", "weight")}
    left |= weight_left(fields, weight)
    standard = ("from", "value") if weight is None else ("from", "value", "weight")
    return message, name, turn_form(fields, standard, left)


def tools_of(fields: Fields) -> tuple[str | None, dict[str, object]]:
    """Tool schemas as JSON text, and how they were written (as text inside JSON, or as JSON)."""
    if "tools" not in fields:
        return None, {}
    raw = fields["tools"]
    kind = kind_of(raw)
    if kind == "text":
        return value_of(raw), {"tools": "text"}
    if kind == "null":
        return None, {"tools": "null"}
    return raw_text(raw), {}


def tools_text(record: Mapping[str, Any], form: Mapping[str, Any]) -> str:
    """The inverse of `tools_of`."""
    written = form.get("tools")
    if written == "null" or record["tools"] is None:
        return "null"
    return json_text(record["tools"]) if written == "text" else str(record["tools"])


def turns_of(fields: Fields, name: str) -> tuple[list[Message], dict[str, Any]]:
    """The turns in a field, and how they were written."""
    read = [turn(row) for row in rows_of(fields[name], name)]
    if not read:
        raise BadRow(f"no turns: {name} is empty")
    messages = [message for message, _, _ in read]
    return messages, turns_form(messages, [name for _, name, _ in read], [form for _, _, form in read], TURN_NAMES)


def turn_text(message: Mapping[str, Any], index: int, form: Mapping[str, Any]) -> str:
    """A message as the from/value turn it was."""
    own = form.get("turns", {}).get(str(index), {})
    name = turn_name(message, index, form, TURN_NAMES)
    value = message["tool_calls"] if message["tool_calls"] is not None else whole_content(message)
    texts = {"from": json_text(name), "value": json_text(value)}
    standard = ["from", "value"]
    if message["weight"] is not None:
        standard.append("weight")
    texts["weight"] = "null" if message["weight"] is None else number_text(message["weight"])
    return object_in_order(own.get("keys") or form.get("turn_keys") or standard, texts | own.get("left", {}))


def turns_text(messages: Sequence[Mapping[str, Any]], form: Mapping[str, Any]) -> str:
    """Messages as the list of from/value turns they were."""
    return "[" + ",".join(turn_text(message, index, form) for index, message in enumerate(messages)) + "]"


def _convert(fields: Fields) -> Draft:
    messages, unusual = turns_of(fields, TURNS)
    tools, form = tools_of(fields)
    system = text_of(fields, "system", required=False)
    if system is not None:
        messages.insert(0, Message("system", system))
    used = tuple(name for name in (TURNS, "tools", "system") if name in fields)
    kind = "sft" if any(message.role == "assistant" for message in messages) else "prompt"
    form = {"keys": list(fields), **form, **unusual}
    if "system" in fields and system is None:
        form["system"] = None
    return metadata_of(fields, Draft(messages, kind=kind, tools=tools, used=used, form=form))


def _restore(record: Mapping[str, Any]) -> str:
    form = form_of(record)
    messages = list(record["messages"] or [])
    texts = {"tools": tools_text(record, form), "system": "null"}
    if "system" in form["keys"] and "system" not in form:
        if not messages or messages[0]["role"] != "system":
            raise Unrestorable("its system turn is gone")
        texts["system"] = json_text(messages.pop(0)["content"])
    return restore_object(record, form, texts | {TURNS: turns_text(messages, form)})


ADAPTER = Adapter(
    "sharegpt",
    lambda names: TURNS in names and not names & {"chosen", "rejected"},
    _convert,
    '{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."}]}',
    restore=_restore,
)
