"""Answers whose question is in another file: FastChat answers and reviews, arena choices[].turns[], HumanEval samples.

They are kind `text`, which training refuses: an answer without its prompt is not an example. `original_id` names the
question, so that a later step can join them.
"""

from curator.io.adapters.base import (
    OF_ROW,
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    kind_of,
    metadata_of,
    object_text,
    raw_text,
    rows_of,
    text_of,
    value_of,
)
from curator.io.adapters.shape import items_of

_SHAPES = (
    (frozenset({"question_id", "choices", "model_id"}), "choices"),
    (frozenset({"question_id", "text", "answer_id"}), "text"),
    (frozenset({"question_id", "text", "review_id"}), "text"),
    (frozenset({"question_id", "text", "category"}), "question"),
    (frozenset({"task_id", "completion"}), "completion"),
)

_TAGS = {"task_id": "original_id", "question_id": "original_id", "model_id": "teacher", "reviewer_id": "teacher"}


def _form_of(names: frozenset[str]) -> str | None:
    found = next((form for needs, form in _SHAPES if needs <= names), None)
    return None if names & {"prompt", "question", "messages", "instruction"} else found


def _tagged(fields: Fields, draft: Draft, form: dict[str, object]) -> Draft:
    draft.form = {"keys": list(fields), **form}
    tags = (
        ("task_id", "original_id"),
        ("question_id", "original_id"),
        ("model_id", "teacher"),
        ("reviewer_id", "teacher"),
    )
    for name, column in tags:
        if name in fields and kind_of(fields[name]) in ("text", "number"):
            is_text = kind_of(fields[name]) == "text"
            draft.metadata = {**draft.metadata, column: value_of(fields[name]) if is_text else raw_text(fields[name])}
            draft.used = (*draft.used, name)
            draft.form[name] = "text" if is_text else "number"
    return metadata_of(fields, draft)


def _convert(fields: Fields) -> Draft | list[Draft]:
    form = _form_of(frozenset(fields))
    if form == "choices":
        return _choices(fields)
    name = "completion" if form == "completion" else "text"
    role = "user" if form == "question" else "assistant"
    draft = Draft([Message(role, text_of(fields, name))], kind="prompt" if form == "question" else "text", used=(name,))
    return _tagged(fields, draft, {})


def _choices(fields: Fields) -> list[Draft]:
    """One record for each choice: its answers to the turns of the question, in order."""
    choices = rows_of(fields["choices"], "choices")
    drafts = []
    for index, choice in enumerate(choices):
        if "turns" not in choice or kind_of(choice["turns"]) != "list":
            raise BadRow(f"no turns: choice {index} has none")
        texts = [text_of({"turns": item}, "turns") for item in items_of(choice["turns"])]
        draft = Draft([Message("assistant", text) for text in texts], kind="text", group=OF_ROW, used=("choices",))
        rest = {name: raw_text(raw) for name, raw in choice.items() if name != "turns"}
        draft.left = {"choices": object_text(rest)} if rest else {}
        drafts.append(_tagged(fields, draft, {"choice": list(choice), "part": [index, len(choices)]}))
    return drafts


ADAPTER = Adapter(
    "answers",
    lambda names: _form_of(names) is not None,
    _convert,
    '{"question_id": 1, "model_id": "m", "choices": [{"index": 0, "turns": ["2"]}]}',
)
