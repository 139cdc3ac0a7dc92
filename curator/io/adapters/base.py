"""What an adapter makes of a raw row, and the pieces that all adapters share."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

Fields = Mapping[str, msgspec.Raw]
"""A raw row: top-level field to its JSON text as it came."""
BARE = "\0"
"""The name under which a row that is a text or a list of turns, not an object, is read."""

OF_ROW = ""
"""The group of a row's own records: an adapter does not know which row it reads."""


class BadRow(Exception):
    """The row cannot become a record; the text is `reason: detail` and goes to quarantine with the row."""


class Message(msgspec.Struct, gc=False):
    """One turn, as in the record's `messages`."""

    role: str
    content: str | None = None
    reasoning: str | None = None
    tool_calls: str | None = None
    tool_call_id: str | None = None
    name: str | None = None
    wrap: dict[str, str] | None = None
    weight: float | None = None
    images: list[dict[str, Any]] | None = None
    """As adapters leave them, see `curator.io.adapters.images`; as records have them: sha256, mime, offset."""


class Draft(msgspec.Struct, gc=False):
    """What an adapter reads out of a raw row; ingest adds id, hash and provenance."""

    messages: list[Message]
    kind: str = "sft"
    group: str | None = None
    """Ties the records of one prompt, ranking or tree; the builder puts `<source>/<file>#` in front. `OF_ROW` is the
    row's number."""
    tools: str | None = None
    rejected: list[Message] | None = None
    verifier: tuple[str, str] | None = None
    """How an answer can be checked: kind (exact, math, tests, format, schema) and payload (JSON text)."""
    metadata: dict[str, str | bool] = {}
    loss_weight: float | None = None
    used: tuple[str, ...] = ()
    """Top-level fields that found a place; every other one goes to `extra`."""
    left: dict[str, str] = {}
    """Parts of used fields that found none, as field to JSON text; they go to `extra` too."""
    form: dict[str, Any] = {}
    """What export needs to restore the source object."""
    issues: tuple[str, ...] = ()
    """Short names of what is odd, for `metadata.turn_issues`, besides what ingest finds by itself."""


@dataclass(frozen=True)
class Adapter:
    """Raw rows of one family. `takes` looks at the field names alone, so a file may mix families."""

    name: str
    takes: Callable[[frozenset[str]], bool]
    convert: Callable[[Fields], Draft | list[Draft]]
    """A row may hold several records (a ranking, a tree): they get the ids `#row.0`, `#row.1`, ..."""
    example: str
    """A smallest raw row, for help and tests."""
    fits: Callable[[Fields], bool] | None = None
    """Asked after `takes` where names do not tell a family; it looks at values."""
    restore: Callable[[Mapping[str, Any]], str] | None = None
    """The JSON text of the source object, from a record. Raises Unrestorable when the record is no longer one that its
    form describes."""
    by_shape: bool = False
    """Whether a row without marks (`io.issues.MARKS`) is read by the names and kinds of its fields alone, and never by
    the characters of its texts but for roles. Such rows are read by a kernel (`io/columns.py`)."""
    begin: Callable[[], Callable[[Fields], Draft | list[Draft]]] | None = None
    """For rows that build on rows before them: called once for each file, gives what converts its rows in order. A
    BadRow that it raises must leave it as it was. Such a file is read by one task, however large it is."""
    mark: bytes = b""
    """Bytes that every such file holds, by which it is known before it is read."""


class Unrestorable(ValueError):
    """The source object cannot be made again from the record; the text says why."""


_text_or_null = msgspec.json.Decoder(str | None)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_rows = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_any = msgspec.json.Decoder()


def raw_text(raw: msgspec.Raw) -> str:
    """The JSON text of a value, as it came."""
    return bytes(raw).decode()


def kind_of(raw: msgspec.Raw) -> str:
    """What a JSON value is: object, list, text, number, true/false or null."""
    return {"{": "object", "[": "list", '"': "text", "t": "true/false", "f": "true/false", "n": "null"}.get(
        raw_text(raw)[:1], "number"
    )


