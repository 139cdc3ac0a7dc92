"""Rows told by a table: which field is the question, the answer, a tag or the check; and the way back to the row."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from curator.io.adapters.base import (
    OF_ROW,
    BadRow,
    Draft,
    Fields,
    Message,
    Unrestorable,
    kind_of,
    metadata_of,
    object_text,
    raw_text,
    split_trace,
    text_of,
    value_of,
)
from curator.io.adapters.joined import BREAK, breaks_before, cut

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])

TURNS = frozenset({"messages", "conversations", "chosen", "rejected"})
"""Names that say that a row has turns of its own: no table row describes it."""


@dataclass(frozen=True)
class Shape:
    """What the fields of a row are. A field that is not named here stays in `extra`."""

    ask: tuple[str, ...]
    """The user turn: these fields with a blank line between; what is null, empty or absent joins nothing."""
    reply: str | None = None
    """The assistant turn; absent or null makes a `prompt`."""
    reasoning: str | None = None
    system: str | None = None
    options: str | tuple[str, ...] | None = None
    """Choices, listed behind the question: a field that holds them, or one field each. They stay in `extra` too."""
    check: str | None = None
    """Kind of verifier."""
    checked: Mapping[str, str] = field(default_factory=dict)
    """Key of the verifier's payload to the field whose JSON text it holds."""
    final: Callable[[str], str | None] | None = None
    """Finds the final answer that stands inside the reply: it becomes `answer` in the payload, as it is written."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Metadata column to field; what is neither text nor number stays in `extra`."""
    kind: str = "sft"


def scalar_of(fields: Fields, name: str) -> tuple[str | None, bool]:
    """A field as text, and whether that is JSON text because it is a number or true/false. Null or absent is None."""
    if name in fields and kind_of(fields[name]) in ("number", "true/false"):
        return raw_text(fields[name]), True
    return text_of(fields, name, required=False), False


def read(fields: Fields, shape: Shape, reply: msgspec.Raw | None = None) -> Draft:
    """The draft of a row. `reply` replaces the field of that name, for rows that hold a list of replies."""
    used: list[str] = []
    turns: dict[str, Any] = {}
    raw_fields: list[str] = []
    form: dict[str, Any] = {"keys": list(fields), "fields": turns}

    def taken(name: str | None, turn: str) -> str | None:
        if name is None or name not in fields:
            return None
        text, is_raw = scalar_of(fields, name)
        if text is not None:
            used.append(name)
            turns[turn] = name
            if is_raw:
                raw_fields.append(name)
        return text

    messages: list[Message] = []
    system = taken(shape.system, "system")
    if system is not None:
        messages.append(Message("system", system))
    messages.append(Message("user", _asked(fields, shape, used, form)))
    answer: str | None
    if reply is not None and shape.reply is not None:
        answer, is_raw = scalar_of({shape.reply: reply}, shape.reply)
        used.append(shape.reply)
        turns["assistant"] = shape.reply
        if is_raw:
            raw_fields.append(shape.reply)
    else:
        answer = taken(shape.reply, "assistant")
    reasoning = taken(shape.reasoning, "reasoning") if answer is not None else None
    if answer is not None:
        message = Message("assistant", answer, reasoning=reasoning)
        messages.append(message if reasoning is not None else split_trace(message))
    if raw_fields:
        form["raw"] = raw_fields
    draft = Draft(messages, kind=shape.kind if answer is not None else "prompt")
    _check(fields, shape, answer, draft, used, form)
    _tag(fields, shape, draft, used, form)
    draft.used = tuple(used)
    draft.form = form
    return metadata_of(fields, draft)


def _asked(fields: Fields, shape: Shape, used: list[str], form: dict[str, Any]) -> str:
    parts: list[tuple[str, str]] = []
    for name in shape.ask:
        text, is_raw = scalar_of(fields, name)
        if is_raw:
            raise BadRow(f"wrong type: {name} is {kind_of(fields[name])}, expected text")
        if text or (text is not None and len(shape.ask) == 1):
            parts.append((name, text))
    if not parts:
        raise BadRow(f"no prompt: {' and '.join(shape.ask)} " + ("is" if len(shape.ask) == 1 else "are") + " empty")
    names = [name for name, _ in parts]
    used += names
    form["fields"]["user"] = names
    # The turn is cut again at these blank lines; most parts hold none.
    text = parts[-1][1]
    breaks: list[int] = []
    for _, before in reversed(parts[:-1]):
        text = f"{before}{BREAK}{text}"
        breaks.insert(0, breaks_before(text, len(before)))
    if any(breaks):
        form["breaks"] = breaks
    if shape.options is not None:
        text += shown_options(fields, shape.options)
        form["options"] = shape.options
    return text


