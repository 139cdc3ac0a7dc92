"""An independent reader of raw rows, written from the documented rules with Python's json: shares no code with ingest.

Bytes: UTF-8, line feeds between rows; a byte order mark and blanks around a row are no part of it. JSON: an object, no
key twice where fields are read, no half characters, no NaN, at most 128 levels. Then the shape: which fields make which
turns. `assert_same` compares what it saw with a record.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from curator.io.export import TARGETS
from curator.io.export.base import export_record

USER, ASSISTANT = ("user", "human", "User"), ("assistant", "gpt", "model", "chatgpt", "bot", "Assistant")
CALLS = ("function_call", "tool_call")
ROLES = (
    dict.fromkeys(USER, "user")
    | dict.fromkeys((*ASSISTANT, *CALLS), "assistant")
    | dict.fromkeys(("system", "developer"), "system")
    | dict.fromkeys(("tool", "observation", "function", "function_response"), "tool")
)
TEXT_PARTS = ("text", "input_text", "output_text")
IMAGE_PARTS = ("image", "image_url", "input_image")
OTHER_PAIRS = (
    *(("query", "response"), ("query", "answer"), ("query", "output"), ("prompt", "output")),
    *(("prompt", "answer"), ("question", "output"), ("question", "completion")),
    *(("instruction", "answer"), ("instruction", "completion"), ("input", "target"), ("input", "output")),
)
BESIDE_TEXT = {"role", "instruction", "prompt", "question", "response", "completion", "output", "answer", "input"}
PAIRS = (("prompt", "completion"), ("prompt", "response"), ("question", "answer"), ("question", "response"))
TAGS: dict[str, type] = {"reasoning_trace": bool}
TAGS |= dict.fromkeys(("source", "domain", "task_type", "difficulty", "language", "license", "teacher"), str)
BOM, BLANKS = b"\xef\xbb\xbf", b" \t\r"
LEVELS, FLOAT32 = 128, 3.4028234663852886e38


class Bad(Exception):
    pass


class Object(dict):
    """An object that knows whether a key came twice."""

    repeats = False


@dataclass(frozen=True)
class Turn:
    role: str
    text: str | None
    reasoning: str | None = None
    calls: Any = None
    """A decoded list, or the text of a call that is a turn's value."""
    call_id: str | None = None
    name: str | None = None
    weight: float | None = None


@dataclass(frozen=True)
class Seen:
    """What a row holds. `used` names the fields that need not be in `extra`."""

    shape: str
    turns: list[Turn]
    used: set[str]
    rejected: list[Turn] | None = None
    tools: Any = field(default=None)


def _object(pairs: list[tuple[str, Any]]) -> Object:
    made = Object(pairs)
    made.repeats = len(made) < len(pairs)
    return made


def _refuse(word: str) -> None:
    raise Bad(word)


def exact_int(digits: str) -> Any:
    # Python refuses to make a number of so many digits; here it only has to equal itself.
    return int(digits) if len(digits) < 4000 else f"digits {digits}"


def loads(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse, parse_int=exact_int)


_HALF = re.compile("[\ud800-\udfff]")


def levels(value: Any) -> int:
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        value, level = waiting.pop()
        if isinstance(value, dict | list):
            deepest = max(deepest, level)
            waiting += [(inner, level + 1) for inner in (value.values() if isinstance(value, dict) else value)]
    return deepest


def read(line: bytes) -> Seen:
    """What the row holds, or Bad."""
    try:
        row = loads(line.decode("utf-8", "strict"))
    except (ValueError, RecursionError) as error:
        raise Bad(str(error)) from None
    # In bytes that are UTF-8 only an escape makes half a character.
    if b"\\u" in line and _HALF.search(json.dumps(row, ensure_ascii=False)):
        raise Bad("half a character")
    _expect(len(line) < 2 * LEVELS or levels(row) <= LEVELS)
    _expect(isinstance(row, Object) and not row.repeats)
    if isinstance(row.get("metadata"), Object):
        _expect(not row["metadata"].repeats)
    seen = _shape(row)
    rest = Object({name: value for name, value in row.items() if name not in seen.used and value is not None})
    try:
        is_clear = _shape(rest).shape not in ("openai", "sharegpt", "preference", "alpaca", "pairs")
    except Bad:
        is_clear = True
    if not is_clear:
        raise Bad("two readings")
    return seen


