"""Preference pairs: a prompt or turns with chosen and rejected, as text, as one turn or as messages."""

from collections.abc import Mapping, Sequence
from typing import Any

from curator.io.adapters.base import (
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    Unrestorable,
    fields_of,
    form_of,
    json_text,
    kind_of,
    metadata_of,
    restore_object,
    rows_of,
    split_trace,
    text_of,
    turns_form,
    whole_content,
)
from curator.io.adapters.openai import MESSAGE_NAMES, message_of, message_text, messages_of, messages_text
from curator.io.adapters.sharegpt import TURN_NAMES, turn, turn_text, turns_of, turns_text


def side_of(fields: Fields, name: str) -> tuple[list[Message], str, dict[str, Any]]:
    """The messages of chosen or rejected, how they were written (text, turn, message, turns or messages), and what is
    unusual about them."""
    raw = fields[name]
    kind = kind_of(raw)
    if kind == "text":
        return [split_trace(Message("assistant", text_of(fields, name)))], "text", {}
    if kind == "object":
        inner = fields_of(raw, name)
        read, written, common = (
            (turn, "turn", TURN_NAMES) if "from" in inner else (message_of, "message", MESSAGE_NAMES)
        )
        message, role, form = read(inner)
        return [message], written, turns_form([message], [role], [form], common)
    if kind == "list":
        rows = rows_of(raw, name)
        if rows and "from" in rows[0]:
            messages, form = turns_of(fields, name)
            return messages, "turns", form
        messages, form = messages_of(fields, name)
        return messages, "messages", form
    raise BadRow(f"wrong type: {name} is {kind}, expected text or turns")


def side_text(messages: Sequence[Mapping[str, Any]], written: str, form: Mapping[str, Any]) -> str:
    """The inverse of `side_of`."""
    if written == "turns":
        return turns_text(messages, form)
    if written == "messages":
        return messages_text(messages, form)
    if len(messages) != 1:
        raise Unrestorable("a side that was one turn has several")
    if written == "text":
        return json_text(whole_content(messages[0]))
    return (turn_text if written == "turn" else message_text)(messages[0], 0, form)


def _same(left: Message, right: Message) -> bool:
    return left == right


def join_sides(prompt: list[Message], chosen: list[Message], rejected: list[Message]) -> tuple[Draft, int]:
    """One draft from a shared prompt and two continuations; turns that both repeat go to the prompt."""
    shared = 0
    limit = min(len(chosen), len(rejected)) - 1
    while shared < limit and _same(chosen[shared], rejected[shared]):
        shared += 1
    messages = [*prompt, *chosen]
    if not any(message.role == "user" for message in messages):
        raise BadRow("no prompt: a preference needs a user turn")
    return Draft(messages, kind="preference", rejected=rejected[shared:]), len(prompt) + shared


def _convert(fields: Fields) -> Draft:
    prompt: list[Message] = []
    used: tuple[str, ...] = ("chosen", "rejected")
    written = "text"
    unusual: dict[str, Any] = {}
    source = None
    # A row may have turns under both names; the second is the prompt then, and the first stays in `extra`.
    for name, read in (("messages", messages_of), ("conversations", turns_of)):
        if name in fields and source is None:
            source, written = name, "messages" if name == "messages" else "turns"
            prompt, unusual = read(fields, name)
    if source is None:
        source = next(name for name in ("prompt", "question", "instruction") if name in fields)
        if kind_of(fields[source]) == "list":
            written = "messages"
            prompt, unusual = messages_of(fields, source)
        else:
            prompt = [Message("user", text_of(fields, source))]
    used = (*used, source)
    system = text_of(fields, "system", required=False)
    if system is not None:
        prompt = [Message("system", system), *prompt]
    if "system" in fields:
        used = (*used, "system")
    chosen, chosen_written, chosen_form = side_of(fields, "chosen")
    rejected, rejected_written, rejected_form = side_of(fields, "rejected")
    draft, shared = join_sides(prompt, chosen, rejected)
    draft.used = used
    draft.form = {"keys": list(fields), "prompt": source, "written": [written, chosen_written, rejected_written]}
    if "system" in fields and system is None:
        draft.form["system"] = None
    if shared > len(prompt):
        draft.form["shared"] = shared - len(prompt)
    if chosen_written in ("turns", "messages"):
        draft.form["chosen_messages"] = len(chosen)
    for name, form in (("prompt", unusual), ("chosen", chosen_form), ("rejected", rejected_form)):
        if form:
            draft.form.setdefault("sides", {})[name] = form
    return metadata_of(fields, draft)


def _restore(record: Mapping[str, Any]) -> str:
    form = form_of(record)
    messages = list(record["messages"] or [])
    texts = {"system": "null"}
    if "system" in form["keys"] and "system" not in form:
        if not messages or messages[0]["role"] != "system":
            raise Unrestorable("its system turn is gone")
        texts["system"] = json_text(messages.pop(0)["content"])
    border = len(messages) - form.get("chosen_messages", 1)
    if border < 0:
        raise Unrestorable("turns are missing")
    prompt, chosen = messages[:border], messages[border:]
    rejected = [*chosen[: form.get("shared", 0)], *(record["rejected"] or [])]
    sides = form.get("sides", {})
    for name, turns, written in zip(
        (form["prompt"], "chosen", "rejected"), (prompt, chosen, rejected), form["written"], strict=True
    ):
        texts[name] = side_text(turns, written, sides.get("prompt" if name == form["prompt"] else name, {}))
    return restore_object(record, form, texts)


def _takes(names: frozenset[str]) -> bool:
    return {"chosen", "rejected"} <= names and bool(
        names & {"prompt", "question", "instruction", "conversations", "messages"}
    )


ADAPTER = Adapter(
    "preference",
    _takes,
    _convert,
    '{"prompt": "1 + 1?", "chosen": "2", "rejected": "3"}',
    restore=_restore,
)