def text_of(fields: Fields, name: str, required: bool = True) -> str | None:
    """The text in a field; null or absent is None. Raises BadRow when it is anything else, or absent and required."""
    raw = fields.get(name)
    if raw is None:
        if required:
            raise BadRow(f"no field: {name}")
        return None
    try:
        value = _text_or_null.decode(raw)
    except msgspec.ValidationError:
        raise BadRow(f"wrong type: {name} is {kind_of(raw)}, expected text") from None
    if value is None and required:
        raise BadRow(f"wrong type: {name} is null, expected text")
    return value


def fields_of(raw: msgspec.Raw, name: str) -> dict[str, msgspec.Raw]:
    """The fields of an object, each as JSON text."""
    try:
        fields = _fields.decode(raw)
    except msgspec.ValidationError:
        raise BadRow(f"wrong type: {name} is {kind_of(raw)}, expected object") from None
    refuse_repeats(bytes(raw), [fields])
    return fields


def rows_of(raw: msgspec.Raw, name: str) -> list[dict[str, msgspec.Raw]]:
    """The objects of a list, each as field to JSON text."""
    try:
        rows = _rows.decode(raw)
    except msgspec.ValidationError:
        raise BadRow(f"wrong type: {name} is {kind_of(raw)}, expected a list of objects") from None
    refuse_repeats(bytes(raw), rows)
    return rows


_ESCAPED_KEY = re.compile(rb'\\.[^"\\]*"\s*:', re.DOTALL)


def refuse_repeats(text: bytes, objects: Sequence[Mapping[str, Any]]) -> None:
    """Raise BadRow when an object names a key twice: the decoder has kept the last one and lost the first.

    `objects` is what was decoded from `text`, one object or a list of them. Counting quoted keys rules most rows out,
    unless a key is written with escapes, which makes one name of two spellings.
    """
    names = set().union(*objects)
    if sum(text.count(b'"%b"' % name.encode()) for name in names) <= sum(map(len, objects)) and not (
        b"\\" in text and _ESCAPED_KEY.search(text)
    ):
        return
    # Objects as tuples of pairs, so that nothing is lost; numbers as text, since Python limits the digits of an int.
    parsed = json.loads(text, object_pairs_hook=tuple, parse_int=str, parse_float=str)
    for pairs in [parsed] if isinstance(parsed, tuple) else parsed:
        keys = [key for key, _ in pairs]
        if len(set(keys)) < len(keys):
            raise BadRow(f"key twice: {next(key for key in keys if keys.count(key) > 1)}")


def value_of(raw: msgspec.Raw) -> Any:
    """The decoded value."""
    return _any.decode(raw)


_LARGEST_FLOAT32 = 3.4028234663852886e38


def weight_of(fields: Fields, name: str = "weight") -> float | None:
    """The loss weight of a turn, which fits a float32; null or absent is None."""
    raw = fields.get(name)
    if raw is None or kind_of(raw) == "null":
        return None
    try:
        if kind_of(raw) == "number" and abs(weight := float(value_of(raw))) <= _LARGEST_FLOAT32:
            return weight
    except (msgspec.ValidationError, OverflowError):
        pass
    raise BadRow(f"wrong type: weight of a turn is {raw_text(raw)[:40]}, expected a number")


# Known roles in the wild and ours. A role that is not here keeps its own name, and the record says `unknown_role`.
ROLE_NAMES = {
    "user": "user",
    "human": "user",
    "User": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "chatgpt": "assistant",
    "bot": "assistant",
    "Assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "observation": "tool",
    "function": "tool",
    "function_response": "tool",
    "function_call": "assistant",
    "tool_call": "assistant",
}


def role_of(name: str) -> str:
    """The role of a turn by the name it came with; a name that is not in the table is never guessed at."""
    return ROLE_NAMES.get(name, name)


