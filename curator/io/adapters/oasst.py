"""Open-Assistant: trees of messages in one row, and tables with one message a row.

One record for each answer (message of an assistant), with the way to it from the root as its conversation; earlier
answers of that way have weight 0. So every answer is trained exactly once, and is judged, filtered and weighted by
itself with its own rank and labels: with one record for each leaf, dropping a leaf would drop the answers above it
from training, or the same answer would be trained once for each leaf below it. A message that is no answer is a record
of kind `prompt` when nobody has replied to it. A table cannot know that (the replies come later), so there every
message is a record. Trees and tables of the same dialogues give the same records, but for those prompts.

The messages of a tree stay in order (parent first): each is carried by the first record whose way it is on, with all
its fields in `extra`. So the records of a row, in order, hold every message once, and `restore` builds the tree again.
"""

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from curator.io.adapters.base import (
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    kind_of,
    object_text,
    raw_text,
    role_of,
    split_trace,
    text_of,
    value_of,
)

MAX_TREE_CHARS = 256 << 20
"""Characters that the records of one row may hold in all: a prompt is repeated for every answer to it."""
KEPT_CHARS = 16 << 20
"""Of a table, the messages of the trees read last are held up to this many characters; of the present tree, all."""

_nodes = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_node = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _role(name: str | None) -> str:
    return "user" if name == "prompter" else role_of(name or "")


def _message(fields: Fields) -> Message:
    if "text" not in fields:
        raise BadRow("no field: text of a message")
    message = Message(_role(text_of(fields, "role")), text_of(fields, "text", required=False))
    return split_trace(message) if message.role == "assistant" else message


def _text(fields: Fields, name: str) -> str | None:
    """A name of something: text as it is, a number as it is written; null or absent is None."""
    raw = fields.get(name)
    if raw is None or kind_of(raw) == "null":
        return None
    return str(value_of(raw)) if kind_of(raw) == "text" else raw_text(raw)


def _metadata(fields: Fields, message: Message) -> dict[str, str | bool]:
    tags: dict[str, str | bool] = {}
    names = [("lang", "language"), ("message_id", "original_id")]
    if message.role == "assistant":
        names.append(("model_name", "teacher"))
    for name, tag in names:
        if name in fields and kind_of(fields[name]) == "text":
            tags[tag] = value_of(fields[name])
    return tags


def _refuse_repeats(text: bytes) -> None:
    """Raise BadRow when a message anywhere in a tree names a key twice; one pass for all levels."""

    def look(pairs: list[tuple[str, Any]]) -> None:
        keys = [key for key, _ in pairs]
        if len(set(keys)) < len(keys) and "text" in keys:
            raise BadRow(f"key twice: {next(key for key in keys if keys.count(key) > 1)}")

    json.loads(text, object_pairs_hook=look, parse_int=str, parse_float=str)


def _replies(fields: Fields) -> list[dict[str, msgspec.Raw]]:
    raw = fields.get("replies")
    if raw is None or kind_of(raw) == "null":
        return []
    try:
        return _nodes.decode(raw)
    except msgspec.ValidationError:
        raise BadRow("wrong type: replies of a message are no list of objects") from None


@dataclass(slots=True)
class _Step:
    """A message on the way from the root to where a walk is."""

    fields: Fields
    message: Message
    chars: int
    """Characters from the root to here."""
    is_carried: bool = False


def _walk(root: Fields) -> Iterator[tuple[int, Fields, list[dict[str, msgspec.Raw]]]]:
    """Depth, fields and replies of every message, parents first; a deep tree needs no deep stack."""
    stack = [(0, root)]
    while stack:
        depth, fields = stack.pop()
        replies = _replies(fields)
        yield depth, fields, replies
        stack += [(depth + 1, reply) for reply in reversed(replies)]


def _own(fields: Fields) -> str:
    """What a message holds besides its text and its replies, verbatim."""
    rest = {name: raw_text(raw) for name, raw in fields.items() if name != "text"}
    if "replies" in rest and kind_of(fields["replies"]) == "list":
        del rest["replies"]
    return object_text(rest)


