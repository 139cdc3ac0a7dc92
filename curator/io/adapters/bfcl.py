"""BFCL-like rows: questions (lists of turns), functions to call, and the ground truth as a verifier.

The ground truth most often lies in a side file and has joined the row by then (`curator.io.sides`). A question of
several turn lists is a dialogue of which only the user's side is given; the lists follow one another.
"""

import msgspec

from curator.io.adapters.base import (
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    kind_of,
    metadata_of,
    raw_text,
    rows_of,
    text_of,
    turns_form,
    value_of,
)
from curator.io.adapters.openai import MESSAGE_NAMES, message_of

_lists = msgspec.json.Decoder(list[msgspec.Raw])

_QUESTION, _FUNCTIONS, _TRUTH = "question", "function", "ground_truth"


def _turns(fields: Fields) -> tuple[list[Message], dict[str, object]]:
    """The messages of a question, and how they were written: as text, as turns, or as several lists of turns."""
    raw = fields[_QUESTION]
    if kind_of(raw) == "text":
        return [Message("user", text_of(fields, _QUESTION))], {_QUESTION: "text"}
    if kind_of(raw) != "list":
        raise BadRow(f"wrong type: {_QUESTION} is {kind_of(raw)}, expected lists of turns")
    items = _lists.decode(raw)
    is_flat = bool(items) and kind_of(items[0]) == "object"
    groups = [rows_of(item, _QUESTION) for item in ([raw] if is_flat else items)]
    pairs = [message_of(turn) for group in groups for turn in group]
    if not pairs:
        raise BadRow(f"no turns: {_QUESTION} is empty")
    form: dict[str, object] = {}
    if is_flat:
        form[_QUESTION] = "turns"
    elif len(groups) != 1:
        form[_QUESTION] = [len(group) for group in groups]
    messages = [message for message, _, _ in pairs]
    names, forms = [name for _, name, _ in pairs], [how for _, _, how in pairs]
    return messages, {**form, **turns_form(messages, names, forms, MESSAGE_NAMES)}


def _verifier(raw: msgspec.Raw) -> tuple[str, str]:
    """Calls with the values that each argument may have are a schema; anything else is compared as it is."""
    items = _lists.decode(raw) if kind_of(raw) == "list" else [raw]
    is_schema = bool(items) and all(kind_of(item) == "object" for item in items)
    return "schema" if is_schema else "exact", raw_text(raw)


def _convert(fields: Fields) -> Draft:
    messages, form = _turns(fields)
    form = {"keys": list(fields), **form}
    used = [_QUESTION]
    tools = None
    if _FUNCTIONS in fields:
        raw = fields[_FUNCTIONS]
        used.append(_FUNCTIONS)
        kind = kind_of(raw)
        if kind in ("text", "null"):
            tools, form[_FUNCTIONS] = value_of(raw), kind
        else:
            tools = raw_text(raw)
    verifier = None
    if _TRUTH in fields and kind_of(fields[_TRUTH]) != "null":
        verifier = _verifier(fields[_TRUTH])
        used.append(_TRUTH)
    kind = "sft" if any(message.role == "assistant" for message in messages) else "prompt"
    draft = Draft(messages, kind=kind, tools=tools, verifier=verifier, used=tuple(used), form=form)
    return metadata_of(fields, draft)


ADAPTER = Adapter(
    "bfcl",
    lambda names: (
        _QUESTION in names
        and bool(names & {_FUNCTIONS, "involved_classes"})
        and not names & {"answer", "response", "chosen", "rejected", "messages", "conversations"}
    ),
    _convert,
    '{"id": "q0", "question": [[{"role": "user", "content": "1 + 1?"}]], "function": [{"name": "add"}], '
    '"ground_truth": [{"add": {"a": [1], "b": [1]}}]}',
)