def _shape(row: Object) -> Seen:
    """What the fields hold by the first family that they fit."""
    names = set(row)
    both = {"chosen", "rejected"} <= names
    neither = not names & {"chosen", "rejected"}
    _expect_known(row)
    if isinstance(row.get("label"), bool) and neither and (seen := _labelled(row)):
        return seen
    if "messages" in names and neither and "label" not in names:
        return Seen("openai", _messages(row["messages"]), {"messages", "tools"}, tools=row.get("tools"))
    if "conversations" in names and neither:
        turns = [*_system(row), *_conversations(row["conversations"])]
        return Seen("sharegpt", turns, {"conversations", "tools", "system"}, tools=row.get("tools"))
    if both and names & {"prompt", "question", "instruction", "conversations", "messages"}:
        return _preference(row)
    if neither and (seen := _reasoned(row)):
        return seen
    if "instruction" in names and names & {"output", "response"}:
        return _alpaca(row)
    for pair in PAIRS:
        if set(pair) <= names and neither:
            turns = [Turn("user", _text(row, pair[0])), Turn("assistant", _text(row, pair[1]))]
            return Seen("pairs", [*_system(row), *turns], {*pair, "system"})
    if both:
        read_side = _messages if isinstance(row["chosen"], list) else _transcript
        chosen, rejected = read_side(row["chosen"]), read_side(row["rejected"])
        _expect(any(turn.role == "user" for turn in chosen))
        return Seen("transcripts", chosen, {"chosen", "rejected"}, _without_shared(chosen, rejected))
    if "text" in names and not names & {"messages", "conversations"}:
        try:
            return _asked(row)
        except Bad as error:
            if str(error) != "no shape":
                raise
        is_plain = isinstance(row["text"], str) and not row["text"].startswith(("\n\nHuman:", "\n\nAssistant:"))
        if is_plain and neither and not names & BESIDE_TEXT:
            return Seen("texts", [Turn("assistant", row["text"])], {"text"})
        return Seen("transcripts", _transcript(row["text"]), {"text"})
    return _asked(row)


def _expect_known(row: Object) -> None:
    """Raise Bad for problems with solutions and requests with responses, of which this reader knows nothing."""
    names = set(row)
    if not names & {
        "messages",
        "conversations",
        "chosen",
        "rejected",
        "options",
        "choices",
        "input",
        "code",
        "reasoning",
        "thinking",
        "generations",
    }:
        is_solved = names & {"problem", "question"} and names & {"solution", "generated_solution"}
        if is_solved or {"problem", "answer"} <= names:
            raise Bad("no shape")
    has_answer = isinstance(row.get("messages"), list) and isinstance(row.get("response"), dict | str)
    if has_answer and not names & {"chosen", "rejected", "conversations", "instruction"}:
        raise Bad("no shape")


def _labelled(row: Object) -> Seen | None:
    """Turns, or a prompt and its completion, that somebody called good or bad."""
    used = {"system", "tools"}
    ask = next((name for name in ("instruction", "prompt") if name in row), None)
    reply = next((name for name in ("completion", "response", "output") if name in row), None)
    if "messages" in row:
        turns, used = _messages(row["messages"]), used | {"messages"}
    elif "conversations" in row:
        turns, used = _conversations(row["conversations"]), used | {"conversations"}
    elif ask is not None and reply is not None:
        asked = _messages(row[ask]) if isinstance(row[ask], list) else [Turn("user", _text(row, ask))]
        if ask == "instruction" and isinstance(row[ask], str) and _text_or_null(row, "input"):
            asked, used = [Turn("user", f"{row[ask]}\n\n{row['input']}")], used | {"input"}
        replied = _messages(row[reply]) if isinstance(row[reply], list) else [Turn("assistant", _text(row, reply))]
        turns, used = [*asked, *replied], used | {ask, reply}
    else:
        return None
    return Seen("kto", [*_system(row), *turns], used, tools=row.get("tools"))


