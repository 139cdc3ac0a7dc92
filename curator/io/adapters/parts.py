"""Content that is a list of parts: texts are joined, reasoning and calls taken out, and all of it can be put back."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from curator.io.adapters.base import (
    BadRow,
    Fields,
    Message,
    Unrestorable,
    json_text,
    kind_of,
    object_in_order,
    raw_text,
    rows_of,
    text_of,
    whole_content,
)

_list = msgspec.json.Decoder(list[msgspec.Raw])
TEXT_PARTS = frozenset({"text", "input_text", "output_text"})


def is_parts(raw: msgspec.Raw) -> bool:
    """Whether a content is a list of objects."""
    return kind_of(raw) == "list" and all(kind_of(item) == "object" for item in _list.decode(raw))


def content_of(raw: msgspec.Raw) -> tuple[str | None, list[dict[str, Any]], list[Any]]:
    """The text of a list of parts, its images, and the parts without their text.

    A part of the last list is a number (characters of a part `{"type": "text", "text": ...}`), an object (a text part
    written in another way) or, under `part`, the JSON text of a part that is no text and stays out of the record.
    """
    texts: list[str] = []
    kept: list[Any] = []
    for item, part in zip(_list.decode(raw), rows_of(raw, "content"), strict=True):
        name = _text_name(part, TEXT_PARTS)
        if name is None:
            kept.append({"part": raw_text(item)})
            continue
        text = text_of(part, name) or ""
        texts.append(text)
        kept.append(_without_text(part, name, len(text)))
    return ("".join(texts) if texts else None), [], kept


def take_parts(message: Message, raw: msgspec.Raw) -> list[Any]:
    """Give a message the content of a list of parts; reasoning that stands first and calls get their own columns.

    Returns the parts without their text, as `content_of` does; parts of reasoning and calls say so in `is`.
    """
    parts = rows_of(raw, "content")
    types = [_type_of(part) for part in parts]
    if not {"reasoning", "tool_call"} & set(types) or message.reasoning is not None or message.tool_calls is not None:
        message.content, images, kept = content_of(raw)
        message.images = images or None
        return kept
    texts, calls, kept = [], [], []
    for index, (item, part, type_) in enumerate(zip(_list.decode(raw), parts, types, strict=True)):
        name = _text_name(part, TEXT_PARTS | {"reasoning", "tool_call"})
        is_own = type_ == "tool_call" or type_ == "reasoning" and index == 0
        if name is None or type_ == "reasoning" and not is_own:
            kept.append({"part": raw_text(item)})
            continue
        text = text_of(part, name) or ""
        if type_ == "reasoning":
            message.reasoning = text
        elif type_ == "tool_call":
            calls.append(text)
        else:
            texts.append(text)
        kept.append(_without_text(part, name, len(text), type_ if is_own else None))
    message.content = "".join(texts) if texts else None
    message.tool_calls = f"[{','.join(calls)}]" if calls else None
    return kept


def parts_text(message: Mapping[str, Any], kept: Sequence[Any]) -> str:
    """The JSON text of the list of parts that a message was."""
    calls = message["tool_calls"] or ""
    is_taken = any(isinstance(part, Mapping) and part.get("is") == "tool_call" for part in kept)
    # The calls of a list begin behind its bracket.
    places = {"text": 0, "tool_call": 1, "reasoning": 0}
    sources = {"text": whole_content(message) or "", "tool_call": calls, "reasoning": message["reasoning"] or ""}
    texts = []
    for part in kept:
        if isinstance(part, Mapping) and "part" in part:
            texts.append(str(part["part"]))
            continue
        kind = "text" if isinstance(part, int) else part.get("is", "text")
        chars = part if isinstance(part, int) else part["chars"]
        start = places[kind]
        text = json_text(sources[kind][start : start + chars])
        places[kind] = start + chars + (kind == "tool_call")
        if isinstance(part, int):
            texts.append(f'{{"type":"text","text":{text}}}')
        else:
            texts.append(object_in_order(part["keys"], {**part["rest"], part["text"]: text}))
    if places["text"] != len(sources["text"]) or is_taken and places["tool_call"] != len(calls):
        raise Unrestorable("its text is no longer that of its parts")
    return f"[{','.join(texts)}]"


def _type_of(part: Fields) -> str | None:
    return text_of(part, "type", required=False) if "type" in part and kind_of(part["type"]) == "text" else None


def _text_name(part: Fields, types: frozenset[str]) -> str | None:
    """The field that holds the text of a part of these types; None when there is none."""
    if _type_of(part) not in types:
        return None
    return next((name for name in ("text", "value") if name in part and kind_of(part[name]) == "text"), None)


def _without_text(part: Fields, name: str, chars: int, own: str | None = None) -> Any:
    if list(part) == ["type", "text"] and raw_text(part["type"]) == '"text"':
        return chars
    rest = {key: raw_text(value) for key, value in part.items() if key != name}
    kept = {"chars": chars, "text": name, "keys": list(part), "rest": rest}
    return kept if own is None else {"is": own, **kept}


def refuse_other(raw: msgspec.Raw) -> None:
    """Raise BadRow for a content that is neither text nor a list of parts."""
    raise BadRow(f"wrong type: content is {kind_of(raw)}, expected text")