_LETTERED = re.compile(r"\s*\(?[A-Z0-9][).:]")


def shown_options(fields: Fields, options: str | Sequence[str]) -> str:
    """Choices as lines behind a question, with letters when they have none; nothing when they are not texts."""
    if not isinstance(options, str):
        return "".join(f"\n{name}. {scalar_of(fields, name)[0]}" for name in options)
    if options not in fields:
        return ""
    value = value_of(fields[options])
    if isinstance(value, str):
        return f"\n{value}" if value else ""
    labels: list[Any] = []
    if isinstance(value, dict):  # {"text": [...], "label": [...]}, or letter to text
        if isinstance(value.get("text"), list) and isinstance(value.get("label"), list):
            labels, value = value["label"], value["text"]
        else:
            labels, value = list(value), list(value.values())
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        return ""
    if len(labels) != len(value):
        labels = [chr(ord("A") + index) if index < 26 else str(index) for index in range(len(value))]
        if all(_LETTERED.match(text) for text in value):
            return "".join(f"\n{text}" for text in value)
    return "".join(f"\n{label}. {text}" for label, text in zip(labels, value, strict=True))


def _check(
    fields: Fields, shape: Shape, answer: str | None, draft: Draft, used: list[str], form: dict[str, Any]
) -> None:
    if shape.check is None:
        return
    payload = {
        key: raw_text(fields[name])
        for key, name in shape.checked.items()
        if name in fields and kind_of(fields[name]) != "null"
    }
    checked = {key: shape.checked[key] for key in payload if shape.checked[key] not in used}
    if not payload and shape.final is not None and answer is not None:
        final = shape.final(answer)
        if final is not None:
            payload["answer"] = json_text(final)
    if payload:
        draft.verifier = (shape.check, object_text(payload))
    if checked:
        form["check"] = checked
        used += checked.values()


def _tag(fields: Fields, shape: Shape, draft: Draft, used: list[str], form: dict[str, Any]) -> None:
    tags: dict[str, list[str]] = {}
    for column, name in shape.tags.items():
        if name not in fields or name in used or column in draft.metadata:
            continue
        text, is_raw = scalar_of(fields, name) if kind_of(fields[name]) in ("text", "number") else (None, False)
        if text is not None:
            draft.metadata = {**draft.metadata, column: text}
            used.append(name)
            tags[column] = [name, "number" if is_raw else "text"]
    if tags:
        form["tags"] = tags


def json_text(text: str) -> str:
    """A text as JSON."""
    return msgspec.json.encode(text).decode()


# --- rows that hold a list of replies -------------------------------------------------------------------------------


def read_each(fields: Fields, shape: Shape, beside: tuple[str, ...] = ()) -> Draft | list[Draft]:
    """One draft for each reply when the reply is a list, tied as a group.

    Lists of the same length in the fields `beside` are dealt out with it: each record's `extra` has its own item.
    """
    if shape.reply is None or shape.reply not in fields or kind_of(fields[shape.reply]) != "list":
        return read(fields, shape)
    replies = items_of(fields[shape.reply])
    if not replies:
        rest = {name: raw for name, raw in fields.items() if name != shape.reply}
        draft = read(rest, shape)
        draft.form = {**draft.form, "keys": list(fields)}
        return draft
    lists = {
        name: items
        for name in beside
        if name in fields and kind_of(fields[name]) == "list" and len(items := items_of(fields[name])) == len(replies)
    }
    drafts = []
    for index, reply in enumerate(replies):
        if kind_of(reply) == "null":
            raise BadRow(f"wrong type: {shape.reply} holds null, expected texts")
        draft = read(fields, shape, reply)
        draft.group = OF_ROW
        dealt = [name for name in lists if name not in draft.used]
        draft.used = (*draft.used, *dealt)
        draft.left = {**draft.left, **{name: raw_text(lists[name][index]) for name in dealt}}
        draft.form = {**draft.form, "part": [index, len(replies)], "dealt": dealt}
        drafts.append(draft)
    return drafts


_items = msgspec.json.Decoder(list[msgspec.Raw])


def items_of(raw: msgspec.Raw) -> list[msgspec.Raw]:
    """The items of a list, each as JSON text."""
    return _items.decode(raw)


