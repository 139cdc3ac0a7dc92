"""A person's own mapping: paths into a raw row, each to a place in the record, compiled once into an adapter."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from curator.errors import UsageError
from curator.io.adapters.base import (
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
    split_trace,
    value_of,
    weight_of,
)
from curator.io.adapters.preference import join_sides
from curator.schema.check import did_you_mean
from curator.schema.record import FIELD_TYPES, KINDS, METADATA_FIELDS, ROLES, fitting

NAME = "map"
"""What `provenance.adapter` says of mapped rows."""

VERIFIERS = ("exact", "math", "tests", "format", "schema")
_PLAIN = (
    "system",
    "prompt",
    "response",
    "reasoning",
    "messages",
    "tools",
    "chosen",
    "rejected",
    "kind",
    "group",
    "loss_weight",
    "id",
)
_CONTENT = {"prompt", "response", "messages", "chosen", "rejected"}
"""Targets that every row must have, unless the path ends in `?`."""
_TURN_KEYS: dict[str, tuple[str, ...]] = {
    "role": ("role", "from"),
    "content": ("content", "value"),
    "reasoning": ("reasoning_content", "reasoning"),
    "tool_calls": ("tool_calls",),
    "tool_call_id": ("tool_call_id",),
    "name": ("name",),
    "weight": ("weight",),
}
"""Parts of a turn, and the keys that are taken for them unless `messages.<part>` names another."""
_NOT_MAPPED = {"turn_issues": "ingest writes it", "split": "mix writes it; declare a field of another name"}

Steps = tuple[str | int, ...]


# --- paths --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where a value comes from: steps from the row's top, or a constant."""

    text: str
    steps: Steps = ()
    constant: msgspec.Raw | None = None
    optional: bool = False
    """Written with a `?` at the end: a row may lack it."""


_QUOTED = r'"(?:[^"\\]|\\.)*"|\'[^\']*\''
_STEP = re.compile(
    rf"\[\s*(?P<index>-?\d+)\s*\]|\[\s*(?P<bracket>{_QUOTED})\s*\]|(?P<dot>\.?)(?:(?P<quoted>{_QUOTED})|(?P<name>[\w$@:/-]+))"
)
_GRAMMAR = "names with dots, [0], \"odd names\" in quotes, a ? at the end for what may be missing, or ='a constant'"


def parse_place(text: str) -> Place:
    """A path or constant as written. Raises UsageError that points at the character."""
    text = text.strip()
    if text.startswith("="):
        return Place(text, constant=_constant(text))
    optional = text.endswith("?")
    body = text.removesuffix("?")
    steps: list[str | int] = []
    position = 0
    while position < len(body):
        match = _STEP.match(body, position)
        follows_dot = match is not None and bool(match["dot"])
        is_name = match is not None and bool(match["name"] or match["quoted"])
        if match is None or (is_name and follows_dot != bool(steps)) or (match["index"] and not steps):
            raise UsageError(
                f"path {text!r} cannot be read from character {position + 1} on: {body[position : position + 20]!r}",
                hint=_GRAMMAR,
            )
        steps.append(int(match["index"]) if match["index"] else _unquoted(match["bracket"] or match["quoted"], match))
        position = match.end()
    if not steps:
        raise UsageError(f"path {text!r} is empty", hint=_GRAMMAR)
    return Place(text, tuple(steps), optional=optional)


def _unquoted(quoted: str | None, match: "re.Match[str]") -> str:
    if quoted is None:
        return match["name"]
    return json.loads(quoted) if quoted[0] == '"' else quoted[1:-1]


def _constant(text: str) -> msgspec.Raw:
    value = text[1:].strip()
    if len(value) >= 2 and value[0] == value[-1] == "'":
        value = json.dumps(value[1:-1], ensure_ascii=False)
    try:
        msgspec.json.decode(value)
    except msgspec.DecodeError:
        raise UsageError(f"constant {text!r} cannot be read", hint="='text', =1, =true or any JSON") from None
    return msgspec.Raw(value)


