"""Raw text: {text, meta, ...} of pre-training sets, {content, path} of code, or a row that is a text itself.

Kind `text`: one turn of the assistant and no prompt, which training refuses by name."""

import json
from collections.abc import Mapping
from typing import Any

from curator.io.adapters.base import (
    BARE,
    Adapter,
    Draft,
    Fields,
    Message,
    kind_of,
    metadata_of,
    text_of,
)
from curator.io.adapters.shape import TURNS, in_order, json_text, restored_tags

_NAMES = ("text", "content", "raw_content", BARE)
_NOT = TURNS | {
    "role",
    "parent_id",
    "message_id",
    "instruction",
    "prompt",
    "question",
    "response",
    "completion",
    "output",
    "answer",
    "summary",
    "target",
    "code",
    "input",
}
"""Beside one of these, a text is a part of something else."""


def _name(names: frozenset[str]) -> str | None:
    return next((name for name in _NAMES if name in names), None)


def _fits(fields: Fields) -> bool:
    name = _name(frozenset(fields)) or ""
    if kind_of(fields[name]) != "text":
        return False
    # A transcript of turns has a family of its own.
    return not (text_of(fields, name) or "").startswith(("\n\nHuman:", "\n\nAssistant:"))


def _convert(fields: Fields) -> Draft:
    name = _name(frozenset(fields)) or ""
    message = Message("assistant", text_of(fields, name))
    form = {"keys": [name for name in fields if name != BARE], "text": None if name == BARE else name}
    return metadata_of(fields, Draft([message], kind="text", used=(name,), form=form))


def restore(record: Mapping[str, Any]) -> str:
    """The JSON text of the row, an object or a text."""
    form = json.loads(record["provenance"]["form"])
    text = json_text(record["messages"][0]["content"])
    if form["text"] is None:
        return text
    values = {**restored_tags(record, form), form["text"]: text}
    return in_order(form["keys"], values)


ADAPTER = Adapter(
    "texts",
    lambda names: _name(names) is not None and not names & _NOT,
    _convert,
    '{"text": "Ice floats.", "meta": {"lang": "en"}}',
    fits=_fits,
    restore=restore,
)
