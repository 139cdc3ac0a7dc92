"""OpenAI messages: role/content turns with tool calls, tool results, names, weights and reasoning_content."""

from collections.abc import Mapping, Sequence
from typing import Any

from curator.io.adapters.base import (
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
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
    weight_left,
    weight_of,
    whole_content,
)
from curator.io.adapters.parts import is_parts, parts_text, refuse_other, take_parts
from curator.io.adapters.sharegpt import tools_of, tools_text

TURNS = "messages"
_TURN_FIELDS = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name", "weight")
_SPELLINGS = {
    "reasoning": ("reasoning_content", "reasoning"),
    "tool_calls": ("tool_calls", "function_call"),
    "weight": ("weight", "loss_weight"),
}
MESSAGE_NAMES = {"call": "assistant"}


def message_of(fields: Fields) -> tuple[Message, str, dict[str, Any]]:
    """A role/content turn as a message, the role name it came with, and what is unusual about how it was written.

    Two spellings of one thing (`reasoning`, `reasoning_content`; `tool_calls`, the older `function_call`; `weight`,
    `loss_weight`) are both taken; where a turn has both, the second stays beside the record, as other fields do.
    """
    name = text_of(fields, "role") or ""
    found = {key: _first(fields, names) for key, names in _SPELLINGS.items()}
    calls = found["tool_calls"]
    expected = {"tool_calls": "list", "function_call": "object"}
    if calls is not None and kind_of(fields[calls]) != expected[calls]:
        article = "a list" if calls == "tool_calls" else "an object"
        raise BadRow(f"wrong type: {calls} is {kind_of(fields[calls])}, expected {article}")
    weight = None if found["weight"] is None else weight_of(fields, found["weight"])
    message = Message(
        role_of(name),
        reasoning=None if found["reasoning"] is None else text_of(fields, found["reasoning"]),
        tool_calls=None if calls is None else raw_text(fields[calls]),
        tool_call_id=text_of(fields, "tool_call_id", required=False),
        name=text_of(fields, "name", required=False),
        weight=weight,
    )
    parts = None
    if "content" in fields and kind_of(fields["content"]) not in ("text", "null"):
        if not is_parts(fields["content"]):
            refuse_other(fields["content"])
        parts = take_parts(message, fields["content"])
    else:
        message.content = text_of(fields, "content", required=False)
    # Of two spellings the one without the value stays as it is, null or not; other fields are null again without help.
    spellings = {other for key, names in _SPELLINGS.items() if found[key] for other in names if other != found[key]}
    placed = {"role", "content", "tool_call_id", "name", *(key for key in found.values() if key)}
    left = {
        key: raw_text(raw)
        for key, raw in fields.items()
        if key not in placed and (key in spellings or kind_of(raw) != "null")
    }
    if found["weight"] is not None:
        left |= weight_left(fields, weight, found["weight"])
    standard = {
        "role": True,
        "content": message.content is not None or parts is not None,
        "reasoning_content": message.reasoning is not None and found["reasoning"] is not None,
        "tool_calls": message.tool_calls is not None and calls is not None,
        "tool_call_id": message.tool_call_id is not None,
        "name": message.name is not None,
        "weight": weight is not None,
    }
    form = turn_form(fields, [key for key in _TURN_FIELDS if standard[key]], left)
    if parts is not None:
        form["parts"] = parts
    elif message.reasoning is None:
        split_trace(message)
    return message, name, form


def _first(fields: Fields, names: Sequence[str]) -> str | None:
    """The first of these fields that is there and not null; a `reasoning` that is no text is none."""
    for name in names:
        if name in fields and kind_of(fields[name]) != "null":
            if name == "reasoning" and kind_of(fields[name]) != "text":
                continue
            return name
    return None


def messages_of(fields: Fields, name: str) -> tuple[list[Message], dict[str, Any]]:
    """The messages in a field, and what is unusual about how they were written."""
    read = [message_of(row) for row in rows_of(fields[name], name)]
    if not read:
        raise BadRow(f"no turns: {name} is empty")
    messages = [message for message, _, _ in read]
    return messages, turns_form(messages, [role for _, role, _ in read], [form for _, _, form in read], MESSAGE_NAMES)


def has_unread_part(form: Mapping[str, Any]) -> bool:
    """Whether the form of some turns holds a part that found no place in the messages."""
    turns = form.get("turns", {}).values()
    return any(isinstance(part, Mapping) and "part" in part for turn in turns for part in turn.get("parts", ()))


def message_text(message: Mapping[str, Any], index: int, form: Mapping[str, Any]) -> str:
    """A message as the role/content turn it was."""
    own = form.get("turns", {}).get(str(index), {})
    parts = own.get("parts", [])
    taken = {part.get("is") for part in parts if isinstance(part, Mapping)}
    has_reasoning = message["reasoning"] is not None and message["wrap"] is None and "reasoning" not in taken
    texts = {
        "role": json_text(turn_name(message, index, form, MESSAGE_NAMES)),
        "content": parts_text(message, parts) if "parts" in own else json_text(whole_content(message)),
        "reasoning_content": json_text(message["reasoning"]) if has_reasoning else "null",
        "tool_calls": message["tool_calls"] if message["tool_calls"] and "tool_call" not in taken else "null",
        "tool_call_id": json_text(message["tool_call_id"]),
        "name": json_text(message["name"]),
        "weight": "null" if message["weight"] is None else number_text(message["weight"]),
    }
    keys = own.get("keys") or form.get("turn_keys") or [key for key in _TURN_FIELDS if texts[key] != "null"]
    for first, second in _SPELLINGS.values():
        texts[second] = texts[first]
    return object_in_order(keys, dict.fromkeys(keys, "null") | texts | own.get("left", {}))


def messages_text(messages: Sequence[Mapping[str, Any]], form: Mapping[str, Any]) -> str:
    """Messages as the list of role/content turns they were."""
    return "[" + ",".join(message_text(message, index, form) for index, message in enumerate(messages)) + "]"


def _convert(fields: Fields) -> Draft:
    messages, unusual = messages_of(fields, TURNS)
    tools, form = tools_of(fields)
    used = tuple(name for name in (TURNS, "tools") if name in fields)
    kind = "sft" if any(message.role == "assistant" for message in messages) else "prompt"
    form = {"keys": list(fields), **form, **unusual}
    issues = ("unread_part",) if has_unread_part(unusual) else ()
    return metadata_of(fields, Draft(messages, kind=kind, tools=tools, used=used, form=form, issues=issues))


def _restore(record: Mapping[str, Any]) -> str:
    form = form_of(record)
    texts = {"tools": tools_text(record, form), TURNS: messages_text(record["messages"] or [], form)}
    return restore_object(record, form, texts)


ADAPTER = Adapter(
    "openai",
    lambda names: TURNS in names and not names & {"chosen", "rejected", "label"},
    _convert,
    '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}',
    restore=_restore,
)
