"""KTO labels: prompt and completion, or turns, with `label` (or `kto_tag`) true or false. Kind `feedback`.

The label stays in `extra` as it came: a record has no column for it, and only a preference objective reads it.
"""

from collections.abc import Mapping
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
    restore_object,
    split_trace,
    text_of,
    whole_content,
)
from curator.io.adapters.joined import BREAK, breaks_before, cut
from curator.io.adapters.openai import messages_of, messages_text
from curator.io.adapters.sharegpt import tools_of, tools_text, turns_of, turns_text

_LABELS = ("label", "kto_tag")


def _label(names: frozenset[str]) -> str | None:
    return next((name for name in _LABELS if name in names), None)


def _fits(fields: Fields) -> bool:
    return kind_of(fields[_label(frozenset(fields)) or ""]) == "true/false"


def _turns(fields: Fields, name: str, role: str) -> tuple[list[Message], str, dict[str, object]]:
    """The messages of a field, how they were written, and what is unusual by turn."""
    kind = kind_of(fields[name])
    if kind == "text":
        return [split_trace(Message(role, text_of(fields, name)))], "text", {}
    if kind == "list":
        messages, unusual = messages_of(fields, name)
        return messages, "messages", unusual
    raise BadRow(f"wrong type: {name} is {kind}, expected text or turns")


def _convert(fields: Fields) -> Draft:
    label = _label(frozenset(fields))
    form: dict[str, object] = {"keys": list(fields), "label": label}
    if "messages" in fields:
        messages, form["written"] = messages_of(fields, "messages")
        used: tuple[str, ...] = ("messages",)
    elif "conversations" in fields:
        messages, form["written"] = turns_of(fields, "conversations")
        used = ("conversations",)
    else:
        reply = next(name for name in ("completion", "response", "output") if name in fields)
        ask = "instruction" if "instruction" in fields else "prompt"
        asked, ask_form, ask_turns = _turns(fields, ask, "user")
        replied, reply_form, reply_turns = _turns(fields, reply, "assistant")
        messages = [*asked, *replied]
        form |= {"pair": [ask, reply], "sides": [ask_form, reply_form]}
        if ask_form == reply_form == "messages":
            form["asked"] = len(asked)
        if ask_turns or reply_turns:
            form["written"] = [ask_turns, reply_turns]
        used = (ask, reply)
        given = text_of(fields, "input", required=False) if ask == "instruction" and ask_form == "text" else None
        if given:
            # As in alpaca rows; the turn is cut here again.
            instruction = asked[0].content or ""
            asked[0].content = f"{instruction}{BREAK}{given}"
            form["breaks"] = breaks_before(asked[0].content, len(instruction))
            used = (*used, "input")
    tools, tools_form = tools_of(fields)
    system = text_of(fields, "system", required=False)
    if "system" in fields:
        used = (*used, "system")
    if system is not None:
        messages.insert(0, Message("system", system))
    elif "system" in fields:
        form["system"] = None
    if "tools" in fields:
        used = (*used, "tools")
    draft = Draft(messages, kind="feedback", tools=tools, used=used, form={**form, **tools_form})
    return metadata_of(fields, draft)


def _restore(record: Mapping[str, Any]) -> str:
    form = form_of(record)
    messages = list(record["messages"] or [])
    texts = {"tools": tools_text(record, form), "system": "null"}
    if "system" in form["keys"] and "system" not in form:
        if not messages or messages[0]["role"] != "system":
            raise Unrestorable("its system turn is gone")
        texts["system"] = json_text(messages.pop(0)["content"])
    if "pair" not in form:
        name = "messages" if "messages" in form["keys"] else "conversations"
        texts[name] = (messages_text if name == "messages" else turns_text)(messages, form.get("written", {}))
        return restore_object(record, form, texts)
    (ask, reply), sides = form["pair"], form["sides"]
    border = 1 if sides[0] == "text" else len(messages) - 1 if sides[1] == "text" else form["asked"]
    turns, written = (messages[:border], messages[border:]), form.get("written", ({}, {}))
    for name, side, part, unusual in zip((ask, reply), sides, turns, written, strict=True):
        if side == "text" and len(part) != 1:
            raise Unrestorable(f"{name} was one turn")
        texts[name] = json_text(whole_content(part[0])) if side == "text" else messages_text(part, unusual)
    if "breaks" in form:
        instruction, given = cut(messages[0]["content"] or "", form["breaks"])
        texts |= {ask: json_text(instruction), "input": json_text(given)}
    return restore_object(record, form, texts)


def _takes(names: frozenset[str]) -> bool:
    if _label(names) is None or names & {"chosen", "rejected"}:
        return False
    pair = bool(names & {"prompt", "instruction"}) and bool(names & {"completion", "response", "output"})
    return pair or bool(names & {"messages", "conversations"})


ADAPTER = Adapter(
    "kto",
    _takes,
    _convert,
    '{"prompt": "1 + 1?", "completion": "3", "label": false}',
    fits=_fits,
    restore=_restore,
)
