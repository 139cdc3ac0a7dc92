"""Transcripts: "\\n\\nHuman: ...\\n\\nAssistant: ..." turns in one text, alone or as chosen and rejected."""

import re

from curator.io.adapters.base import Adapter, BadRow, Draft, Fields, Message, kind_of, metadata_of, text_of
from curator.io.adapters.openai import messages_of

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


def _sides(fields: Fields) -> Draft:
    from curator.io.adapters.preference import join_sides

    if kind_of(fields["chosen"]) == "list":
        chosen, chosen_form = messages_of(fields, "chosen")
        rejected, rejected_form = messages_of(fields, "rejected")
        draft, shared = join_sides([], chosen, rejected)
        draft.form = {"keys": list(fields), "shared_messages": shared, "turns": [chosen_form, rejected_form]}
    else:
        raw_chosen, raw_rejected = parse(text_of(fields, "chosen") or ""), parse(text_of(fields, "rejected") or "")
        draft, shared = join_sides([], _trim(raw_chosen), _trim(raw_rejected))
        draft.form = {
            "keys": list(fields),
            "shared_messages": shared,
            "no_space": [_no_space(raw_chosen), _no_space(raw_rejected)],
        }
    draft.used = ("chosen", "rejected")
    return metadata_of(fields, draft)


def _single(fields: Fields) -> Draft:
    raw = parse(text_of(fields, "text") or "")
    kind = "sft" if any(message.role == "assistant" for message in raw) else "prompt"
    form = {"keys": list(fields), "no_space": _no_space(raw)}
    return metadata_of(fields, Draft(_trim(raw), kind=kind, used=("text",), form=form))


def _convert(fields: Fields) -> Draft:
    return _sides(fields) if {"chosen", "rejected"} <= fields.keys() else _single(fields)


ADAPTER = Adapter(
    "transcripts",
    lambda names: {"chosen", "rejected"} <= names or "text" in names and not names & {"messages", "conversations"},
    _convert,
    '{"chosen": "\\n\\nHuman: 1 + 1?\\n\\nAssistant: 2", "rejected": "\\n\\nHuman: 1 + 1?\\n\\nAssistant: 3"}',
)
