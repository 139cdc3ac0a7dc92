"""Tasks for reinforcement learning: verl rows (prompt turns, reward_model), RLVR rows (messages, ground_truth)."""

from curator.io.adapters.base import (
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    fields_of,
    kind_of,
    metadata_of,
    object_text,
    raw_text,
    text_of,
)
from curator.io.adapters.openai import messages_of

_MATHS = {"math", "gsm8k", "MATH", "aime", "deepscaler"}
_CODE = {"code", "coding", "codecontests", "apps", "taco"}


def _kind(name: str | None) -> str:
    """The verifier for what a row calls its task; texts are compared exactly where that says nothing."""
    if name in _MATHS:
        return "math"
    if name in _CODE:
        return "tests"
    return "format" if name == "ifeval" else "exact"


def _prompt(fields: Fields, name: str) -> tuple[list[Message], dict[str, object]]:
    if kind_of(fields[name]) == "list":
        return messages_of(fields, name)
    return [Message("user", text_of(fields, name))], {}


def _convert(fields: Fields) -> Draft:
    name = "messages" if "messages" in fields else "prompt"
    messages, unusual = _prompt(fields, name)
    form: dict[str, object] = {"keys": list(fields)}
    if unusual:
        form["written"] = unusual
    kind = "sft" if messages[-1].role == "assistant" else "prompt"
    draft = Draft(messages, kind=kind, used=(name,), form=form)
    if "reward_model" in fields:
        inner = fields_of(fields["reward_model"], "reward_model")
        if "ground_truth" not in inner:
            raise BadRow("no field: reward_model.ground_truth")
        task = text_of(fields, "ability", required=False)
        payload = {"tests" if _kind(task) == "tests" else "answer": raw_text(inner["ground_truth"])}
        draft.verifier = (_kind(task), object_text(payload))
        draft.used = (*draft.used, "reward_model")
        rest = {key: raw_text(raw) for key, raw in inner.items() if key != "ground_truth"}
        draft.left = {"reward_model": object_text(rest)}
        form["reward_model"] = list(inner)
    elif kind_of(fields["ground_truth"]) != "null":
        task = text_of(fields, "dataset", required=False)
        draft.verifier = (_kind(task), object_text({"answer": raw_text(fields["ground_truth"])}))
        draft.used = (*draft.used, "ground_truth")
    return metadata_of(fields, draft)


def _takes(names: frozenset[str]) -> bool:
    return {"prompt", "reward_model"} <= names or {"messages", "ground_truth"} <= names


ADAPTER = Adapter(
    "rewards",
    _takes,
    _convert,
    '{"messages": [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}], "ground_truth": "2"}',
)