def _reasoned(row: Object) -> Seen | None:
    """A question and an answer with the reasoning in a field of its own; None when one of them is no text."""
    ask = next((name for name in ("question", "prompt", "instruction") if name in row), None)
    reply = next((name for name in ("response", "answer", "output", "completion") if name in row), None)
    if ask is None or reply is None or not isinstance(row.get("reasoning_content"), str):
        return None
    if not isinstance(row[reply], str):
        return None
    has_input = ask == "instruction" and "input" in row
    asked = _joined(row, ask) if has_input else _text(row, ask)
    turns = [*_system(row), Turn("user", asked), Turn("assistant", row[reply], row["reasoning_content"])]
    used = _joined_names(row, ask) if has_input else {ask}
    return Seen("reasoned", turns, used | {reply, "reasoning_content", "system"})


def _asked(row: Object) -> Seen:
    """A question and its answer under less common names, or a question alone beside what cannot hold its answer."""
    names = set(row)
    if names & {"messages", "conversations", "chosen", "rejected"}:
        raise Bad("no shape")
    for ask, reply in OTHER_PAIRS:
        if {ask, reply} <= names and not names & {"label", "options", "choices", "instances"}:
            is_joined = ask != "input" and isinstance(row.get("input"), str)
            used = _joined_names(row, ask) if is_joined else {ask}
            turns = [*_system(row), Turn("user", _joined(row, ask) if is_joined else _text(row, ask))]
            if row[reply] is None:
                return Seen("questions", turns, {*used, "system"})
            _expect(isinstance(row[reply], str | int | float))
            text = row[reply] if isinstance(row[reply], str) else json.dumps(row[reply])
            return Seen("questions", [*turns, Turn("assistant", text)], {*used, reply, "system"})
    asks = names & {"prompt", "instruction", "question"}
    if len(asks) == 1 and names - asks <= {"input", "id", "metadata", "system", "name", "label"}:
        (ask,) = asks
        turns = [*_system(row), Turn("user", _joined(row, ask))]
        return Seen("prompts", turns, _joined_names(row, ask) | {"system"})
    if isinstance(row.get("content"), str) and "text" not in names and not names & BESIDE_TEXT:
        _expect(not row["content"].startswith(("\n\nHuman:", "\n\nAssistant:")))
        return Seen("texts", [Turn("assistant", row["content"])], {"content"})
    raise Bad("no shape")


def _joined_names(row: Object, ask: str) -> set[str]:
    texts = {name for name in (ask, "input") if isinstance(row.get(name), str)}
    # With two fields, an empty one joins nothing and stays beside the record.
    return {name for name in texts if row[name] or texts == {ask} and "input" not in row}


def _joined(row: Object, ask: str) -> str:
    _expect(row.get(ask) is None or isinstance(row[ask], str))
    names = _joined_names(row, ask)
    _expect(bool(names))
    return "\n\n".join(row[name] for name in (ask, "input") if name in names)


def _expect(is_so: bool) -> None:
    if not is_so:
        raise Bad


def _text(row: Object, name: str) -> str:
    _expect(isinstance(row.get(name), str))
    return row[name]


def _text_or_null(row: Object, name: str) -> str | None:
    _expect(row.get(name) is None or isinstance(row[name], str))
    return row.get(name)


def _system(row: Object) -> list[Turn]:
    text = _text_or_null(row, "system")
    return [] if text is None else [Turn("system", text)]


def _weight(row: Object, name: str = "weight") -> float | None:
    weight = row.get(name)
    if weight is None:
        return None
    _expect(type(weight) in (int, float) and abs(weight) <= FLOAT32)
    return float(weight)


def _alpaca(row: Object) -> Seen:
    instruction, given = _text(row, "instruction"), _text_or_null(row, "input")
    reply = "output" if "output" in row else "response"
    asked = f"{instruction}\n\n{given}" if given else instruction
    turns = [*_system(row), Turn("user", asked), Turn("assistant", _text(row, reply))]
    return Seen("alpaca", turns, {"instruction", "input", reply, "system"})