def place_text(steps: Iterable[str | int]) -> str:
    """The path of these steps, as `parse_place` reads it."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[\w$@:/-]+", step):
            text += f".{step}" if text else step
        else:
            quoted = json.dumps(step, ensure_ascii=False)
            text += f".{quoted}" if text else quoted
    return text


# --- the mapping --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """A checked mapping."""

    places: dict[str, Place]
    """By target; the keys of turns and role names are apart."""
    turn_keys: dict[str, str]
    """Parts of a turn with keys of the person's own."""
    roles: dict[str, str]
    """Role names of the person's own, to ours."""
    declared: dict[str, str]
    """Declared metadata fields, name to type."""


def plan_of(mapping: Mapping[str, str], declared: Mapping[str, str]) -> Plan:
    """Check a mapping. Raises UsageError naming the target."""
    plan = Plan({}, {}, {}, dict(declared))
    for target, text in mapping.items():
        try:
            _add(plan, target, text)
        except UsageError as error:
            raise UsageError(f"map: {target}: {error.message}", error.hint) from None
    if not plan.places.keys() & {"prompt", "response", "messages", "chosen"}:
        raise UsageError("map: nothing to talk about", hint="map prompt and response, or messages, or chosen")
    for first, second in (("chosen", "response"), ("response", "chosen")):
        if {first, second} <= plan.places.keys():
            raise UsageError("map: response and chosen are the same place in a record", hint="leave one out")
    for needed, by in (("chosen", "rejected"), ("rejected", "chosen"), ("response", "reasoning")):
        if by in plan.places and needed not in plan.places:
            raise UsageError(f"map: {by} needs {needed} beside it", hint=f"map {needed} too")
    if (plan.turn_keys or plan.roles) and not plan.places.keys() & {"messages", "chosen"}:
        raise UsageError("map: keys and roles of turns are named, but no messages", hint="map messages too")
    if len([target for target in plan.places if target.startswith("verifier.")]) > 1:
        raise UsageError("map: a record has one verifier", hint="leave the others to extra")
    return plan


def _add(plan: Plan, target: str, text: str) -> None:
    family, dot, rest = target.partition(".")
    if not isinstance(text, str):
        raise UsageError(f"{text!r} is no path", hint=_GRAMMAR)
    if target in _PLAIN:
        plan.places[target] = parse_place(text)
    elif family == "role" and dot:
        role = text.strip().removeprefix("=").strip("'\"")
        if role not in ROLES:
            raise UsageError(f"no role {role!r}", hint=did_you_mean(role, ROLES))
        plan.roles[rest.strip("'\"")] = role
    elif family == "messages" and rest in _TURN_KEYS:
        steps = parse_place(text).steps
        if len(steps) != 1 or not isinstance(steps[0], str):
            raise UsageError(f"{text!r} is not one key of a turn", hint="for example messages.role: speaker")
        plan.turn_keys[rest] = steps[0]
    elif family == "verifier" and rest in VERIFIERS:
        plan.places[target] = parse_place(text)
    elif family == "metadata" and rest in _NOT_MAPPED:
        raise UsageError("not to be mapped", hint=_NOT_MAPPED[rest])
    elif family == "metadata" and (rest in METADATA_FIELDS or rest in plan.declared):
        plan.places[target] = parse_place(text)
    elif family == "metadata" and rest.isidentifier():
        near = did_you_mean(rest, [*METADATA_FIELDS, *plan.declared]) or ""
        own = f"--field {rest}:string declares a field of your own"
        raise UsageError("no such metadata field", hint=f"{near} {own}" if near.startswith("did") else own)
    else:
        raise UsageError("no such place in a record", hint=did_you_mean(target, _targets(plan.declared)))


def _targets(declared: Iterable[str]) -> list[str]:
    return [
        *_PLAIN,
        *(f"metadata.{name}" for name in [*METADATA_FIELDS, *declared] if name not in _NOT_MAPPED),
        *(f"verifier.{kind}" for kind in VERIFIERS),
        *(f"messages.{part}" for part in _TURN_KEYS),
    ]


