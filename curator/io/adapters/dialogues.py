"""Dialogues of two speakers: turns or utterances of {speaker, text}, DialogStudio's `log`, character cards.

What a turn tells besides its text (frames, segments, states) is in `extra` under the field, by the turn's number.
"""

from collections.abc import Callable

import msgspec

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
    rows_of,
    text_of,
    value_of,
)
from curator.io.adapters.shape import TURNS, items_of

_LISTS = ("turns", "utterances", "dialogue", "dialog", "example_dialogue")
_SPEAKERS = {
    **dict.fromkeys(("user", "human", "customer", "client", "caller", "patient", "student"), "user"),
    **dict.fromkeys(
        ("system", "assistant", "agent", "bot", "char", "operator", "doctor", "tutor", "wizard", "speaker_2"),
        "assistant",
    ),
}
"""In a dialogue SYSTEM is the machine that answers, not an instruction to it."""
_NAMES = ("speaker", "role", "sender", "authorRole")
_TEXTS = ("utterance", "text", "content", "value")


def _list_of(names: frozenset[str]) -> str | None:
    return next((name for name in _LISTS if name in names), None)


def _is_studio(names: frozenset[str]) -> bool:
    """DialogStudio's object of dialogues, by names such as `SGD--train--1`."""
    return bool(names) and all(name.count("--") == 2 for name in names)


def _turn(fields: Fields, role_for: Callable[[str], str]) -> tuple[Message, dict[str, str], list[str]]:
    """A turn, the rest of its fields, and the names of those that were taken."""
    speaker = next((name for name in _NAMES if name in fields), None)
    text = next((name for name in _TEXTS if name in fields), None)
    if speaker is None or text is None:
        raise BadRow(f"unknown turn: it has {', '.join(sorted(fields))[:80]}")
    message = Message(role_for(text_of(fields, speaker) or ""), text_of(fields, text))
    rest = {name: raw_text(raw) for name, raw in fields.items() if name not in (speaker, text)}
    return message, rest, [speaker, text]


def _named(speaker: str) -> str:
    role = _SPEAKERS.get(speaker.lower())
    if role is None:
        raise BadRow(f"unknown speaker: {speaker!r}")
    return role


def _spoken(fields: Fields, name: str) -> Draft:
    rows = rows_of(fields[name], name)
    if not rows:
        raise BadRow(f"no turns: {name} is empty")
    turns = [_turn(row, _named) for row in rows]
    draft = Draft([message for message, _, _ in turns], used=(name,))
    speakers = [text_of(row, turn[2][0]) for row, turn in zip(rows, turns, strict=True)]
    draft.form = {"keys": list(fields), "list": name, "speakers": _shortest(speakers), "turn": list(rows[0])}
    left = {str(index): object_text(rest) for index, (_, rest, _) in enumerate(turns) if rest}
    if left:
        draft.left = {name: object_text(left)}
    return draft


def _shortest(speakers: list[str | None]) -> list[str | None]:
    """The speakers' names; the first two when they take turns."""
    pair = speakers[:2]
    return pair if speakers == [pair[index % len(pair)] for index in range(len(speakers))] else speakers


def _character(fields: Fields) -> Draft:
    """A character card: who it is, how it greets, and a sample of how it talks."""
    draft = _spoken(fields, "example_dialogue")
    messages = [Message("system", text_of(fields, "context"))]
    if "greeting" in fields:
        messages.append(Message("assistant", text_of(fields, "greeting")))
    draft.messages = [*messages, *draft.messages]
    draft.used = (*draft.used, *(name for name in ("context", "greeting") if name in fields))
    return draft


def _studio(fields: Fields) -> list[Draft]:
    drafts = []
    for index, (key, raw) in enumerate(fields.items()):
        dialogue = fields_of(raw, key)
        if "log" not in dialogue:
            raise BadRow(f"no turns: {key} has no log")
        messages: list[Message] = []
        sides: list[str] = []
        for turn in rows_of(dialogue["log"], "log"):
            rest = dict(turn)
            for name, role in (("user utterance", "user"), ("system response", "assistant")):
                text = text_of(turn, name, required=False)
                if text:
                    messages.append(Message(role, text))
                    del rest[name]
            sides.append(object_text({name: raw_text(value) for name, value in rest.items()}))
        if not messages:
            raise BadRow(f"no turns: the log of {key} is empty")
        others = {name: raw_text(value) for name, value in dialogue.items() if name != "log"}
        draft = Draft(messages, used=tuple(fields), left={key: object_text({**others, "log": f"[{','.join(sides)}]"})})
        draft.kind = "sft" if any(message.role == "assistant" for message in messages) else "prompt"
        draft.metadata = {"original_id": key}
        draft.form = {"dialogue": list(dialogue), "part": [index, len(fields)]}
        drafts.append(draft)
    return drafts