def _objects(value: Any) -> list[Object]:
    _expect(isinstance(value, list) and len(value) > 0)
    _expect(all(isinstance(item, Object) and not item.repeats for item in value))
    return value


def _first(turn: Object, *names: str) -> Any:
    """The first of several spellings that has a value."""
    return next((turn[name] for name in names if turn.get(name) is not None), None)


def _message(turn: Object) -> Turn:
    role = _text(turn, "role")
    calls = _first(turn, "tool_calls", "function_call")
    _expect(calls is None or isinstance(calls, list if turn.get("tool_calls") is not None else Object))
    reasoning = _text_or_null(turn, "reasoning_content")
    if reasoning is None and isinstance(turn.get("reasoning"), str):
        reasoning = turn["reasoning"]
    call_id, name = (_text_or_null(turn, key) for key in ("tool_call_id", "name"))
    content = turn.get("content")
    if isinstance(content, list):
        content, reasoning, calls = _parts(content, reasoning, calls)
    else:
        content = _text_or_null(turn, "content")
    weight = _weight(turn) if turn.get("weight") is not None else _weight(turn, "loss_weight")
    return Turn(ROLES.get(role, role), content, reasoning, calls, call_id, name, weight)


def _parts(parts: list[Any], reasoning: str | None, calls: Any) -> tuple[str | None, str | None, Any]:
    """Texts joined; reasoning that stands first, and calls, apart, unless the turn says them in another place too."""
    _expect(all(isinstance(part, Object) and not part.repeats for part in parts))
    types = [part.get("type") if isinstance(part.get("type"), str) else None for part in parts]
    is_apart = reasoning is None and calls is None and ("reasoning" in types or "tool_call" in types)
    texts, found = [], []
    for place, (part, type_) in enumerate(zip(parts, types, strict=True)):
        text = next((part[name] for name in ("text", "value") if isinstance(part.get(name), str)), None)
        if text is None:
            continue
        if type_ in TEXT_PARTS:
            texts.append(text)
        elif is_apart and type_ == "reasoning" and place == 0:
            reasoning = text
        elif is_apart and type_ == "tool_call":
            found.append(text)
    has_text = texts or not is_apart and any(type_ in IMAGE_PARTS for type_ in types)
    return "".join(texts) if has_text else None, reasoning, f"[{','.join(found)}]" if found else calls


def _messages(value: Any) -> list[Turn]:
    return [_message(turn) for turn in _objects(value)]


def _from_value(turn: Object) -> Turn:
    name, text, weight = _text(turn, "from"), _text_or_null(turn, "value"), _weight(turn)
    if name in CALLS:
        return Turn("assistant", None, calls=text, weight=weight)
    return Turn(ROLES.get(name, name), text, weight=weight)


def _conversations(value: Any) -> list[Turn]:
    return [_from_value(turn) for turn in _objects(value)]


def _side(value: Any) -> list[Turn]:
    if isinstance(value, str):
        return [Turn("assistant", value)]
    if isinstance(value, Object):
        _expect(not value.repeats)
        return [_from_value(value) if "from" in value else _message(value)]
    return _conversations(value) if "from" in _objects(value)[0] else _messages(value)


def _preference(row: Object) -> Seen:
    used = {"chosen", "rejected", "system"}
    if "messages" in row:
        name, prompt = "messages", _messages(row["messages"])
    elif "conversations" in row:
        name, prompt = "conversations", _conversations(row["conversations"])
    else:
        name = next(name for name in ("prompt", "question", "instruction") if name in row)
        prompt = _messages(row[name]) if isinstance(row[name], list) else [Turn("user", _text(row, name))]
    used.add(name)
    chosen, rejected = _side(row["chosen"]), _side(row["rejected"])
    turns = [*_system(row), *prompt, *chosen]
    _expect(any(turn.role == "user" for turn in turns))
    return Seen("preference", turns, used, _without_shared(chosen, rejected))


def _without_shared(chosen: list[Turn], rejected: list[Turn]) -> list[Turn]:
    """What is rejected, without the turns that both sides begin with; each side keeps one turn of its own."""
    longest = min(len(chosen), len(rejected)) - 1
    shared = next((n for n in range(longest) if chosen[n] != rejected[n]), longest)
    return rejected[shared:]


