"""Preference pairs: a prompt or turns with chosen and rejected, as text, as one turn or as messages."""

from collections.abc import Callable

from curator.io.adapters.base import (
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    fields_of,
    kind_of,
    metadata_of,
    rows_of,
    split_trace,
    text_of,
)
from curator.io.adapters.images import place_images
from curator.io.adapters.openai import message_of, messages_of
from curator.io.adapters.sharegpt import turn, turns_of


def _side(fields: Fields, name: str) -> tuple[list[Message], str]:
    """The messages of chosen or rejected, and how they were written: text, turn, message or messages."""
    raw = fields[name]
    kind = kind_of(raw)
    if kind == "text":
        return [split_trace(Message("assistant", text_of(fields, name)))], "text"
    if kind == "object":
        inner = fields_of(raw, name)
        return ([turn(inner)[0]], "turn") if "from" in inner else ([message_of(inner)[0]], "message")
    if kind == "list":
        rows = rows_of(raw, name)
        if rows and "from" in rows[0]:
            return turns_of(fields, name)[0], "turns"
        return messages_of(fields, name)[0], "messages"
    raise BadRow(f"wrong type: {name} is {kind}, expected text or turns")


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
    source: Callable[[Fields, str], tuple[list[Message], object]] | None = None
    for name, reader in (("conversations", turns_of), ("messages", messages_of)):
        if name in fields:
            source, used = reader, (*used, name)
            prompt = list(reader(fields, name)[0])
    if source is None:
        for name in ("prompt", "question", "instruction"):
            if name in fields:
                used = (*used, name)
                if kind_of(fields[name]) == "list":
                    prompt = list(messages_of(fields, name)[0])
                else:
                    prompt = [Message("user", text_of(fields, name))]
                break
    system = text_of(fields, "system", required=False)
    if system is not None:
        prompt.insert(0, Message("system", system))
        used = (*used, "system")
    chosen, chosen_form = _side(fields, "chosen")
    rejected, rejected_form = _side(fields, "rejected")
    draft, shared = join_sides(prompt, chosen, rejected)
    draft.used = used
    draft.form = {
        "keys": list(fields),
        "prompt_messages": len(prompt),
        "shared_messages": shared,
        "sides": [chosen_form, rejected_form],
    }
    return place_images(fields, metadata_of(fields, draft))


def _takes(names: frozenset[str]) -> bool:
    return {"chosen", "rejected"} <= names and bool(
        names & {"prompt", "question", "instruction", "conversations", "messages"}
    )


ADAPTER = Adapter(
    "preference",
    _takes,
    _convert,
    '{"prompt": "1 + 1?", "chosen": "2", "rejected": "3"}',
)