def _columns(fields: Fields) -> list[Draft]:
    """A table turned on its side (ConvAI2): each field holds a list, with one item for each dialogue."""
    name = _list_of(frozenset(fields)) or ""
    columns = {key: items_of(raw) if kind_of(raw) == "list" else [] for key, raw in fields.items()}
    count = len(columns[name])
    if any(len(items) != count for items in columns.values()):
        raise BadRow(f"no turns: the lists beside {name} are not as long as it is")
    drafts = []
    for index in range(count):
        rows = rows_of(columns[name][index], name)
        if not rows:
            raise BadRow(f"no turns: {name} {index} is empty")
        first = text_of(rows[0], "sender")
        seen = {first}

        def role_for(speaker: str, first: str | None = first, seen: set[str | None] = seen) -> str:
            seen.add(speaker)
            if len(seen) > 2:
                raise BadRow(f"unknown speaker: {speaker!r} is the third")
            return "user" if speaker == first else "assistant"

        turns = [_turn(row, role_for) for row in rows]
        draft = Draft([message for message, _, _ in turns], used=tuple(fields))
        draft.kind = "sft" if len(seen) == 2 else "prompt"
        draft.left = {key: raw_text(items[index]) for key, items in columns.items() if key not in (name, "id")}
        left = {str(number): object_text(rest) for number, (_, rest, _) in enumerate(turns)}
        draft.left[name] = object_text(left)
        if "id" in columns and kind_of(columns["id"][index]) == "text":
            draft.metadata = {"original_id": value_of(columns["id"][index])}
        elif "id" in columns:
            draft.left["id"] = raw_text(columns["id"][index])
        speakers = [text_of(row, "sender") for row in rows]
        draft.form = {"keys": list(fields), "list": name, "speakers": _shortest(speakers), "part": [index, count]}
        drafts.append(draft)
    return drafts


def _is_table(fields: Fields, name: str) -> bool:
    items = items_of(fields[name])
    return bool(items) and kind_of(items[0]) == "list"


def _fits(fields: Fields) -> bool:
    names = frozenset(fields)
    if _is_studio(names):
        return all(kind_of(raw) == "object" for raw in fields.values())
    name = _list_of(names) or ""
    if kind_of(fields[name]) != "list":
        return False
    if _is_table(fields, name):
        inner = items_of(items_of(fields[name])[0])
        return bool(inner) and kind_of(inner[0]) == "object" and "sender" in _keys(inner[0])
    items = items_of(fields[name])
    keys = _keys(items[0]) if items and kind_of(items[0]) == "object" else set()
    return bool(keys & set(_NAMES)) and bool(keys & set(_TEXTS))


def _keys(raw: msgspec.Raw) -> set[str]:
    return set(fields_of(raw, "a turn"))


def _convert(fields: Fields) -> Draft | list[Draft]:
    names = frozenset(fields)
    if _is_studio(names):
        return _studio(fields)
    name = _list_of(names) or ""
    if _is_table(fields, name):
        return _columns(fields)
    draft = _character(fields) if name == "example_dialogue" and "context" in names else _spoken(fields, name)
    draft.kind = "sft" if any(message.role == "assistant" for message in draft.messages) else "prompt"
    for key in ("dialogue_id", "conversation_id", "dialog_id"):
        if key in fields and kind_of(fields[key]) == "text" and "id" not in fields:
            draft.metadata = {"original_id": value_of(fields[key])}
            draft.used = (*draft.used, key)
            draft.form["id_field"] = key
            break
    return metadata_of(fields, draft)


ADAPTER = Adapter(
    "dialogues",
    lambda names: not names & TURNS and (_is_studio(names) or _list_of(names) is not None),
    _convert,
    '{"turns": [{"speaker": "USER", "text": "Hi"}, {"speaker": "SYSTEM", "text": "Hello."}]}',
    fits=_fits,
)
