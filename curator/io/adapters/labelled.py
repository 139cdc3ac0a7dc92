"""Labelled texts of one concept: data {id: {label, text, ...}} (Lilac). Each is a `text` with its label in `extra`."""

from curator.io.adapters.base import (
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    fields_of,
    metadata_of,
    object_text,
    raw_text,
    text_of,
)


def _convert(fields: Fields) -> list[Draft]:
    items = fields_of(fields["data"], "data")
    if not items:
        raise BadRow("no records: data is empty")
    drafts = []
    for index, (key, raw) in enumerate(items.items()):
        item = fields_of(raw, "an item of data")
        if "label" not in item or "text" not in item:
            raise BadRow(f"no labelled text: item {index} of data has {', '.join(sorted(item))[:80]}")
        draft = Draft([Message("assistant", text_of(item, "text"))], kind="text", metadata={"original_id": key})
        draft.used = ("data",)
        draft.left = {"data": object_text({name: raw_text(value) for name, value in item.items() if name != "text"})}
        draft.form = {"keys": list(fields), "item": list(item), "part": [index, len(items)]}
        drafts.append(metadata_of(fields, draft))
    return drafts


def _fits(fields: Fields) -> bool:
    return raw_text(fields["data"])[:1] == "{"


ADAPTER = Adapter(
    "labelled",
    lambda names: {"data", "concept_name"} <= names,
    _convert,
    '{"concept_name": "polite", "data": {"a": {"label": true, "text": "Please."}}}',
    fits=_fits,
)
