"""Alpaca rows: instruction, input, output (or response), with or without a system text and a metadata object."""

from collections.abc import Mapping
from typing import Any

from curator.io.adapters.base import (
    Adapter,
    Draft,
    Fields,
    Message,
    Unrestorable,
    form_of,
    json_text,
    metadata_of,
    restore_object,
    split_trace,
    text_of,
    whole_content,
)
from curator.io.adapters.joined import BREAK, breaks_before, cut


def _convert(fields: Fields) -> Draft:
    answer = "output" if "output" in fields else "response"
    instruction = text_of(fields, "instruction") or ""
    given = text_of(fields, "input", required=False)
    output = text_of(fields, answer)
    system = text_of(fields, "system", required=False)
    messages = [] if system is None else [Message("system", system)]
    asked = f"{instruction}{BREAK}{given}" if given else instruction
    messages.append(Message("user", asked))
    messages.append(split_trace(Message("assistant", output)))
    used = tuple(name for name in ("instruction", "input", answer, "system") if name in fields)
    form: dict[str, object] = {"keys": list(fields)}
    # The user turn is cut here again on export; an input that was null, empty or absent joins nothing.
    if given and (breaks := breaks_before(asked, len(instruction))):
        form["breaks"] = breaks
    if "input" in fields and not given:
        form["input"] = given
    if "system" in fields and system is None:
        form["system"] = None
    return metadata_of(fields, Draft(messages, used=used, form=form))


def _restore(record: Mapping[str, Any]) -> str:
    form = form_of(record)
    messages = record["messages"] or []
    roles = [message["role"] for message in messages]
    has_system = "system" in form["keys"] and "system" not in form
    if roles != ["system", "user", "assistant"][not has_system :]:
        raise Unrestorable("its turns are not those of an alpaca row")
    keys = form["keys"]
    asked, answer = messages[-2]["content"] or "", whole_content(messages[-1])
    texts = {"output" if "output" in keys else "response": json_text(answer)}
    if "input" in keys and "input" not in form:
        asked, given = cut(asked, form.get("breaks", 0))
        texts["input"] = json_text(given)
    elif "input" in keys:
        texts["input"] = json_text(form["input"])
    texts["instruction"] = json_text(asked)
    if "system" in keys:
        texts["system"] = json_text(messages[0]["content"] if has_system else None)
    return restore_object(record, form, texts)


ADAPTER = Adapter(
    "alpaca",
    lambda names: "instruction" in names and bool(names & {"output", "response"}),
    _convert,
    '{"instruction": "Add.", "input": "1, 2", "output": "3"}',
    restore=_restore,
    by_shape=True,
)
