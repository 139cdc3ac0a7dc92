"""What an export target is, and one record as JSON text in its form."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from curator.io import mapping
from curator.io.adapters import ADAPTERS
from curator.io.adapters.base import form_of, json_text, object_text, raw_text
from curator.io.adapters.images import with_data, with_marks

Record = Mapping[str, Any]
"""A record as a dictionary of its columns."""

DEFAULT_WRAP = ("<think>\n", "\n</think>\n\n")
"""Marks around a trace that goes into the text and whose record does not say which marks it had."""


class Unrenderable(Exception):
    """A record that a form cannot hold; the text is the reason that is counted."""


@dataclass
class Rendered:
    """A record written in a form: its fields in order, and what the form has no place for, both as JSON text."""

    fields: dict[str, str]
    lost: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """A form that records can be written in."""

    name: str
    meaning: str
    families: frozenset[str] | None
    """Adapters whose records are restored exactly; None: all of them."""
    render: Callable[[Record], Rendered] | None
    """Writes any other record. Raises Unrenderable."""
    kinds: frozenset[str] | None = None
    """Of those families only records of these kinds."""

    def restores(self, record: Record) -> bool:
        family = (record["provenance"] or {}).get("adapter")
        return (self.families is None or family in self.families) and (
            self.kinds is None or record["kind"] in self.kinds
        )


@dataclass(frozen=True)
class Exported:
    """One record as a JSON object."""

    text: str
    is_restored: bool
    lost: tuple[str, ...] = ()
    """What the form has no place for, and so stands in `metadata`."""


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def export_record(
    record: Record, target: Target, with_tags: bool, media: Callable[[str], bytes] | None = None
) -> Exported:
    """A record in the form of a target; `with_tags` adds filled tags and scores under `metadata`.

    A record of one of the target's families is the object it came as, to the digit; `media` gives the bytes of an image
    by its digest. Raises Unrenderable.
    """
    tags = tags_of(record) if with_tags else {}
    problem = "it came in another form"
    if target.restores(record):
        restore = restorer((record["provenance"] or {}).get("adapter"))
        if restore is not None:
            try:
                text = restore(with_marks(record, form_of(record)))
                if media is not None and any(turn["images"] for turn in record["messages"] or ()):
                    text = with_data(text, media)
                return Exported(_with_tags(text, tags), True)
            # What a form says no longer fits a record that a step has changed.
            except (ValueError, LookupError, TypeError) as error:
                problem = str(error)
    if target.render is None:
        raise Unrenderable(problem)
    rendered = target.render(record)
    lost = rendered.lost
    fields = dict(rendered.fields)
    if lost or tags:
        fields["metadata"] = object_text(tags | lost)
    return Exported(object_text(fields), False, tuple(lost))


def restorer(family: str | None) -> Callable[[Record], str] | None:
    """What makes the source object of a family's records again, if anything does."""
    if family == mapping.NAME:
        return mapping.restore
    adapter = ADAPTERS.get(family or "")
    return None if adapter is None else adapter.restore


def tags_of(record: Record) -> dict[str, str]:
    """The filled tags of a record, and the values of its scores, as JSON text by name."""
    form = (record["provenance"] or {}).get("form")
    numbers = msgspec.json.decode(form).get("numbers", {}) if form and '"numbers"' in form else {}
    tags = {
        name: numbers.get(name) or json_text(value)
        for name, value in (record["metadata"] or {}).items()
        if value is not None
    }
    scores = {
        name: json_text(score["value"])
        for name, score in (record.get("scores") or {}).items()
        if score is not None and score["value"] is not None
    }
    return tags | ({"scores": object_text(scores)} if scores else {})


def _with_tags(text: str, tags: Mapping[str, str]) -> str:
    """A source object with tags beside those it has in `metadata`; the source's own values stay."""
    if not tags:
        return text
    fields = {name: raw_text(raw) for name, raw in _fields.decode(text).items()}
    own = fields.get("metadata")
    if own is None or own[:1] == "{":
        inner = {} if own is None else {name: raw_text(raw) for name, raw in _fields.decode(own).items()}
        fields["metadata"] = object_text({**inner, **{key: tag for key, tag in tags.items() if key not in inner}})
    else:
        fields["curator_metadata"] = object_text(tags)
    return object_text(fields)


# --- pieces that forms share ----------------------------------------------------------------------------------------


def left_over(record: Record, *places: str) -> dict[str, str]:
    """The columns beside the turns that a form without these `places` has none for, filled ones only."""
    found: dict[str, str] = {}
    if record["tools"] is not None:
        found["tools"] = json_text(record["tools"])
    if record["rejected"] is not None:
        found["rejected"] = json_text([bare_turn(message) for message in record["rejected"]])
    if record["verifier"] is not None:
        verifier = record["verifier"]
        payload = verifier["payload"] or "null"
        found["verifier"] = object_text({"kind": json_text(verifier["kind"]), "payload": payload})
    if record["loss_weight"] is not None:
        found["loss_weight"] = json_text(record["loss_weight"])
    if record["extra"] is not None:
        found["extra"] = record["extra"]
    return {name: text for name, text in found.items() if name not in places}


def bare_turn(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message without its null fields."""
    return {name: value for name, value in message.items() if value is not None}


def turns_left(messages: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> dict[str, str]:
    """What a form has no place for in single turns: by number of the turn, under `turns`."""
    found: dict[str, dict[str, Any]] = {}
    for index, message in enumerate(messages):
        left = {name: message[name] for name in fields if message[name] is not None}
        if left:
            found[str(index)] = left
    return {"turns": json_text(found)} if found else {}


def text_with_trace(message: Mapping[str, Any]) -> str | None:
    """The text of a turn with its reasoning in front, between the marks it had or between `<think>` marks."""
    reasoning, content = message["reasoning"], message["content"]
    if reasoning is None:
        return None if content is None else str(content)
    wrap = message["wrap"] or {"open": DEFAULT_WRAP[0], "close": DEFAULT_WRAP[1]}
    return f"{wrap['open'] or ''}{reasoning}{wrap['close'] or ''}{content or ''}"


def require_turns(record: Record) -> list[Mapping[str, Any]]:
    """The messages of a record that is a conversation. Raises Unrenderable."""
    if record["kind"] == "text":
        raise Unrenderable("kind text")
    if not record["messages"]:
        raise Unrenderable("no turns")
    return list(record["messages"])