def mapped_fields(mapping: Mapping[str, str]) -> set[str]:
    """Metadata fields that the mapping fills, whatever top-level field of that name a row has."""
    return {target.removeprefix("metadata.") for target in mapping if target.startswith("metadata.")}


def compile_map(mapping: Mapping[str, str], declared: Mapping[str, str]) -> Adapter:
    """The mapping as an adapter that takes every row. Raises UsageError."""
    return _compiled(tuple(mapping.items()), tuple(declared.items()))


@lru_cache
def _compiled(mapping: tuple[tuple[str, str], ...], declared: tuple[tuple[str, str], ...]) -> Adapter:
    plan = plan_of(dict(mapping), dict(declared))
    return Adapter(NAME, lambda names: True, lambda fields: _Row(plan, fields).draft(), "{}")


# --- one row ------------------------------------------------------------------------------------------------------

_raws = msgspec.json.Decoder(list[msgspec.Raw])
_text = msgspec.json.Decoder(str)


@dataclass
class _Row:
    """One raw row on its way through a plan: what was opened, found and taken."""

    plan: Plan
    fields: Fields
    opened: dict[Steps, dict[str, msgspec.Raw] | list[msgspec.Raw] | None] = field(default_factory=dict)
    taken: dict[Steps, str | None] = field(default_factory=dict)
    """Places whose value is in the record, with the JSON text of what is left of it (turns may have more keys)."""
    used: dict[str, str] = field(default_factory=dict)
    """Targets whose value is in the record, and the place it came from."""
    turns: dict[str, Any] = field(default_factory=dict)
    form: dict[str, Any] = field(default_factory=dict)

    def draft(self) -> Draft:
        """The record. Raises BadRow naming path and type."""
        opening = [*self._texts("system", "system"), *self._turns_of("messages"), *self._texts("prompt", "user")]
        places = self.plan.places
        if "chosen" in places:
            draft = self._preference(opening)
        else:
            messages = [*opening, *self._answer()]
            if not messages:
                raise BadRow("no turns: " + ", ".join(places[name].text for name in places if name in _CONTENT))
            kind = "sft" if any(message.role == "assistant" for message in messages) else "prompt"
            draft = Draft(messages, kind=kind)
        draft.kind = self._kind() or draft.kind
        draft.group = self._group()
        draft.loss_weight = self._weight()
        draft.tools = self._tools()
        draft.verifier = self._verifier()
        draft.metadata = self._metadata()
        self._finish(draft)
        return draft

    # What a target finds.

    def _find(self, steps: Steps) -> tuple[Steps, msgspec.Raw | None, str]:
        """The place with its indices counted from the front, the value, and when there is none, why."""
        place: Steps = ()
        raw: msgspec.Raw | None = None
        for step in steps:
            level = self._open(place, raw)
            above = place_text(place) or "the row"
            if isinstance(step, str):
                if not isinstance(level, dict):
                    assert raw is not None
                    return place, None, f"{above} is {kind_of(raw)}, expected object"
                if step not in level:
                    return place, None, f"no {place_text((step,))}" + (f" in {above}" if place else "")
                raw = level[step]
            else:
                if not isinstance(level, list):
                    assert raw is not None
                    return place, None, f"{above} is {kind_of(raw)}, expected list"
                if not -len(level) <= step < len(level):
                    return place, None, f"{above} has {len(level)} elements"
                step %= len(level)
                raw = level[step]
            place = (*place, step)
        return place, raw, ""

    def _open(self, place: Steps, raw: msgspec.Raw | None) -> dict[str, msgspec.Raw] | list[msgspec.Raw] | None:
        if place not in self.opened:
            self.opened[place] = self._opening(place, raw)
        return self.opened[place]

    def _opening(self, place: Steps, raw: msgspec.Raw | None) -> dict[str, msgspec.Raw] | list[msgspec.Raw] | None:
        if raw is None:
            return dict(self.fields)
        kind = kind_of(raw)
        return fields_of(raw, place_text(place)) if kind == "object" else _raws.decode(raw) if kind == "list" else None

    def _value(self, target: str) -> tuple[Steps, msgspec.Raw, str] | None:
        """Place, value and name for messages. None when it is not mapped, or missing or null where it may be."""
        wanted = self.plan.places.get(target)
        if wanted is None:
            return None
        if wanted.constant is not None:
            return (), wanted.constant, wanted.text
        place, raw, problem = self._find(wanted.steps)
        if raw is not None and kind_of(raw) != "null":
            return place, raw, wanted.text
        if target in _CONTENT and not wanted.optional:
            raise BadRow(f"no value: {wanted.text}" + (f" ({problem})" if problem else " is null"))
        return None

    def _take(self, target: str, place: Steps, left: str | None = None) -> None:
        if place:
            self.taken[place] = left
            self.used[target] = place_text(place)

    # What a target makes of it.

    def _texts(self, target: str, role: str) -> list[Message]:
        """No message or one."""
        text = self._one_text(target)
        return [] if text is None else self._part(target, [Message(role, text)])

    def _one_text(self, target: str) -> str | None:
        found = self._value(target)
        if found is None:
            return None
        place, raw, name = found
        if kind_of(raw) != "text":
            raise BadRow(f"wrong type: {name} is {kind_of(raw)}, expected text")
        self._take(target, place)
        return _text.decode(raw)

    def _part(self, target: str, messages: list[Message]) -> list[Message]:
        self.form.setdefault("parts", []).append([target, len(messages)])
        return messages

    def _answer(self) -> list[Message]:
        answer = self._one_text("response")
        reasoning = self._one_text("reasoning")
        if answer is None:
            if reasoning is not None:
                raise BadRow(f"no value: {self.plan.places['response'].text}, beside a reasoning")
            return []
        message = Message("assistant", answer, reasoning=reasoning)
        return self._part("response", [message if reasoning is not None else split_trace(message)])

    def _turns_of(self, target: str) -> list[Message]:
        """Messages of a list of turns, of one turn, or (a side of a preference) of a text."""
        found = self._value(target)
        if found is None:
            return []
        place, raw, name = found
        kind = kind_of(raw)
        if kind == "text" and target != "messages":
            self._take(target, place)
            return [split_trace(Message("assistant", _text.decode(raw)))]
        if kind not in ("list", "object"):
            raise BadRow(f"wrong type: {name} is {kind}, expected a list of turns")
        rows = [raw] if kind == "object" else _raws.decode(raw)
        if not rows:
            raise BadRow(f"no turns: {name} is empty")
        read = [self._turn(row, f"{name}[{index}]") for index, row in enumerate(rows)]
        lefts = [left for _, left, _, _ in read]
        text: str | None = None
        if any(lefts):
            text = (lefts[0] or "null") if kind == "object" else f"[{','.join(left or 'null' for left in lefts)}]"
        self._take(target, place, text)
        self.turns[target] = {
            "written": kind,
            "roles": [role for _, _, role, _ in read],
            "keys": _shared([keys for _, _, _, keys in read]),
        }
        if self.plan.turn_keys:
            self.turns[target]["own"] = self.plan.turn_keys
        messages = [message for message, _, _, _ in read]
        return self._part(target, messages) if target == "messages" else messages

    def _turn(self, raw: msgspec.Raw, name: str) -> tuple[Message, str | None, str, list[str]]:
        """A turn as a message, the JSON text of the keys that found no place, its role as written, and its keys."""
        if kind_of(raw) != "object":
            raise BadRow(f"wrong type: {name} is {kind_of(raw)}, expected a turn with role and content")
        fields = fields_of(raw, name)
        keys = _names_of_parts(self.plan.turn_keys, list(fields))

        def text(part: str) -> str | None:
            value = fields.get(keys[part])
            if value is None or kind_of(value) == "null":
                return None
            if kind_of(value) != "text":
                raise BadRow(f"wrong type: {name}.{keys[part]} is {kind_of(value)}, expected text")
            return _text.decode(value)

        said = text("role")
        if said is None:
            raise BadRow(f"no value: {name}.{keys['role']}")
        role = self.plan.roles.get(said) or role_of(said)
        message = Message(
            role,
            text("content"),
            text("reasoning"),
            tool_call_id=text("tool_call_id"),
            name=text("name"),
            weight=weight_of({"weight": fields[keys["weight"]]}) if keys["weight"] in fields else None,
        )
        calls = fields.get(keys["tool_calls"])
        if calls is not None and kind_of(calls) != "null":
            if kind_of(calls) != "list":
                raise BadRow(f"wrong type: {name}.{keys['tool_calls']} is {kind_of(calls)}, expected a list")
            message.tool_calls = raw_text(calls)
        elif said in ("function_call", "tool_call") and said not in self.plan.roles:
            message.content, message.tool_calls = None, message.content
        placed = set(keys.values())
        if message.weight is not None and not _is_whole(raw_text(fields[keys["weight"]])):
            placed.discard(keys["weight"])
        left = {key: raw_text(value) for key, value in fields.items() if key not in placed}
        if message.reasoning is None:
            split_trace(message)
        return message, object_text(left) if left else None, said, list(fields)

    def _preference(self, opening: list[Message]) -> Draft:
        chosen, rejected = self._turns_of("chosen"), self._turns_of("rejected")
        self._part("chosen", chosen)
        draft, shared = join_sides(opening, chosen, rejected)
        self.form["shared"] = shared - len(opening)
        return draft

    def _kind(self) -> str | None:
        kind = self._one_text("kind")
        if kind is not None and kind not in KINDS:
            raise BadRow(f"unknown kind: {self.plan.places['kind'].text} is {kind[:40]!r}, not {', '.join(KINDS)}")
        return kind

    def _group(self) -> str | None:
        """What ties rows together; an empty text ties none, and stays in `extra`."""
        found = self._value("group")
        return None if found is not None and raw_text(found[1]) == '""' else self._word("group")

    def _word(self, target: str) -> str | None:
        """A text, or a number or true/false as it is written (which stays in `extra` too, for export)."""
        found = self._value(target)
        if found is None:
            return None
        place, raw, _ = found
        kind = kind_of(raw)
        if kind == "text":
            self._take(target, place)
            return _text.decode(raw)
        return raw_text(raw) if kind in ("number", "true/false") else None

    def _weight(self) -> float | None:
        found = self._value("loss_weight")
        if found is None:
            return None
        place, raw, name = found
        try:
            weight = weight_of({"weight": raw})
        except BadRow:
            raise BadRow(f"wrong type: {name} is {kind_of(raw)}, expected a number") from None
        if _is_whole(raw_text(raw)):
            self._take("loss_weight", place)
        return weight

    def _tools(self) -> str | None:
        found = self._value("tools")
        if found is None:
            return None
        place, raw, _ = found
        self._take("tools", place)
        if kind_of(raw) != "text":
            return raw_text(raw)
        self.form["tools"] = "text"
        return _text.decode(raw)

    def _verifier(self) -> tuple[str, str] | None:
        for target in self.plan.places:
            if target.startswith("verifier.") and (found := self._value(target)):
                self._take(target, found[0])
                return target.removeprefix("verifier."), raw_text(found[1])
        return None

    def _metadata(self) -> dict[str, Any]:
        """Values that fit their columns; what does not fit stays in `extra`."""
        values: dict[str, Any] = {}
        for target in self.plan.places:
            name = target.removeprefix("metadata.")
            if target == "id":
                name = "original_id"
            elif name == target:
                continue
            type_ = FIELD_TYPES[self.plan.declared[name]] if name in self.plan.declared else METADATA_FIELDS[name]
            if type_ == FIELD_TYPES["string"]:
                value: Any = self._word(target)
            else:
                value = self._typed(target, type_)
            if value is not None:
                values[name] = value
        return values

    def _typed(self, target: str, type_: Any) -> Any:
        found = self._value(target)
        if found is None:
            return None
        place, raw, _ = found
        try:
            value = fitting(value_of(raw), type_)
        except msgspec.ValidationError:  # a number beyond any float
            return None
        if isinstance(value, bool) or (value is not None and _is_whole(raw_text(raw)) and str(value) == raw_text(raw)):
            self._take(target, place)
        return value

    # What is left, and what export needs.

    def _finish(self, draft: Draft) -> None:
        used: list[str] = []
        left: dict[str, str] = {}
        for name in dict.fromkeys(str(place[0]) for place in self.taken):
            used.append(name)
            text = self._left((name,), self.fields[name])
            if text is not None:
                left[name] = text
        inner = {
            place_text(place): list(level) if isinstance(level, dict) else len(level)
            for place, level in self.opened.items()
            if place and level is not None and place[0] in used
        }
        draft.used, draft.left = tuple(used), left
        draft.form = {"keys": list(self.fields), "map": self.used, **self.form}
        if inner:
            draft.form["inner"] = inner
        if self.turns:
            draft.form["turns"] = self.turns

    def _left(self, place: Steps, raw: msgspec.Raw) -> str | None:
        """JSON text of what found no place below here; an element of a list that did leaves null behind."""
        if place in self.taken:
            return self.taken[place]
        level = self.opened.get(place)
        if level is None:
            return raw_text(raw)
        if isinstance(level, dict):
            parts = {key: text for key, value in level.items() if (text := self._left((*place, key), value))}
            return object_text(parts) if parts or not level else None
        texts = [self._left((*place, index), value) for index, value in enumerate(level)]
        return None if level and not any(texts) else f"[{','.join(text or 'null' for text in texts)}]"


