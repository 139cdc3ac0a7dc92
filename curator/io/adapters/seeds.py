"""Seed tasks: an instruction with instances [{input, output}], one record each (self-instruct, BELLE, rulm)."""

from curator.io.adapters.base import (
    OF_ROW,
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    metadata_of,
    object_text,
    raw_text,
    rows_of,
    split_trace,
    text_of,
)
from curator.io.adapters.joined import BREAK, breaks_before


def _convert(fields: Fields) -> list[Draft]:
    instruction = text_of(fields, "instruction") or ""
    instances = rows_of(fields["instances"], "instances")
    if not instances:
        raise BadRow("no records: instances is empty")
    drafts = []
    for index, instance in enumerate(instances):
        given = text_of(instance, "input", required=False)
        output = text_of(instance, "output", required=False)
        asked = f"{instruction}{BREAK}{given}" if given else instruction
        messages = [Message("user", asked)]
        if output is not None:
            messages.append(split_trace(Message("assistant", output)))
        form: dict[str, object] = {"keys": list(fields), "part": [index, len(instances)], "instance": list(instance)}
        if given and (breaks := breaks_before(asked, len(instruction))):
            form["breaks"] = breaks
        taken = {name for name, text in (("input", given), ("output", output)) if text}
        rest = {name: raw_text(raw) for name, raw in instance.items() if name not in taken}
        draft = Draft(messages, kind="prompt" if output is None else "sft", group=OF_ROW, form=form)
        draft.used = ("instruction", "instances")
        draft.left = {"instances": object_text(rest)} if rest else {}
        drafts.append(metadata_of(fields, draft))
    return drafts


ADAPTER = Adapter(
    "seeds",
    lambda names: {"instruction", "instances"} <= names,
    _convert,
    '{"instruction": "Add.", "instances": [{"input": "1, 2", "output": "3"}]}',
)
