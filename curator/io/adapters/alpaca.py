"""Alpaca rows: instruction, input, output (or response), with or without a system text and a metadata object."""

from curator.io.adapters.base import Adapter, Draft, Fields, Message, metadata_of, split_trace, text_of


def _convert(fields: Fields) -> Draft:
    answer = "output" if "output" in fields else "response"
    instruction = text_of(fields, "instruction") or ""
    given = text_of(fields, "input", required=False)
    output = text_of(fields, answer)
    system = text_of(fields, "system", required=False)
    messages = [] if system is None else [Message("system", system)]
    messages.append(Message("user", f"{instruction}\n\n{given}" if given else instruction))
    messages.append(split_trace(Message("assistant", output)))
    used = tuple(name for name in ("instruction", "input", answer, "system") if name in fields)
    # The user turn is cut here again on export; an input that was null, empty or absent joins nothing.
    form: dict[str, object] = {"keys": list(fields)}
    if given and (breaks := f"{instruction}\n\n{given}"[: len(instruction) + 1].count("\n\n")):
        form["breaks"] = breaks
    if "input" in fields and not given:
        form["input"] = given
    if "system" in fields and system is None:
        form["system"] = None
    return metadata_of(fields, Draft(messages, used=used, form=form))


ADAPTER = Adapter(
    "alpaca",
    lambda names: "instruction" in names and bool(names & {"output", "response"}),
    _convert,
    '{"instruction": "Add.", "input": "1, 2", "output": "3"}',
    by_shape=True,
)
