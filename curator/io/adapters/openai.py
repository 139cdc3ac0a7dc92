"""OpenAI messages: role/content turns with tool calls, tool results, names, weights and reasoning_content."""

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
    weight_of,
)
from curator.io.adapters.images import content_of, is_parts, place_images
from curator.io.adapters.sharegpt import tools_of

TURNS = "messages"
_TURN_FIELDS = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name", "weight")


def message_of(fields: Fields) -> tuple[Message, dict[str, object]]:
    """A role/content turn as a message, and what is unusual about how it was written."""
    name = text_of(fields, "role")
    role = role_of(name)
    unknown = [key for key in fields if key not in _TURN_FIELDS]
    if unknown:
        raise BadRow(f"unknown field in a message: {unknown[0]}")
    calls = None
    if "tool_calls" in fields and kind_of(fields["tool_calls"]) != "null":
        if kind_of(fields["tool_calls"]) != "list":
            raise BadRow(f"wrong type: tool_calls is {kind_of(fields['tool_calls'])}, expected a list")
        calls = raw_text(fields["tool_calls"])
    content, images, parts = None, None, None
    if "content" in fields and is_parts(fields["content"]):
        content, found, parts = content_of(fields["content"])
        images = found or None
    else:
        content = text_of(fields, "content", required=False)
    message = Message(
        role,
        content,
        reasoning=text_of(fields, "reasoning_content", required=False),
        tool_calls=calls,
        tool_call_id=text_of(fields, "tool_call_id", required=False),
        name=text_of(fields, "name", required=False),
        weight=weight_of(fields),
        images=images,
    )
    form: dict[str, object] = {}
    if parts is not None:
        form["parts"] = parts
    if name != role:
        form["role"] = name
    standard = [key for key in _TURN_FIELDS if getattr(message, _ATTRIBUTES.get(key, key)) is not None]
    if list(fields) != standard:
        form["keys"] = list(fields)
    if message.reasoning is None and parts is None:
        split_trace(message)
    return message, form


_ATTRIBUTES = {"reasoning_content": "reasoning"}


def messages_of(fields: Fields, name: str) -> tuple[list[Message], dict[str, object]]:
    """The messages in a field, and what is unusual by turn."""
    pairs = [message_of(row) for row in rows_of(fields[name], name)]
    if not pairs:
        raise BadRow(f"no turns: {name} is empty")
    return [message for message, _ in pairs], {str(index): form for index, (_, form) in enumerate(pairs) if form}


def _convert(fields: Fields) -> Draft:
    messages, unusual = messages_of(fields, TURNS)
    tools, form = tools_of(fields)
    used = tuple(name for name in (TURNS, "tools") if name in fields)
    kind = "sft" if any(message.role == "assistant" for message in messages) else "prompt"
    form = {"keys": list(fields), **form}
    if unusual:
        form["turns"] = unusual
    return place_images(fields, metadata_of(fields, Draft(messages, kind=kind, tools=tools, used=used, form=form)))


ADAPTER = Adapter(
    "openai",
    lambda names: TURNS in names and not names & {"chosen", "rejected", "label"},
    _convert,
    '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}',
    by_shape=True,
)
