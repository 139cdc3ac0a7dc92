"""`turns` without answers: MT-Bench questions. One `prompt` record with several user turns, asked in that order."""

from collections.abc import Mapping
from typing import Any

from curator.io.adapters.base import (
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    form_of,
    json_text,
    kind_of,
    metadata_of,
    raw_text,
    restore_object,
    text_of,
)
from curator.io.adapters.shape import items_of


def _fits(fields: Fields) -> bool:
    return kind_of(fields["turns"]) == "list" and all(kind_of(item) == "text" for item in items_of(fields["turns"]))


def _convert(fields: Fields) -> Draft:
    turns = [text_of({"turns": item}, "turns") for item in items_of(fields["turns"])]
    if not turns:
        raise BadRow("no turns: turns is empty")
    form: dict[str, object] = {"keys": list(fields)}
    draft = Draft([Message("user", text) for text in turns], kind="prompt", used=("turns",), form=form)
    if "question_id" in fields and kind_of(fields["question_id"]) == "number":
        draft.metadata = {"original_id": raw_text(fields["question_id"])}
        draft.used = ("turns", "question_id")
    return metadata_of(fields, draft)


def _restore(record: Mapping[str, Any]) -> str:
    form = form_of(record)
    texts = {"turns": json_text([message["content"] for message in record["messages"] or []])}
    if record["metadata"]["original_id"] is not None:
        texts["question_id"] = record["metadata"]["original_id"]
    return restore_object(record, form, texts)


ADAPTER = Adapter(
    "turns",
    lambda names: "turns" in names and names <= {"turns", "question_id", "category", "reference", "id"},
    _convert,
    '{"question_id": 1, "turns": ["1 + 1?", "And one more?"]}',
    fits=_fits,
    restore=_restore,
)