def holds_replies(raw: msgspec.Raw) -> bool:
    """Whether a value is a reply, or a list of replies: texts, numbers, nothing nested."""
    values = items_of(raw) if kind_of(raw) == "list" else [raw]
    return not any(kind_of(value) in ("list", "object") for value in values)


# --- the way back ---------------------------------------------------------------------------------------------------


def restore(record: Mapping[str, Any]) -> str:
    """The JSON text of the row that a record was read from. Raises Unrestorable for one of several records of a row."""
    form = json.loads(record["provenance"]["form"])
    if "part" in form:
        raise Unrestorable("it is one of several records of its row")
    return in_order(form["keys"], restored_values(record, form))


def in_order(keys: Sequence[str], values: Mapping[str, str]) -> str:
    """A JSON object with these keys in this order. Raises Unrestorable when one has no value."""
    missing = [key for key in keys if key not in values]
    if missing:
        raise Unrestorable(f"nothing tells what {missing[0]} was")
    return object_text({key: values[key] for key in keys})


def restore_group(records: list[Mapping[str, Any]]) -> str:
    """The JSON text of a row that gave several records, in their order."""
    forms = [json.loads(record["provenance"]["form"]) for record in records]
    rows = [restored_values(record, form) for record, form in zip(records, forms, strict=True)]
    lists = [*forms[0]["dealt"], forms[0]["fields"]["assistant"]]
    values = {**rows[0], **{name: "[" + ",".join(row[name] for row in rows) + "]" for name in lists}}
    return in_order(forms[0]["keys"], values)


def extra_of(record: Mapping[str, Any]) -> dict[str, str]:
    """The fields in `extra`, each as JSON text."""
    extra = record["extra"]
    return {} if extra is None else {name: raw_text(raw) for name, raw in _fields.decode(extra).items()}


def restored_tags(record: Mapping[str, Any], form: Mapping[str, Any]) -> dict[str, str]:
    """Field to JSON text, for what is in `extra` and what became tags."""
    values, metadata = extra_of(record), record["metadata"]
    for column, (name, kind) in form.get("tags", {}).items():
        values[name] = metadata[column] if kind == "number" else json_text(metadata[column])
    if "id" in form:
        values["id"] = metadata["original_id"] if form["id"] == "number" else json_text(metadata["original_id"])
    if "metadata" in form:
        left = _fields.decode(values["metadata"]) if "metadata" in values else {}
        inner = {key: raw_text(left[key]) if key in left else _json(metadata[key]) for key in form["metadata"]}
        values["metadata"] = object_text(inner)
    return values


def restored_values(record: Mapping[str, Any], form: Mapping[str, Any]) -> dict[str, str]:
    """Field to JSON text, for everything that a draft of `read` knows."""
    values, turns = restored_tags(record, form), form["fields"]
    extra = {} if record["extra"] is None else _fields.decode(record["extra"])
    if "tools" in form:
        values[form["tools"]] = record["tools"]
    if "check" in form:
        payload = _fields.decode(record["verifier"]["payload"])
        values |= {name: raw_text(payload[key]) for key, name in form["check"].items()}
    for message in record["messages"]:
        name = turns.get(message["role"])
        if name is None:
            continue
        text = message["content"]
        if message["role"] == "user":
            values |= _asked_again(text, form, extra)
            continue
        if message["reasoning"] is not None:
            if "reasoning" in turns:
                name_of_trace, trace = turns["reasoning"], message["reasoning"]
                values[name_of_trace] = trace if name_of_trace in form.get("raw", ()) else json_text(trace)
            else:
                text = f"{message['wrap']['open']}{message['reasoning']}{message['wrap']['close']}{text}"
        values[name] = text if name in form.get("raw", ()) else json_text(text)
    return values


def _json(value: str | bool) -> str:
    return json.dumps(value) if isinstance(value, bool) else json_text(value)


def _asked_again(text: str, form: Mapping[str, Any], extra: Mapping[str, msgspec.Raw]) -> dict[str, str]:
    """The fields that were joined into the user turn."""
    if "options" in form:
        text = text.removesuffix(shown_options(extra, form["options"]))
    names = form["fields"]["user"]
    values = {}
    for name, breaks in zip(names[:-1], form.get("breaks", [0] * (len(names) - 1)), strict=True):
        first, text = cut(text, breaks)
        values[name] = json_text(first)
    return {**values, names[-1]: json_text(text)}
