"""LLaMA-Factory v1 turns: role and a content list of {type, value} blocks (text, reasoning, tool_call), loss_weight.

In `messages`, or in chosen_messages and rejected_messages. Blocks of other types (image_url, ...) hold no text: they
are in `extra` by turn, and `form` says where each block stood.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from curator.io.adapters.base import (
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    kind_of,
    metadata_of,
    object_text,
    raw_text,
    role_of,
    rows_of,
    text_of,
    weight_of,
)
from curator.io.adapters.preference import join_sides
from curator.io.adapters.shape import extra_of, items_of, json_text
from curator.io.adapters.sharegpt import tools_of

_PAIR = ("chosen_messages", "rejected_messages")
_any = msgspec.json.Decoder()
_others = msgspec.json.Decoder(dict[str, list[msgspec.Raw]])


def _message(fields: Fields) -> tuple[Message, dict[str, Any], list[str]]:
    """A turn, how it was written, and its blocks that hold no text."""
    unknown = [name for name in fields if name not in ("role", "content", "loss_weight")]
    if unknown:
        raise BadRow(f"unknown field in a message: {unknown[0]}")
    name = text_of(fields, "role")
    message = Message(role_of(name))
    message.weight = weight_of({"weight": fields["loss_weight"]}) if "loss_weight" in fields else None
    texts: list[str] = []
    calls: list[str] = []
    others: list[str] = []
    written: list[Any] = []
    for block in rows_of(fields["content"], "content"):
        kind = text_of(block, "type") or ""
        if set(block) != {"type", "value"} or kind not in ("text", "reasoning", "tool_call"):
            others.append(object_text({key: raw_text(raw) for key, raw in block.items()}))
            written.append(kind)
            continue
        value = text_of(block, "value") or ""
        if kind == "reasoning" and message.reasoning is None and not texts and not calls:
            message.reasoning = value
            written.append(kind)
        elif kind == "tool_call" and _is_json(value):
            calls.append(value)
            written.append(kind)
        elif kind == "text":
            texts.append(value)
            written.append([kind, value.count("\n\n")])
        else:
            raise BadRow(f"unreadable block: {kind} is no JSON, or stands behind other blocks")
    if len(texts) == 1:
        written = ["text" if isinstance(kind, list) else kind for kind in written]
    message.content = "\n\n".join(texts) if texts else None
    message.tool_calls = f"[{','.join(calls)}]" if calls else None
    form: dict[str, Any] = {}
    if name != message.role:
        form["role"] = name
    if written != _usual(message):
        form["blocks"] = written
    if "loss_weight" in fields and raw_text(fields["loss_weight"]) != _weight_text(message.weight):
        form["loss_weight"] = raw_text(fields["loss_weight"])
    if list(fields)[:2] != ["role", "content"]:
        form["keys"] = list(fields)
    return message, form, others


def _weight_text(weight: float | None) -> str:
    return "null" if weight is None else f"{weight:.1f}"


def _usual(message: Message) -> list[str]:
    """The blocks of a turn that is written in the common order, one text at most."""
    calls = (
        [] if message.tool_calls is None else ["tool_call"] * len(items_of(msgspec.Raw(message.tool_calls.encode())))
    )
    reasoning = [] if message.reasoning is None else ["reasoning"]
    return [*reasoning, *([] if message.content is None else ["text"]), *calls]


def _calls(text: str | None) -> list[str]:
    return [] if text is None else [raw_text(raw) for raw in items_of(msgspec.Raw(text.encode()))]


def _is_json(text: str) -> bool:
    try:
        _any.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return text == text.strip()


def _messages(fields: Fields, name: str) -> tuple[list[Message], dict[str, Any], dict[str, str]]:
    rows = rows_of(fields[name], name)
    if not rows:
        raise BadRow(f"no turns: {name} is empty")
    read = [_message(row) for row in rows]
    unusual = {str(index): form for index, (_, form, _) in enumerate(read) if form}
    left = {str(index): f"[{','.join(others)}]" for index, (_, _, others) in enumerate(read) if others}
    return [message for message, _, _ in read], unusual, left


def _convert(fields: Fields) -> Draft:
    if "messages" in fields:
        messages, unusual, left = _messages(fields, "messages")
        tools, form = tools_of(fields)
        kind = "sft" if any(message.role == "assistant" for message in messages) else "prompt"
        used = tuple(name for name in ("messages", "tools") if name in fields)
        draft = Draft(messages, kind=kind, tools=tools, used=used, form={"keys": list(fields), **form})
        if unusual:
            draft.form["turns"] = unusual
        if left:
            draft.left = {"messages": object_text(left)}
        return metadata_of(fields, draft)
    sides = [_messages(fields, name) for name in _PAIR]
    draft, shared = join_sides([], sides[0][0], sides[1][0])
    draft.used = _PAIR
    draft.form = {"keys": list(fields), "shared_messages": shared}
    if any(unusual for _, unusual, _ in sides):
        draft.form["turns"] = [unusual for _, unusual, _ in sides]
    draft.left = {name: object_text(left) for name, (_, _, left) in zip(_PAIR, sides, strict=True) if left}
    return metadata_of(fields, draft)


def _fits(fields: Fields) -> bool:
    raw = fields[_PAIR[0] if _PAIR[0] in fields else "messages"]
    if kind_of(raw) != "list" or b'"value"' not in bytes(raw):
        return False
    for item in items_of(raw):
        if kind_of(item) != "object":
            return False
        content = msgspec.json.decode(item, type=dict[str, msgspec.Raw]).get("content")
        if content is None or kind_of(content) != "list" or not (blocks := items_of(content)):
            return False
        if not all(kind_of(block) == "object" and b'"value"' in bytes(block) for block in blocks):
            return False
    return True


def restore(record: Mapping[str, Any]) -> str:
    """The JSON text of a row of `messages`."""
    form = json.loads(record["provenance"]["form"])
    if "shared_messages" in form:
        messages, shared = record["messages"], form["shared_messages"]
        sides = {_PAIR[0]: messages, _PAIR[1]: [*messages[:shared], *record["rejected"]]}
        turns = dict(zip(_PAIR, form.get("turns", [{}, {}]), strict=True))
    else:
        sides, turns = {"messages": record["messages"]}, {"messages": form.get("turns", {})}
    values = extra_of(record)
    for name, messages in sides.items():
        others = _others.decode(values.pop(name, "{}"))
        rows = [
            _written(turn, turns[name].get(str(index), {}), others.get(str(index), []))
            for index, turn in enumerate(messages)
        ]
        values[name] = f"[{','.join(rows)}]"
    if "tools" in form["keys"] and "tools" not in values:
        how = form.get("tools")
        values["tools"] = "null" if how == "null" else json_text(record["tools"]) if how == "text" else record["tools"]
    if "id" in form:
        original = record["metadata"]["original_id"]
        values["id"] = original if form["id"] == "number" else json_text(original)
    return object_text({key: values[key] for key in form["keys"]})


def _written(message: Mapping[str, Any], form: Mapping[str, Any], others: list[msgspec.Raw]) -> str:
    usual = Message(message["role"], message["content"], message["reasoning"], message["tool_calls"])
    calls = (
        []
        if message["tool_calls"] is None
        else [raw_text(raw) for raw in items_of(msgspec.Raw(message["tool_calls"].encode()))]
    )
    pieces = (message["content"] or "").split("\n\n")
    blocks = []
    for kind in form.get("blocks", _usual(usual)):
        if isinstance(kind, list):
            value = "\n\n".join(pieces[: kind[1] + 1])
            pieces = pieces[kind[1] + 1 :]
        elif kind == "text":
            value = "\n\n".join(pieces)
        elif kind == "reasoning":
            value = message["reasoning"]
        elif kind == "tool_call":
            value = calls.pop(0)
        else:
            blocks.append(raw_text(others.pop(0)))
            continue
        blocks.append(
            object_text({"type": json_text(kind[0] if isinstance(kind, list) else kind), "value": json_text(value)})
        )
    parts = {"role": json_text(form.get("role", message["role"])), "content": f"[{','.join(blocks)}]"}
    if message["weight"] is not None or "loss_weight" in form:
        parts["loss_weight"] = form.get("loss_weight", _weight_text(message["weight"]))
    return object_text({key: parts[key] for key in form.get("keys", parts)})


ADAPTER = Adapter(
    "blocks",
    lambda names: "messages" in names and "label" not in names or names.issuperset(_PAIR),
    _convert,
    '{"messages": [{"role": "user", "content": [{"type": "text", "value": "Hi"}]}]}',
    fits=_fits,
    restore=restore,
)
