"""Raw text: {text, meta, ...} of pre-training sets, {content, path} of code. Kind `text`: one turn, no prompt."""

from curator.io.adapters.base import Adapter, Draft, Fields, Message, kind_of, metadata_of, raw_text, text_of
from curator.io.adapters.shape import TURNS

_NAMES = ("text", "content", "raw_content")
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
    # A transcript of turns has a family of its own.
    return kind_of(fields[name]) == "text" and not raw_text(fields[name]).startswith(
        ('"\\n\\nHuman:', '"\\n\\nAssistant:')
    )


def _convert(fields: Fields) -> Draft:
    name = _name(frozenset(fields)) or ""
    message = Message("assistant", text_of(fields, name))
    return metadata_of(fields, Draft([message], kind="text", used=(name,), form={"keys": list(fields), "text": name}))


ADAPTER = Adapter(
    "texts",
    lambda names: _name(names) is not None and not names & _NOT,
    _convert,
    '{"text": "Ice floats.", "meta": {"lang": "en"}}',
    fits=_fits,
)
