"""Transcripts: "\\n\\nHuman: ...\\n\\nAssistant: ..." turns in one text, alone or as chosen and rejected."""

import re
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
    restore_object,
    text_of,
    whole_content,
)
from curator.io.adapters.openai import messages_of, messages_text

_TURN = re.compile(r"\n\n(Human|Assistant):")


def parse(text: str) -> list[Message]:
    """Turns of a transcript; joining `\\n\\nRole:` and content gives the text back."""
    pieces = _TURN.split(text)
    if pieces[0] or len(pieces) < 3:
        raise BadRow("not a transcript: it must begin with a blank line and Human: or Assistant:")
    roles = {"Human": "user", "Assistant": "assistant"}
    return [Message(roles[role], content) for role, content in zip(pieces[1::2], pieces[2::2], strict=True)]


def _trim(messages: list[Message]) -> list[Message]:
    """The content without the one space that follows the colon; `form` says when a turn had none."""
    return [Message(message.role, (message.content or "").removeprefix(" ")) for message in messages]


def _no_space(messages: list[Message]) -> list[int]:
    return [index for index, message in enumerate(messages) if not (message.content or "").startswith(" ")]


def _joined(messages: Sequence[Mapping[str, Any]], no_space: Sequence[int]) -> str:
    """The inverse of `parse` and `_trim`, as JSON text."""
    names = {"user": "Human", "assistant": "Assistant"}
    if any(message["role"] not in names for message in messages):
        raise Unrestorable("a transcript has turns of Human and Assistant only")
    return json_text(
        "".join(
            f"\n\n{names[message['role']]}:{'' if index in no_space else ' '}{whole_content(message) or ''}"
            for index, message in enumerate(messages)
        )
    )


def _sides(fields: Fields) -> Draft:
    from curator.io.adapters.preference import join_sides

    form: dict[str, Any] = {"keys": list(fields)}
    if kind_of(fields["chosen"]) == "list":
        chosen, chosen_form = messages_of(fields, "chosen")
        rejected, rejected_form = messages_of(fields, "rejected")
        draft, shared = join_sides([], chosen, rejected)
        form |= {"written": "messages", "shared": shared}
        if chosen_form or rejected_form:
            form["sides"] = [chosen_form, rejected_form]
    else:
        raw_chosen, raw_rejected = parse(text_of(fields, "chosen") or ""), parse(text_of(fields, "rejected") or "")
        draft, shared = join_sides([], _trim(raw_chosen), _trim(raw_rejected))
        form["shared"] = shared
        no_space = [_no_space(raw_chosen), _no_space(raw_rejected)]
        if any(no_space):
            form["no_space"] = no_space
    draft.form = form
    draft.used = ("chosen", "rejected")
    return metadata_of(fields, draft)


def _single(fields: Fields) -> Draft:
    raw = parse(text_of(fields, "text") or "")
    kind = "sft" if any(message.role == "assistant" for message in raw) else "prompt"
    form: dict[str, Any] = {"keys": list(fields)}
    if no_space := _no_space(raw):
        form["no_space"] = no_space
    return metadata_of(fields, Draft(_trim(raw), kind=kind, used=("text",), form=form))


def _restore(record: Mapping[str, Any]) -> str:
    form = form_of(record)
    messages = record["messages"] or []
    if "shared" not in form:
        return restore_object(record, form, {"text": _joined(messages, form.get("no_space", ()))})
    sides = [messages, [*messages[: form["shared"]], *(record["rejected"] or [])]]
    if form.get("written") == "messages":
        forms = form.get("sides", [{}, {}])
        texts = [messages_text(side, unusual) for side, unusual in zip(sides, forms, strict=True)]
    else:
        texts = [_joined(side, gaps) for side, gaps in zip(sides, form.get("no_space", [[], []]), strict=True)]
    return restore_object(record, form, {"chosen": texts[0], "rejected": texts[1]})


def _convert(fields: Fields) -> Draft:
    return _sides(fields) if {"chosen", "rejected"} <= fields.keys() else _single(fields)


ADAPTER = Adapter(
    "transcripts",
    lambda names: {"chosen", "rejected"} <= names or "text" in names and not names & {"messages", "conversations"},
    _convert,
    '{"chosen": "\\n\\nHuman: 1 + 1?\\n\\nAssistant: 2", "rejected": "\\n\\nHuman: 1 + 1?\\n\\nAssistant: 3"}',
    restore=_restore,
)