def _transcript(text: Any) -> list[Turn]:
    _expect(isinstance(text, str))
    marks = {"\n\nHuman:": "user", "\n\nAssistant:": "assistant"}
    _expect(text.startswith(tuple(marks)))
    turns: list[Turn] = []
    while text:
        mark = next(mark for mark in marks if text.startswith(mark))
        text = text[len(mark) :]
        end = min((place for other in marks if (place := text.find(other)) >= 0), default=len(text))
        turns.append(Turn(marks[mark], text[:end].removeprefix(" ")))
        text = text[end:]
    return turns


# --- the same of a record -----------------------------------------------------------------------------------------


def turn_of(message: dict[str, Any], seen: Turn | None) -> Turn:
    """A record's message, a trace that stood in the text back in its place."""
    content, reasoning, wrap = message["content"], message["reasoning"], message["wrap"]
    if wrap is not None:
        content, reasoning = f"{wrap['open']}{reasoning}{wrap['close']}{content}", None
    calls = message["tool_calls"]
    if calls is not None and seen is not None and isinstance(seen.calls, list | dict):
        calls = loads(calls)
    return Turn(message["role"], content, reasoning, calls, message["tool_call_id"], message["name"], message["weight"])


def turns_of(messages: list[dict[str, Any]], seen: list[Turn]) -> list[Turn]:
    padded = [*seen, *[None] * len(messages)]
    return [turn_of(message, turn) for message, turn in zip(messages, padded, strict=False)]


def rounded(turns: list[Turn]) -> list[Turn]:
    """Weights as a float32 holds them."""
    import numpy as np

    return [
        turn if turn.weight is None else Turn(**{**vars(turn), "weight": float(np.float32(turn.weight))})
        for turn in turns
    ]


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def assert_same(record: dict[str, Any], line: bytes, seen: Seen) -> None:
    assert record["provenance"]["adapter"] == seen.shape, line
    turns = rounded(seen.turns)
    assert turns_of(record["messages"], turns) == turns, line
    if seen.rejected is None:
        assert record["rejected"] is None, line
    else:
        rejected = rounded(seen.rejected)
        assert turns_of(record["rejected"], rejected) == rejected, line
    if isinstance(seen.tools, str) or seen.tools is None:
        assert record["tools"] == seen.tools, line
    else:
        assert loads(record["tools"]) == seen.tools, line
    row = loads(line.decode())
    spare = {name: value for name, value in row.items() if name not in seen.used}
    extra = loads(record["extra"]) if record["extra"] else {}
    # An id that is text or a number is a tag, and so is what fits a field in an object of metadata.
    ours = ("source", "turn_issues")
    tags = {name: value for name, value in record["metadata"].items() if value is not None and name not in ours}
    name = "idx" if seen.shape in ("questions", "reasoned") and _is_scalar(spare.get("idx")) else "id"
    if _is_scalar(spare.get(name)):
        raw, stored = spare.pop(name), tags.pop("original_id")
        assert stored == raw if isinstance(raw, str) and raw[:7] != "digits " else loads(stored) == raw, line
    if isinstance(spare.get("metadata"), dict):
        fitting = {key: value for key, value in spare["metadata"].items() if type(value) is TAGS.get(key)}
        left = {key: value for key, value in spare.pop("metadata").items() if key not in fitting}
        assert extra.pop("metadata", {}) == left, line
        assert record["metadata"]["source"] == fitting.pop("source", "s"), line
        assert tags == fitting, line
    else:
        assert tags == {}, line
    assert extra == spare, line
    assert_restored(record, line)


def assert_restored(record: dict[str, Any], line: bytes) -> None:
    """The row that export makes of a record, to the digit and in its order."""
    text = export_record(record, TARGETS["source"], False).text
    assert exact(text) == exact(line.decode()), (line, text)


def exact(text: str) -> Any:
    return json.loads(text, object_pairs_hook=lambda pairs: ("object", pairs), parse_int=_number, parse_float=_number)


def _number(text: str) -> tuple[str, str]:
    return ("number", text)
