"""ToolBench trees: answer_generation holds the query, the functions and train_messages, one list of turns a step.

Each list is a record of one group, in the order of the steps. The search tree and all other fields are in the `extra`
of the first, once. A search that found nothing has no train_messages: its query becomes a `prompt`.
"""

from curator.io.adapters.base import (
    OF_ROW,
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    fields_of,
    kind_of,
    object_text,
    raw_text,
    role_of,
    rows_of,
    text_of,
)
from curator.io.adapters.shape import items_of

_TURN_FIELDS = ("role", "content", "function_call", "name")


def called(raw: bytes) -> str:
    """A legacy function_call as the text of tool_calls; the call itself stays as it came."""
    return f'[{{"type":"function","function":{raw.decode()}}}]'


def _message(fields: Fields) -> tuple[Message, dict[str, object], dict[str, str]]:
    """A turn, what is unusual about it, and what found no place."""
    name = text_of(fields, "role")
    call = fields.get("function_call")
    has_call = call is not None and kind_of(call) == "object"
    message = Message(
        role_of(name or ""),
        text_of(fields, "content", required=False),
        tool_calls=called(bytes(call)) if call is not None and has_call else None,
        name=text_of(fields, "name", required=False),
    )
    known = _TURN_FIELDS if has_call or call is None else ("role", "content", "name")
    left = {key: raw_text(raw) for key, raw in fields.items() if key not in known}
    form: dict[str, object] = {"keys": list(fields)}
    if name != message.role:
        form["role"] = name
    return message, form, left


def _convert(fields: Fields) -> list[Draft]:
    inner = fields_of(fields["answer_generation"], "answer_generation")
    tools = raw_text(inner["function"]) if "function" in inner and kind_of(inner["function"]) == "list" else None
    taken = {"function"} if tools is not None else set()
    drafts: list[Draft] = []
    if "train_messages" in inner and kind_of(inner["train_messages"]) == "list":
        taken.add("train_messages")
        steps = items_of(inner["train_messages"])
        for index, step in enumerate(steps):
            turns = [_message(row) for row in rows_of(step, "train_messages")]
            if not turns:
                raise BadRow("no turns: a list of train_messages is empty")
            draft = Draft([message for message, _, _ in turns], group=OF_ROW, tools=tools, used=tuple(fields))
            draft.form = {"turns": [form for _, form, _ in turns], "part": [index, len(steps)]}
            left = {str(number): object_text(rest) for number, (_, _, rest) in enumerate(turns) if rest}
            if left:
                draft.left = {"turns": object_text(left)}
            drafts.append(draft)
    if not drafts:
        draft = Draft([Message("user", text_of(inner, "query"))], kind="prompt", tools=tools, used=tuple(fields))
        taken.add("query")
        draft.form = {"part": [0, 1]}
        drafts.append(draft)
    rest = {name: raw_text(raw) for name, raw in inner.items() if name not in taken}
    first = drafts[0]
    first.form = {**first.form, "keys": list(fields), "answer_generation": list(inner)}
    others = {name: raw_text(raw) for name, raw in fields.items() if name != "answer_generation"}
    first.left = {**others, "answer_generation": object_text(rest), **first.left}
    return drafts


ADAPTER = Adapter(
    "toolbench",
    lambda names: "answer_generation" in names,
    _convert,
    '{"answer_generation": {"query": "Hi", "function": [], "train_messages": [[{"role": "user", "content": "Hi"}]]}}',
)