def _names_of_parts(own: Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
    """The key of a turn that holds each part: the person's own, or the first known one that is there."""
    return {
        part: own.get(part) or next((key for key in known if key in keys), known[0])
        for part, known in _TURN_KEYS.items()
    }


def _shared(lists: list[list[str]]) -> list[Any]:
    """One list for all when they are equal."""
    return lists[0] if all(item == lists[0] for item in lists) else lists


def _is_whole(text: str) -> bool:
    """Whether a number's text is the one that its value would be written with."""
    return re.fullmatch(r"0|-?[1-9]\d{0,6}", text) is not None


# --- the way back -------------------------------------------------------------------------------------------------


def restore(record: Mapping[str, Any]) -> str:
    """The JSON text of the object that a mapped record came from, key order and number text included.

    `record` is a row of a dataset as a dictionary. Raises ValueError when turns were added or taken out since.
    """
    form = json.loads(record["provenance"]["form"])
    values, turns = _values_of(record, form)
    return _Rebuild(form, values, turns).object(
        (), form["keys"], {} if record["extra"] is None else msgspec.json.decode(record["extra"], type=_OBJECT)
    )


_OBJECT = dict[str, msgspec.Raw]


def _values_of(record: Mapping[str, Any], form: Mapping[str, Any]) -> tuple[dict[Steps, str], dict[Steps, Any]]:
    """JSON text by place, and the turns by place with how they were written."""
    values: dict[Steps, str] = {}
    turns: dict[Steps, Any] = {}
    parts: dict[str, list[Any]] = {}
    rest = list(record["messages"])
    for target, count in form.get("parts", ()):
        parts[target], rest = rest[:count], rest[count:]
        if len(parts[target]) < count:
            raise ValueError("turns are missing")
    if rest:
        raise ValueError("there are more turns than came in")
    if record["rejected"] is not None:
        parts["rejected"] = [*parts["chosen"][: form["shared"]], *record["rejected"]]
    metadata = record["metadata"]
    for target, text in form["map"].items():
        place = parse_place(text).steps
        family, _, rest_of = target.partition(".")
        if target in form.get("turns", {}):
            turns[place] = (form["turns"][target], parts[target])
        elif target in ("system", "prompt", "response", "chosen", "rejected"):
            values[place] = _quoted(_written(parts[target][0], target == "response" and "reasoning" in form["map"]))
        elif target == "reasoning":
            values[place] = _quoted(parts["response"][0]["reasoning"])
        elif target == "tools":
            values[place] = _quoted(record["tools"]) if form.get("tools") == "text" else record["tools"]
        elif family == "verifier":
            values[place] = record["verifier"]["payload"]
        elif target == "group":
            # The builder put the file in front, as it did in the id.
            values[place] = _quoted(record["group"][len(record["id"].rpartition("#")[0]) + 1 :])
        elif target == "loss_weight":
            values[place] = str(int(record["loss_weight"]))
        elif target == "kind":
            values[place] = _quoted(record["kind"])
        else:
            value = metadata["original_id" if target == "id" else rest_of]
            values[place] = _quoted(value) if isinstance(value, str) else json.dumps(value)
    return values, turns


def _quoted(text: str | None) -> str:
    return msgspec.json.encode(text).decode()


def _rest_of(left: msgspec.Raw | None) -> msgspec.Raw | None:
    """What is left of a value; null stands for an element of a list that found its place."""
    return None if left is None or kind_of(left) == "null" else left


def _written(message: Mapping[str, Any], apart: bool = False) -> str | None:
    """The text of a turn as it came, its trace in front again unless that came in a field of its own."""
    wrap = message["wrap"]
    if apart or wrap is None:
        return message["content"]
    return f"{wrap['open']}{message['reasoning']}{wrap['close']}{message['content'] or ''}"


@dataclass(frozen=True)
class _Rebuild:
    form: Mapping[str, Any]
    values: Mapping[Steps, str]
    turns: Mapping[Steps, Any]

    def object(self, place: Steps, keys: Sequence[str], left: Mapping[str, msgspec.Raw]) -> str:
        return object_text({key: self._value((*place, key), left.get(key)) for key in keys})

    def _value(self, place: Steps, left: msgspec.Raw | None) -> str:
        if place in self.values:
            return self.values[place]
        if place in self.turns:
            how, messages = self.turns[place]
            return self._turns(how, messages, left)
        inner = self.form.get("inner", {}).get(place_text(place))
        if isinstance(inner, list):
            rest = _rest_of(left)
            return self.object(place, inner, {} if rest is None else msgspec.json.decode(rest, type=_OBJECT))
        if isinstance(inner, int):
            rest = _rest_of(left)
            lefts: list[Any] = [None] * inner if rest is None else _raws.decode(rest)
            return f"[{','.join(self._value((*place, index), item) for index, item in enumerate(lefts))}]"
        assert left is not None
        return raw_text(left)

    def _turns(self, how: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], left: msgspec.Raw | None) -> str:
        is_list = how["written"] == "list"
        lefts: list[Any] = [None] * len(messages)
        if left is not None:
            lefts = _raws.decode(left) if is_list else [left]
        texts = []
        for index, message in enumerate(messages):
            rest = _rest_of(lefts[index])
            others = {} if rest is None else msgspec.json.decode(rest, type=_OBJECT)
            keys = how["keys"][index] if isinstance(how["keys"][0], list) else how["keys"]
            parts = self._parts(_names_of_parts(how.get("own", {}), keys), how["roles"][index], message)
            texts.append(object_text({key: raw_text(others[key]) if key in others else parts[key] for key in keys}))
        return f"[{','.join(texts)}]" if is_list else texts[0]

    def _parts(self, names: Mapping[str, str], said: str, message: Mapping[str, Any]) -> dict[str, str]:
        """JSON text by key of a turn."""
        calls, content = message["tool_calls"], _written(message)
        if said in ("function_call", "tool_call") and content is None:
            calls, content = None, calls
        weight = message["weight"]
        return {
            names["role"]: _quoted(said),
            names["content"]: _quoted(content),
            names["reasoning"]: _quoted(None if message["wrap"] else message["reasoning"]),
            names["tool_calls"]: "null" if calls is None else calls,
            names["tool_call_id"]: _quoted(message["tool_call_id"]),
            names["name"]: _quoted(message["name"]),
            names["weight"]: "null" if weight is None else str(int(weight)),
        }