def thread(messages: Sequence[Message]) -> list[Message]:
    """The conversation that ends with the last of these: answers before it carry no loss."""
    turns = [
        msgspec.structs.replace(message, weight=0.0)
        if message.role == "assistant"
        else msgspec.structs.replace(message)
        for message in messages[:-1]
    ]
    return [*turns, messages[-1]]


def _drafts(
    root: Fields, context: list[Message], group: str | None, used: tuple[str, ...], carry: str, keys: list[str]
) -> list[Draft]:
    """The records of a tree, or of a part of one under `context`; messages that come first go to the field `carry`."""
    way: list[_Step] = []
    drafts: list[Draft] = []
    above = sum(len(message.content or "") for message in context)
    total = 0
    for depth, fields, replies in _walk(root):
        message = _message(fields)
        del way[depth:]
        size = len(message.content or "") + len(message.reasoning or "")
        way.append(_Step(fields, message, size + (way[-1].chars if way else above)))
        if message.role != "assistant" and replies:
            continue
        total += way[-1].chars
        if total > MAX_TREE_CHARS:
            raise BadRow(f"too large: with their ways, the answers of the tree are over {MAX_TREE_CHARS:,} characters")
        carried = [step for step in way if not step.is_carried]
        for step in carried:
            step.is_carried = True
        drafts.append(
            Draft(
                thread([*context, *(step.message for step in way)]),
                kind="sft" if message.role == "assistant" else "prompt",
                group=group,
                metadata=_metadata(fields, message),
                used=used,
                left={carry: "[" + ",".join(_own(step.fields) for step in carried) + "]"},
                form={"keys": keys, "depth": depth, "messages": [list(step.fields) for step in carried]},
            )
        )
    return drafts


def _convert_tree(fields: Fields) -> list[Draft]:
    try:
        root = _node.decode(fields["prompt"])
    except msgspec.ValidationError:
        raise BadRow(f"wrong type: prompt is {kind_of(fields['prompt'])}, expected a message") from None
    _refuse_repeats(bytes(fields["prompt"]))
    group = _text(fields, "message_tree_id") or _text(root, "message_id")
    return _drafts(root, [], group, ("prompt",), "prompt", list(fields))


@dataclass(slots=True)
class _Known:
    """A message of a table that replies may name."""

    message: Message
    parent: "_Known | None"
    tree: str


@dataclass(slots=True)
class _Tree:
    ids: list[str] = field(default_factory=list)
    chars: int = 0


