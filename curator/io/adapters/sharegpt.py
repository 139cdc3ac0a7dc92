"""ShareGPT rows: `conversations` of from/value turns, with system, tools, function calls and observations."""

from curator.io.adapters.base import (
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    kind_of,
    metadata_of,
    raw_text,
    role_of,
    rows_of,
    split_trace,
    text_of,
    value_of,
    weight_of,
)
from curator.io.adapters.images import place_images

TURNS = "conversations"


def turn(fields: Fields) -> tuple[Message, str]:
    """A from/value turn as a message, and the role name it came with."""
    name = text_of(fields, "from")
    role = role_of(name)
    value = text_of(fields, "value", required=False)
    unknown = set(fields) - {"from", "value", "weight"}
    if unknown:
        raise BadRow(f"unknown field in a turn: {sorted(unknown)[0]}")
    weight = weight_of(fields)
    if name in ("function_call", "tool_call"):
        return Message(role, None, tool_calls=value, weight=weight), name
    return split_trace(Message(role, value, weight=weight)), name or ""


def tools_of(fields: Fields) -> tuple[str | None, dict[str, object]]:
    """Tool schemas as JSON text, and how they were written (as text inside JSON, or as JSON)."""
    if "tools" not in fields:
        return None, {}
    raw = fields["tools"]
    kind = kind_of(raw)
    if kind == "text":
        return value_of(raw), {"tools": "text"}
    if kind == "null":
        return None, {"tools": "null"}
    return raw_text(raw), {}


def turns_of(fields: Fields, name: str) -> tuple[list[Message], list[str]]:
    """The turns in a field, and their role names."""
    pairs = [turn(row) for row in rows_of(fields[name], name)]
    if not pairs:
        raise BadRow(f"no turns: {name} is empty")
    return [message for message, _ in pairs], [role for _, role in pairs]


def _convert(fields: Fields) -> Draft:
    messages, names = turns_of(fields, TURNS)
    tools, form = tools_of(fields)
    system = text_of(fields, "system", required=False)
    if system is not None:
        messages.insert(0, Message("system", system))
    used = tuple(name for name in (TURNS, "tools", "system") if name in fields)
    kind = "sft" if any(message.role == "assistant" for message in messages) else "prompt"
    form = {"keys": list(fields), "from": _unusual(names), **form}
    if "system" in fields:
        form["system"] = "field" if system is not None else None
    return place_images(fields, metadata_of(fields, Draft(messages, kind=kind, tools=tools, used=used, form=form)))


def _unusual(names: list[str]) -> dict[str, str]:
    """Role names other than the common ones, by turn, so that export restores them."""
    common = {"human", "gpt", "system", "function_call", "observation"}
    return {str(index): name for index, name in enumerate(names) if name not in common}


ADAPTER = Adapter(
    "sharegpt",
    lambda names: TURNS in names and not names & {"chosen", "rejected"},
    _convert,
    '{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."}]}',
    by_shape=True,
)