TRACE_MARKS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<Thought>", "</Thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
)
"""How reasoning is marked inside an answer. What stands behind (`<Output>`, `<|begin_of_solution|>`) is content."""
_OPENING = re.compile(r"\s*(" + "|".join(re.escape(mark) for mark, _ in TRACE_MARKS) + ")")
_TRACES = {
    opening: re.compile(rf"(\s*{re.escape(opening)}\s*)(.*?)(\s*{re.escape(closing)}\s*)", re.DOTALL)
    for opening, closing in TRACE_MARKS
}
_CLOSING = dict(TRACE_MARKS)


def split_trace(message: Message) -> Message:
    """Move a reasoning trace that opens the answer (`<think>...</think>`, once) into `reasoning`.

    The marks with their white space stay in `wrap`, so open + reasoning + close + content is the text that came.
    Anything that does not match exactly stays inline.
    """
    text = message.content
    if text is None or message.reasoning is not None or message.role != "assistant":
        return message
    opening = _OPENING.match(text)
    if opening is None or text.count(opening[1]) != 1 or text.count(_CLOSING[opening[1]]) != 1:
        return message
    match = _TRACES[opening[1]].match(text)
    if match is None or not match[2]:
        return message
    message.reasoning = match[2]
    message.wrap = {"open": match[1], "close": match[3]}
    message.content = text[match.end() :]
    return message


def metadata_of(fields: Fields, draft: Draft, name: str = "metadata") -> Draft:
    """Take the person's own tags: the object in `metadata`, and a row's `id`.

    Values that do not fit a metadata column (its type, or no such column) stay in `extra` verbatim, and the whole
    object's key order in `form`.
    """
    from curator.schema.record import METADATA_FIELDS

    # A tag that the adapter took from another field stays; the second is then left in `extra`.
    if "id" in fields and "id" not in draft.used and "original_id" not in draft.metadata:
        raw = fields["id"]
        kind = kind_of(raw)
        if kind in ("text", "number"):
            draft.metadata = {**draft.metadata, "original_id": value_of(raw) if kind == "text" else raw_text(raw)}
            draft.used = (*draft.used, "id")
            draft.form = {**draft.form, "id": kind}
    if name in fields and kind_of(fields[name]) == "object":
        inner = fields_of(fields[name], name)
        taken: dict[str, str | bool] = {}
        for key, raw in inner.items():
            wanted = METADATA_FIELDS.get(key)
            if wanted is None or key in draft.metadata or key in ("turn_issues", "split", "original_id"):
                continue
            kind = kind_of(raw)
            if kind == "true/false" and key == "reasoning_trace" or kind == "text" and key != "reasoning_trace":
                taken[key] = value_of(raw)
        left = {key: raw_text(raw) for key, raw in inner.items() if key not in taken}
        draft.metadata = {**draft.metadata, **taken}
        draft.used = (*draft.used, name)
        draft.form = {**draft.form, name: list(inner)}
        if left:
            draft.left = {**draft.left, name: object_text(left)}
    return draft


def object_text(parts: Mapping[str, str]) -> str:
    """A JSON object from keys and the JSON text of their values."""
    return "{" + ",".join(f"{msgspec.json.encode(key).decode()}:{text}" for key, text in parts.items()) + "}"


# --- turns: what is unusual about how they were written, and back ---------------------------------------------------


def number_text(weight: float) -> str:
    """A float32 as JSON: whole numbers without a point, others with the fewest digits that give it again."""
    return str(int(weight)) if weight.is_integer() and abs(weight) < 1 << 24 else str(np.float32(weight))


def turn_form(fields: Fields, standard: Sequence[str], left: Mapping[str, str]) -> dict[str, Any]:
    """What restoring a turn needs beside its message: an unusual key order, and fields without a place of their own."""
    form: dict[str, Any] = {}
    if list(fields) != list(standard):
        form["keys"] = list(fields)
    if left:
        form["left"] = left
    return form


def weight_left(fields: Fields, weight: float | None, name: str = "weight") -> dict[str, str]:
    """The text of a weight whose digits a float32 would not give again."""
    if weight is None or raw_text(fields[name]) == number_text(weight):
        return {}
    return {name: raw_text(fields[name])}