class _Table:
    """Converts the rows of one table in order and holds the trees that it read last."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._trees: OrderedDict[str, _Tree] = OrderedDict()
        self._chars = 0

    def __call__(self, fields: Fields) -> Draft | list[Draft]:
        own, above = _text(fields, "message_id"), _text(fields, "parent_id")
        parent = None
        if above is not None:
            parent = self._known.get(above)
            if parent is None:
                raise BadRow(f"no parent: message {above} is not in the rows before this one")
        tree = _text(fields, "message_tree_id") or (parent.tree if parent else own) or ""
        if parent is not None and parent.tree != tree:
            raise BadRow(f"no parent: message {above} is of another tree, {parent.tree}")
        context = _way(parent)
        if _replies(fields):
            _refuse_repeats(bytes(fields["replies"]))
            drafts: Draft | list[Draft] = _drafts(fields, context, tree or None, tuple(fields), "replies", list(fields))
        else:
            drafts = _flat(fields, context, tree or None)
        self._remember(fields, parent, tree)
        return drafts

    def _remember(self, root: Fields, parent: _Known | None, tree: str) -> None:
        """Hold the messages of a row for those that reply to them. Raises BadRow for one that is there already."""
        new: dict[str, _Known] = {}
        way: list[_Known | None] = []
        chars = 0
        for depth, fields, _ in _walk(root):
            known = _Known(_message(fields), way[depth - 1] if depth else parent, tree)
            way[depth:] = [known]
            name = _text(fields, "message_id")
            if name is None:
                continue
            if name in self._known or name in new:
                raise BadRow(f"message twice: {name} was in a row before")
            new[name] = known
            chars += len(known.message.content or "") + len(known.message.reasoning or "")
        self._known |= new
        present = self._trees.setdefault(tree, _Tree())
        self._trees.move_to_end(tree)
        present.ids += new
        present.chars += chars
        self._chars += chars
        while self._chars > KEPT_CHARS and len(self._trees) > 1:
            _, oldest = self._trees.popitem(last=False)
            self._chars -= oldest.chars
            for name in oldest.ids:
                del self._known[name]


def _way(known: _Known | None) -> list[Message]:
    """The messages from the root to this one."""
    way = []
    while known is not None:
        way.append(known.message)
        known = known.parent
    return way[::-1]


def _flat(fields: Fields, context: list[Message], group: str | None) -> Draft:
    message = _message(fields)
    return Draft(
        thread([*context, message]),
        kind="sft" if message.role == "assistant" else "prompt",
        group=group,
        metadata=_metadata(fields, message),
        used=("text", "role"),
        form={"keys": list(fields), "role": text_of(fields, "role")},
    )


TREES = Adapter(
    "oasst-trees",
    lambda names: {"message_tree_id", "prompt"} <= names,
    _convert_tree,
    '{"message_tree_id": "t", "prompt": {"message_id": "t", "text": "Hi", "role": "prompter", "replies": '
    '[{"message_id": "a", "parent_id": "t", "text": "Hello.", "role": "assistant", "replies": []}]}}',
)


def _needs_a_table(fields: Fields) -> Draft | list[Draft]:
    """One row by itself, which can have no parent."""
    return _Table()(fields)


TABLES = Adapter(
    "oasst-messages",
    lambda names: {"message_id", "parent_id", "text", "role"} <= names,
    _needs_a_table,
    '{"message_id": "t", "parent_id": null, "text": "Hi", "role": "prompter", "replies": '
    '[{"message_id": "a", "parent_id": "t", "text": "Hello.", "role": "assistant", "replies": []}]}',
    begin=_Table,
    mark=b'"parent_id"',
)


# --- back to rows ---------------------------------------------------------------------------------------------------


def restore(records: Sequence[Mapping[str, Any]]) -> str:
    """The JSON text of a raw row from all its records, in order (messages, extra and provenance.form of each)."""
    form = json.loads(records[0]["provenance"]["form"])
    extra = _parts(records[0]["extra"])
    keys: list[str] = form["keys"]
    if "messages" not in form:
        own = {**extra, "text": _text_of(records[0]["messages"][-1]), "role": json.dumps(form["role"])}
        return object_text({key: own[key] for key in keys})
    carry = "prompt" if "prompt" in keys and "prompt" in extra else "replies"
    root = _tree_text(records, carry)
    return object_text({key: root if key == carry else extra[key] for key in keys}) if carry == "prompt" else root


def _parts(text: str | None) -> dict[str, str]:
    return {key: raw_text(raw) for key, raw in _node.decode((text or "{}").encode()).items()}


def _text_of(message: Mapping[str, Any]) -> str:
    """The text of a message as JSON, with the trace that was split from it."""
    content = message["content"]
    if message["reasoning"] is not None and message["wrap"]:
        content = message["wrap"]["open"] + message["reasoning"] + message["wrap"]["close"] + (content or "")
    return json.dumps(content, ensure_ascii=False)


def _tree_text(records: Sequence[Mapping[str, Any]], carry: str) -> str:
    """The root message of a tree with all replies in it, from the messages that each record carries."""
    nodes: list[tuple[int, dict[str, str], list[str]]] = []
    for record in records:
        form = json.loads(record["provenance"]["form"])
        carried = _nodes.decode(_parts(record["extra"])[carry].encode())
        count = len(carried)
        turns = record["messages"][-count:]
        for index, (own, turn, keys) in enumerate(zip(carried, turns, form["messages"], strict=True)):
            parts = {key: raw_text(raw) for key, raw in own.items()} | {"text": _text_of(turn)}
            nodes.append((form["depth"] - count + 1 + index, parts, keys))
    # From the end, so that all replies of a message are text before it is.
    replies: dict[int, list[str]] = {}
    text = ""
    for depth, parts, keys in reversed(nodes):
        below = replies.pop(depth + 1, [])[::-1]
        if "replies" in keys and "replies" not in parts:
            parts["replies"] = "[" + ",".join(below) + "]"
        text = object_text({key: parts[key] for key in keys})
        replies.setdefault(depth, []).append(text)
    return text
