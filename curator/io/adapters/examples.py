"""A benchmark in one object: examples [{input, target}] beside a canary or a description (BIG-Bench Hard)."""

from curator.io.adapters.base import (
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    metadata_of,
    object_text,
    raw_text,
    rows_of,
    text_of,
)

_PAIRS = (("input", "target"), ("input", "output"), ("question", "answer"))


def _convert(fields: Fields) -> list[Draft]:
    examples = rows_of(fields["examples"], "examples")
    if not examples:
        raise BadRow("no records: examples is empty")
    drafts = []
    for index, example in enumerate(examples):
        pair = next((pair for pair in _PAIRS if set(pair) <= example.keys()), None)
        if pair is None:
            raise BadRow(f"no example: item {index} of examples has {', '.join(sorted(example))[:80]}")
        messages = [Message("user", text_of(example, pair[0])), Message("assistant", text_of(example, pair[1]))]
        draft = Draft(messages, verifier=("exact", object_text({"answer": raw_text(example[pair[1]])})))
        draft.used = ("examples",)
        rest = {name: raw_text(raw) for name, raw in example.items() if name not in pair}
        draft.left = {"examples": object_text(rest)} if rest else {}
        draft.form = {"keys": list(fields), "example": list(example), "part": [index, len(examples)]}
        drafts.append(metadata_of(fields, draft))
    return drafts


ADAPTER = Adapter(
    "examples",
    lambda names: "examples" in names and names <= {"examples", "canary", "description", "name", "task", "metadata"},
    _convert,
    '{"canary": "x", "examples": [{"input": "not True is", "target": "False"}]}',
)