def turns_form(
    messages: Sequence[Message], names: Sequence[str], forms: Sequence[dict[str, Any]], common: Mapping[str, str]
) -> dict[str, Any]:
    """The part of a form that says how turns were written; empty where nothing is unusual.

    `roles` maps roles to the names they came with where those are not `common`, or `names` lists the name of every
    turn when one role has two; `turn_keys` is a key order that all turns share, `turns` the rest by number.
    """
    form: dict[str, Any] = {}
    roles: dict[str, str] = {}
    for message, name in zip(messages, names, strict=True):
        key = role_key(message.role, message.tool_calls)
        if roles.setdefault(key, name) != name:
            form["names"] = list(names)
            break
    else:
        if unusual := {key: name for key, name in sorted(roles.items()) if name != common.get(key, key)}:
            form["roles"] = unusual
    first = forms[0].get("keys")
    if first is not None and all(turn.get("keys") == first for turn in forms):
        form["turn_keys"] = first
        forms = [{key: value for key, value in turn.items() if key != "keys"} for turn in forms]
    if turns := {str(index): turn for index, turn in enumerate(forms) if turn}:
        form["turns"] = turns
    return form


def role_key(role: str, tool_calls: str | None) -> str:
    """What names are kept under: the role, or `call` for an assistant's call, which has a name where it is a turn."""
    return "call" if role == "assistant" and tool_calls is not None else role


def turn_name(message: Mapping[str, Any], index: int, form: Mapping[str, Any], common: Mapping[str, str]) -> str:
    """The role name that a turn came with."""
    names = form.get("names")
    if names is not None and index < len(names):
        return str(names[index])
    key = role_key(message["role"], message["tool_calls"])
    return str(form.get("roles", {}).get(key) or common.get(key, key))


def whole_content(message: Mapping[str, Any]) -> str | None:
    """The text of a turn, a trace that was split out of it back in its place."""
    wrap = message["wrap"]
    if wrap is None:
        content: str | None = message["content"]
        return content
    return f"{wrap['open'] or ''}{message['reasoning'] or ''}{wrap['close'] or ''}{message['content'] or ''}"


def json_text(value: Any) -> str:
    """A value as JSON text."""
    return msgspec.json.encode(value).decode()


def object_in_order(keys: Sequence[str], texts: Mapping[str, str]) -> str:
    """A JSON object with these keys in this order. Raises Unrestorable when one has no text."""
    missing = [key for key in keys if key not in texts]
    if missing:
        raise Unrestorable(f"nothing tells what {missing[0]} was")
    return object_text({key: texts[key] for key in keys})


def form_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """How the source wrote a record. Where a repair changed its turns, what was said turn by turn is left out."""
    text = (record["provenance"] or {}).get("form")
    form: dict[str, Any] = json.loads(text) if text else {}
    if "keys" not in form:
        raise Unrestorable("nothing tells how its source was written")
    if "repair" in form:
        form = {key: value for key, value in form.items() if key not in ("turns", "names", "no_space")}
    return form


def restore_object(record: Mapping[str, Any], form: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """The source object: `texts` are its own fields; tags, declared fields and `extra` are put back beside them."""
    tags = record["metadata"] or {}
    known = dict(texts)
    rest = _fields.decode(record["extra"]) if record["extra"] else {}
    extra = {name: raw_text(raw) for name, raw in rest.items()}
    if form.get("id") == "number":
        known["id"] = tags["original_id"]
    elif form.get("id") == "text":
        known["id"] = json_text(tags["original_id"])
    inner = form.get("metadata")
    if inner is not None:
        own = _fields.decode(rest["metadata"]) if "metadata" in rest else {}
        left = {key: raw_text(raw) for key, raw in own.items()}
        extra.pop("metadata", None)
        known["metadata"] = object_in_order(inner, {key: json_text(tags.get(key)) for key in inner} | left)
    for name in form.get("declared", ()):
        known[name] = json_text(tags.get(name))
    known |= form.get("numbers", {})
    return object_in_order(form["keys"], known | extra)
