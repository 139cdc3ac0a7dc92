"""Turns under other names: `conversation` of role/content (LMSYS, WildChat), `prompt` as turns (TRL), lists of texts
that take turns (UltraChat's `data`, `dialog`), and rows that are such a list themselves."""

from collections.abc import Mapping
from typing import Any

from curator.io.adapters.base import (
    BARE,
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
    restore_object,
    split_trace,
    text_of,
    whole_content,
)
from curator.io.adapters.openai import messages_of, messages_text
from curator.io.adapters.shape import TURNS, items_of, scalar_of
from curator.io.adapters.sharegpt import tools_of, tools_text, turns_of, turns_text

_LISTS = ("conversation", "dialog", "dialogue", "data")
_REPLIES = ("completion", "response", "answer")
_TAGS = {"teacher": "model", "original_id": "conversation_id"}


def _list_of(names: frozenset[str]) -> str | None:
    if names == {BARE}:
        return BARE
    name = next((name for name in _LISTS if name in names), None)
    # `data` says nothing of what it holds: only a row without anything else is believed.
    return None if name == "data" and names - {"id", "data"} else name


def _takes(names: frozenset[str]) -> bool:
    if names & (TURNS | {"instruction", "question", "summary", "label", "reward_model"}):
        return False
    return "prompt" in names or _list_of(names) is not None


def _fits(fields: Fields) -> bool:
    name = "prompt" if "prompt" in fields else _list_of(frozenset(fields)) or ""
    if kind_of(fields[name]) != "list" or not (items := items_of(fields[name])):
        return False
    if kind_of(items[0]) == "text":
        return name != "prompt"
    return kind_of(items[0]) == "object" and (b'"role"' in bytes(items[0]) or b'"from"' in bytes(items[0]))


def _convert(fields: Fields) -> Draft:
    form: dict[str, object] = {"keys": list(fields)}
    if "prompt" in fields:
        messages, form["written"] = messages_of(fields, "prompt")
        reply = next((name for name in _REPLIES if name in fields and kind_of(fields[name]) != "null"), None)
        used: tuple[str, ...] = ("prompt",) if reply is None else ("prompt", reply)
        if reply is not None and kind_of(fields[reply]) == "list":
            replies, form["reply"] = messages_of(fields, reply)
            form["replies"] = len(replies)
            messages = [*messages, *replies]
        elif reply is not None:
            text, is_raw = scalar_of(fields, reply)
            messages = [*messages, split_trace(Message("assistant", text))]
            form["reply"] = "raw" if is_raw else "text"
    else:
        name = _list_of(frozenset(fields)) or ""
        used = (name,)
        messages, form["written"] = _turns(fields, name)
        if form["written"] != "texts" and b'"from"' in bytes(items_of(fields[name])[0]):
            form["from"] = True
    tools, tools_form = tools_of(fields)
    used = (*used, "tools") if "tools" in fields else used
    kind = "sft" if any(message.role == "assistant" for message in messages) else "prompt"
    draft = Draft(messages, kind=kind, tools=tools, used=used, form={**form, **tools_form})
    tags: dict[str, list[str]] = {}
    for column, name in _TAGS.items():
        if name in fields and kind_of(fields[name]) == "text":
            draft.metadata = {**draft.metadata, column: text_of(fields, name) or ""}
            draft.used = (*draft.used, name)
            tags[column] = [name, "text"]
    if tags:
        draft.form["tags"] = tags
    return metadata_of(fields, draft)


def _restore(record: Mapping[str, Any]) -> str:
    form = form_of(record)
    messages = list(record["messages"] or [])
    texts = {"tools": tools_text(record, form)}
    for column, (name, _) in form.get("tags", {}).items():
        texts[name] = json_text(record["metadata"][column])
    name = "prompt" if "prompt" in form["keys"] else _list_of(frozenset(form["keys"])) or ""
    if "reply" in form:
        reply = next(name for name in _REPLIES if name in form["keys"])
        border = len(messages) - form.get("replies", 1)
        messages, replies = messages[:border], messages[border:]
        if not messages or not replies:
            raise Unrestorable("turns are missing")
        is_list = "replies" in form
        text = None if is_list else whole_content(replies[0])
        texts[reply] = messages_text(replies, form["reply"]) if is_list else json_text(text)
        if form["reply"] == "raw":
            texts[reply] = text or "null"
    if form["written"] == "texts":
        texts[name] = json_text([whole_content(message) for message in messages])
    else:
        texts[name] = (turns_text if "from" in form else messages_text)(messages, form["written"])
    return texts[BARE] if name == BARE else restore_object(record, form, texts)


def _turns(fields: Fields, name: str) -> tuple[list[Message], object]:
    items = items_of(fields[name])
    if kind_of(items[0]) == "text":
        texts = [text_of({name: item}, name) for item in items]
        roles = ("user", "assistant")
        return [split_trace(Message(roles[index % 2], text)) for index, text in enumerate(texts)], "texts"
    if any(kind_of(item) != "object" for item in items):
        raise BadRow(f"wrong type: {name} holds what is no turn")
    return turns_of(fields, name) if b'"from"' in bytes(items[0]) else messages_of(fields, name)


ADAPTER = Adapter(
    "chats",
    _takes,
    _convert,
    '{"conversation": [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}], "model": "m"}',
    fits=_fits,
    restore=_restore,
)
