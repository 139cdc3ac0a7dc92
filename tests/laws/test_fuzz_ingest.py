"""Mutated rows through ingest: an independent reader says which are records, and both must agree on every one.

The reader below is written from the documented rules with Python's json and shares no code with curator. Bytes: UTF-8,
line feeds between rows; a byte order mark and blanks around a row are no part of it. JSON: an object, no key twice
where fields are read, no half characters, no NaN, at most 128 levels. Then the shape: which fields make which turns.
Every row is compared: a record's turns, tools and unmapped fields with what the reader saw, a bad row's bytes with its
quarantine.
"""

import gzip
import json
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import zstandard
from record_samples import ingested, rows_of

from curator.io import raw as raw_files
from curator.io.dataset import Dataset
from curator.pipeline.passes import Options, run_pass
from curator.stages.base import Stage
from curator.stages.classify.label import Domain
from curator.stages.classify.language import Language
from curator.stages.dedup.exact import Exact
from curator.stages.dedup.near import Near
from curator.stages.filter.where import Where
from curator.stages.tag.signals import Signals
from curator.stages.tag.tokens import Tokens

SAMPLES = Path(__file__).parents[2] / "sample_data"
USER, ASSISTANT = ("user", "human", "User"), ("assistant", "gpt", "model", "chatgpt", "bot", "Assistant")
CALLS = ("function_call", "tool_call")
ROLES = (
    dict.fromkeys(USER, "user")
    | dict.fromkeys((*ASSISTANT, *CALLS), "assistant")
    | dict.fromkeys(("system", "developer"), "system")
    | dict.fromkeys(("tool", "observation", "function", "function_response"), "tool")
)
TURN_FIELDS = {"role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name", "weight"}
PAIRS = (("prompt", "completion"), ("prompt", "response"), ("question", "answer"), ("question", "response"))
TAGS: dict[str, type] = {"reasoning_trace": bool}
TAGS |= dict.fromkeys(("source", "domain", "task_type", "difficulty", "language", "license", "teacher"), str)
BOM, BLANKS = b"\xef\xbb\xbf", b" \t\r"
LEVELS, FLOAT32 = 128, 3.4028234663852886e38


# --- the independent reader ---------------------------------------------------------------------------------------


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


def _int(digits: str) -> Any:
    # Python refuses to make a number of so many digits; here it only has to equal itself.
    return int(digits) if len(digits) < 4000 else f"digits {digits}"


def loads(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse, parse_int=_int)


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
    names = set(row)
    both = {"chosen", "rejected"} <= names
    neither = not names & {"chosen", "rejected"}
    if "messages" in names and neither and "label" not in names:
        return Seen("openai", _messages(row["messages"]), {"messages", "tools"}, tools=row.get("tools"))
    if "conversations" in names and neither:
        turns = [*_system(row), *_conversations(row["conversations"])]
        return Seen("sharegpt", turns, {"conversations", "tools", "system"}, tools=row.get("tools"))
    if both and names & {"prompt", "question", "instruction", "conversations", "messages"}:
        return _preference(row)
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
        return Seen("transcripts", _transcript(row["text"]), {"text"})
    raise Bad("no shape")


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


def _weight(row: Object) -> float | None:
    weight = row.get("weight")
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


def _message(turn: Object) -> Turn:
    _expect(set(turn) <= TURN_FIELDS and _text(turn, "role") in ROLES)
    calls = turn.get("tool_calls")
    _expect(calls is None or isinstance(calls, list))
    content, reasoning, call_id, name = (
        _text_or_null(turn, key) for key in ("content", "reasoning_content", "tool_call_id", "name")
    )
    return Turn(ROLES[turn["role"]], content, reasoning, calls, call_id, name, _weight(turn))


def _messages(value: Any) -> list[Turn]:
    return [_message(turn) for turn in _objects(value)]


def _from_value(turn: Object) -> Turn:
    _expect(set(turn) <= {"from", "value", "weight"} and _text(turn, "from") in ROLES)
    text, weight = _text_or_null(turn, "value"), _weight(turn)
    if turn["from"] in CALLS:
        return Turn("assistant", None, calls=text, weight=weight)
    return Turn(ROLES[turn["from"]], text, weight=weight)


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
    used, prompt = {"chosen", "rejected", "system"}, []
    for name, read_turns in (("conversations", _conversations), ("messages", _messages)):
        if name in row:
            prompt = read_turns(row[name])
            used.add(name)
    if len(used) == 3:
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
    if calls is not None and seen is not None and isinstance(seen.calls, list):
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
    tags = {name: value for name, value in record["metadata"].items() if value is not None and name != "source"}
    if isinstance(spare.get("id"), str | int | float) and not isinstance(spare["id"], bool):
        raw_id, stored = spare.pop("id"), tags.pop("original_id")
        assert stored == raw_id if isinstance(raw_id, str) and raw_id[:7] != "digits " else loads(stored) == raw_id, (
            line
        )
    if isinstance(spare.get("metadata"), dict):
        fitting = {key: value for key, value in spare["metadata"].items() if type(value) is TAGS.get(key)}
        left = {key: value for key, value in spare.pop("metadata").items() if key not in fitting}
        assert extra.pop("metadata", {}) == left, line
        assert record["metadata"]["source"] == fitting.pop("source", "s"), line
        assert tags == fitting, line
    else:
        assert tags == {}, line
    assert extra == spare, line


# --- mutants ------------------------------------------------------------------------------------------------------

NAMES = ["x", "id", "metadata", "system", "tools", "input", "output", "response", "role", "content", "weight", "name"]
NAMES += ["from", "value", "messages", "conversations", "chosen", "rejected", "label", "text", "prompt", "question"]
NAMES += ["answer", "completion", "instruction", "tool_calls", "tool_call_id", "reasoning_content"]
TURN, PAIR = {"role": "user", "content": "a"}, {"from": "human", "value": "a"}
VALUES = [
    *[None, True, 0, -1.5, 10**30, 10**310, 1e300, "", "text", [], {}, ["a", None], {"a": {"a": 1}}],
    *["\u2028\u0000\ue000", "<think>", "<think>a</think>b", "\n\nHuman: a\n\nAssistant: b", "\n\nAssistant:\n\nHuman:"],
    *[[TURN], [PAIR], TURN, PAIR, [TURN, PAIR], [{**TURN, "role": "assistant"}], "human", "gpt", "function_call"],
]
EXTRAS = ["x", "note", "ü", "id", "tools", 'a"b', "a\\"]
SPOILS = [
    "\\ud83d",
    "\\\\ud83d",
    "\\udc00\\ud83d",
    "\\ud83d\\ude00",
    "\\u0000",
    "\\x",
    "\x01",
    "\u0085",
    "NaN",
    '"',
    "\\",
    "\ufeff",
]
NUMBERS = ["7" * 5000, "-0", "1e999", "1E+2", "01", "1.", "-", "9" * 400 + ".5", "Infinity", "0x1"]
Mutation = Callable[[random.Random, bytes], bytes]


def _changed(change: Callable[[random.Random, Any], Any]) -> Mutation:
    """A mutation of the decoded row, written again in one of several styles."""

    def mutate(generator: random.Random, line: bytes) -> bytes:
        row = change(generator, json.loads(line))
        separators = generator.choice([None, (",", ":"), (" ,\t", " : ")])
        return json.dumps(row, ensure_ascii=generator.random() < 0.5, separators=separators).encode()

    return mutate


def _spot(generator: random.Random, row: Any) -> Any:
    """Some object of the row: itself, or one inside."""
    inside = [row, *(value for value in row.values() if isinstance(value, dict))] if isinstance(row, dict) else []
    for value in row.values() if isinstance(row, dict) else ():
        if isinstance(value, list):
            inside += [item for item in value if isinstance(item, dict)]
    return generator.choice(inside) if inside else {}


def _retyped(generator: random.Random, row: Any) -> Any:
    spot = _spot(generator, row)
    if spot:
        spot[generator.choice(list(spot))] = generator.choice(VALUES)
    return row


def _added(generator: random.Random, row: Any) -> Any:
    _spot(generator, row)[generator.choice(NAMES)] = generator.choice(VALUES)
    return row


def _extra(generator: random.Random, row: Any) -> Any:
    row[generator.choice(EXTRAS)] = generator.choice(VALUES)
    return row


def _renamed(generator: random.Random, row: Any) -> Any:
    spot = _spot(generator, row)
    if spot:
        name = generator.choice(list(spot))
        spot[generator.choice([*NAMES, name.upper(), f"{name} "])] = spot.pop(name)
    return row


def _removed(generator: random.Random, row: Any) -> Any:
    spot = _spot(generator, row)
    if spot:
        del spot[generator.choice(list(spot))]
    return row


def _reordered(generator: random.Random, row: Any) -> Any:
    return dict(generator.sample(list(row.items()), len(row)))


def _repeated(generator: random.Random, row: Any) -> Any:
    """A turn twice, or turns in another order."""
    for name, value in row.items():
        if isinstance(value, list) and value:
            again = (
                [*value, generator.choice(value)] if generator.random() < 0.5 else generator.sample(value, len(value))
            )
            return {**row, name: again}
    return row


def _nested(generator: random.Random, row: Any) -> Any:
    if generator.random() < 0.2:
        return generator.choice([[row], {"row": row}, [[]], row.get("messages"), 7])
    name = generator.choice(list(row))
    value = row[name]
    for _ in range(generator.choice([1, 1, 3, 40])):
        value = [value] if generator.random() < 0.5 else {"a": value}
    return {**row, (name if generator.random() < 0.3 else "deep"): value}


def _deep(generator: random.Random, line: bytes) -> bytes:
    depth = generator.choice([3, 100, LEVELS - 1, LEVELS, 3000])
    opening, closing = generator.choice([(b"[", b"]"), (b'{"a":', b"}")])
    return line[:-1] + b',"deep":' + opening * depth + (b"1" if opening != b"[" else b"") + closing * depth + b"}"


def _cut(generator: random.Random, line: bytes) -> bytes:
    place = generator.randrange(1, len(line))
    return generator.choice([line[:place], line[place:], line[: place - 1] + line[place:]])


def _doubled(generator: random.Random, line: bytes) -> bytes:
    start = generator.randrange(len(line))
    part = line[start : start + generator.choice([1, 2, 20])]
    whole = generator.choice([line + line, line + b" " + line, line[:start] + part + line[start:]])
    return whole if generator.random() < 0.5 else b'{"x":1,' + line[1:-1] + b',"x":2}'


def _key_again(generator: random.Random, line: bytes) -> bytes:
    """A key of some object once more, now and then in another spelling."""
    keys = list(re.finditer(rb'[{,] ?"((?:[^"\\]|\\.)*)" ?:', line))
    if not keys:
        return line
    match = generator.choice(keys)
    key = match[1].decode()
    if generator.random() < 0.5 and key and "\\" not in key:
        place = generator.randrange(len(key))
        key = key[:place] + f"\\u{ord(key[place]) & 0xFFFF:04x}" + key[place + 1 :]
    again = f'"{key}":{generator.choice(["null", "1", chr(34) + "a" + chr(34)])},'.encode()
    return line[: match.start() + 1] + again + line[match.start() + 1 :]


def _flipped(generator: random.Random, line: bytes) -> bytes:
    data = bytearray(line)
    for _ in range(generator.choice([1, 1, 2])):
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    return bytes(data)


def _spoilt(generator: random.Random, line: bytes) -> bytes:
    """Something awkward at the head of a text, or of a text inside one that is JSON."""
    text = line.decode()
    places = [match.end() for match in re.finditer(r': ?\\*"', text)]
    place = generator.choice(places) if places else len(text) // 2
    return (text[:place] + generator.choice(SPOILS) + text[place:]).encode()


def _escaped(generator: random.Random, line: bytes) -> bytes:
    """Letters as escapes, in texts and in keys."""
    text = line.decode()
    for _ in range(generator.choice([1, 3])):
        place = generator.choice([match.start() for match in re.finditer(r"(?<!\\)[a-zA-Z ]", text)] or [0])
        text = text[:place] + f"\\u{ord(text[place]):04X}" + text[place + 1 :]
    return text.encode()


def _numbered(generator: random.Random, line: bytes) -> bytes:
    name = generator.choice([b"x", b"id", b"weight", b"metadata"])
    return line[:-1] + b', "%b": %b}' % (name, generator.choice(NUMBERS).encode())


def _spaced(generator: random.Random, line: bytes) -> bytes:
    blank = generator.choice([b" ", b"\t", b"  \t", b"\r", b"\n", b"\r\n", b" \n \n", b"\x0c", b"\xc2\xa0", BOM])
    place = generator.randrange(len(line))
    changed = line[:place] + blank + line[place:] if generator.random() < 0.2 else line
    return generator.choice([blank + line, line + blank, BOM + blank + line, blank + BOM + line, changed, line])


MUTATIONS: list[tuple[Mutation, int]] = [
    (_cut, 2),
    (_doubled, 2),
    (_key_again, 1),
    (_flipped, 4),
    (_spoilt, 3),
    (_escaped, 3),
    (_numbered, 2),
    (_spaced, 4),
    (_deep, 1),
    (_changed(_retyped), 4),
    (_changed(_added), 4),
    (_changed(_extra), 3),
    (_changed(_renamed), 2),
    (_changed(_removed), 2),
    (_changed(_reordered), 2),
    (_changed(_repeated), 2),
    (_changed(_nested), 2),
]


def mutants(seed: int, count: int, lines: list[bytes]) -> Iterator[bytes]:
    """Mutants, the same for the same seed and lines. A mutant may hold line feeds, and then it is several rows."""
    generator = random.Random(seed)
    kinds, weights = zip(*MUTATIONS, strict=True)
    for _ in range(count):
        (mutate,) = generator.choices(kinds, weights)
        yield mutate(generator, generator.choice(lines))


# --- lines to begin with ------------------------------------------------------------------------------------------

REAL = [
    "alpaca_en",
    "alpaca_zh",
    "alpaca_zh_extra",
    "alpagasus",
    "belle_dev",
    "codealpaca",
    "dataflow_examples",
    "datajuicer_demo",
    "dialogstudio",
    "gpteacher",
    "gsm8k",
    "hh_rlhf",
    "huatuo_med_zh",
    "llamafactory_demo",
    "marco_o1_cot",
    "moss_003_sft",
    "qwen_math_eval",
    "safety_tuned_llamas",
    "self_instruct",
    "skythought_traces",
    "t0_p3",
    "torchtune_assets",
    "truthfulqa",
    "vicuna_eval_table",
    "axolotl_fixtures",
]


def rows_in(path: Path) -> Iterator[bytes]:
    """The rows of a file that are whole objects of at most 3,000 bytes."""
    data = path.read_bytes()
    if path.suffix in (".gz", ".zst"):
        data = (
            gzip.decompress(data) if path.suffix == ".gz" else zstandard.ZstdDecompressor().stream_reader(data).read()
        )
    if data.lstrip()[:1] == b"[":
        try:
            found = [json.dumps(row, ensure_ascii=False).encode() for row in json.loads(data)]
        except ValueError:  # some real files are damaged
            return
    else:
        found = data.split(b"\n")
    yield from (row for row in map(bytes.strip, found) if 20 < len(row) < 3000 and row[:1] == b"{" and row[-1:] == b"}")


def sample_lines() -> list[bytes]:
    names = [
        "messages.jsonl.zst",
        "alpaca_metadata.jsonl",
        "prompt_completion.jsonl",
        "alpaca.json",
        "preference.jsonl",
    ]
    names += ["transcripts.jsonl.gz", "chats/agents.jsonl.gz", "chats/talk.jsonl.gz"]
    return [line for name in names for line in list(rows_in(SAMPLES / name))[:150]]


def real_lines(folder: Path) -> list[bytes]:
    """At most 20 readable rows of each file and 80 of each set."""
    lines: list[bytes] = []
    for name in REAL:
        of_set: list[bytes] = []
        for path in sorted((folder / name).rglob("*")):
            if path.suffix in (".json", ".jsonl", ".gz") and path.stat().st_size < 4 << 20 and len(of_set) < 80:
                of_set += readable(rows_in(path), 20)
        lines += of_set
    return lines


def readable(rows: Iterable[bytes], count: int) -> list[bytes]:
    taken: list[bytes] = []
    bad = 0
    for row in rows:
        try:
            json.loads(row)
            read(row)
        except (Bad, ValueError):
            bad += 1
            continue
        taken.append(row)
        if len(taken) == count or bad > 20:
            break
    return taken


# --- the comparison -----------------------------------------------------------------------------------------------


@dataclass
class Rows:
    """What a folder made of the rows of one file, by number."""

    records: dict[int, dict[str, Any]]
    bad: dict[int, dict[str, Any]]

    @classmethod
    def of(cls, path: Path, out: Path) -> "Rows":
        ledger = ingested(path, out, shard_bytes=1 << 20).ledger
        columns = ["id", "messages", "rejected", "tools", "metadata", "extra", "provenance"]
        records = {row["provenance"]["row"]: row for row in rows_of(out, columns)}
        bad = {row["row"]: row for batch in Dataset.open(out).quarantine() for row in batch.to_pylist()}
        assert ledger.read == ledger.kept + sum(ledger.quarantined.values()) == len(records) + len(bad)
        assert not records.keys() & bad.keys()
        return cls(records, bad)

    def is_record(self, number: int, row: bytes, begin: int) -> bool:
        """Whether a row is a record, which must be what the reader says too."""
        try:
            seen = read(row)
        except Bad as error:
            assert number in self.bad, f"taken, but should not be ({error}): {row!r}"
            # The offset is where the line begins, with mark and blanks: shards are cut by it.
            assert self.bad[number]["raw"] == row and self.bad[number]["byte_offset"] == begin, row
            return False
        assert number in self.records, f"refused ({self.bad[number]['reason']}): {row!r}"
        assert self.records[number]["provenance"]["byte_offset"] == begin, row
        assert_same(self.records[number], row, seen)
        return True


def agree(tmp_path: Path, lines: list[bytes], count: int, seed: int) -> None:
    """Ingest the mutants as lines and compare each with the reader's verdict."""
    # A sound row first: the container is read off the beginning of the file.
    made = [lines[0], *mutants(seed, count, lines)]
    data = b"\n".join(made) + b"\n"
    (tmp_path / "raw.jsonl").write_bytes(data)
    rows = Rows.of(tmp_path / "raw.jsonl", tmp_path / "lines")
    number = begin = valid = 0
    for mutant in made:
        verdicts = []
        for line in mutant.split(b"\n"):
            if row := line.removeprefix(BOM).strip(BLANKS):
                verdicts.append(rows.is_record(number, row, begin))
                number += 1
            begin += len(line) + 1
        valid += all(verdicts) and bool(verdicts)
    assert number == len(rows.records) + len(rows.bad)
    assert valid >= 0.4 * count, f"only {valid} of {count} mutants are valid"
    assert count - valid >= 0.2 * count, f"only {count - valid} of {count} mutants are not"


def agree_in_array(tmp_path: Path, lines: list[bytes], count: int, seed: int) -> None:
    """The same for mutants that are JSON, as elements of one array."""
    made = [lines[0], *(mutant.strip(BLANKS + b"\n") for mutant in mutants(seed, count, lines) if is_json(mutant))]
    data = b"[\n" + b" ,\n".join(made) + b"]\n"
    (tmp_path / "raw.json").write_bytes(data)
    rows = Rows.of(tmp_path / "raw.json", tmp_path / "array")
    begin = 2
    for number, mutant in enumerate(made):
        rows.is_record(number, mutant, begin)
        begin += len(mutant) + 3
    assert len(made) == len(rows.records) + len(rows.bad)


def is_json(mutant: bytes) -> bool:
    try:
        json.loads(mutant, parse_int=_int)
    except (ValueError, RecursionError):
        return False
    return True


def test_eight_thousand_mutated_sample_lines(tmp_path: Path) -> None:
    agree(tmp_path, sample_lines(), 8_000, 1)


def test_twelve_thousand_of_real_lines(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Without real data, sample lines under another seed: the number stays twenty thousand."""
    lines = real_lines(request.getfixturevalue("real_data")) if os.environ.get("CURATOR_REAL_DATA") else sample_lines()
    agree(tmp_path, lines, 12_000, 2)


@pytest.mark.parametrize("block", [1000, 8 << 20])
def test_mutants_as_elements_of_an_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(raw_files, "BLOCK_BYTES", block)
    agree_in_array(tmp_path, sample_lines(), 2_000, 3)


STAGES: list[Stage] = [
    Signals(),
    Language(),
    Domain(),
    Tokens(str(SAMPLES / "tiny-model")),
    Exact(on="prompt"),
    Near(on="response", threshold=0.5),
    Where("scores.num_tokens.value > 20 or scores.num_tokens.value is null"),
]


def test_what_is_kept_goes_through_every_stage(tmp_path: Path) -> None:
    lines = sample_lines()
    with_json_inside = [line for line in lines if b'{\\"' in line]
    made = [lines[0], *mutants(4, 1_000, lines), *mutants(5, 1_500, with_json_inside)]
    (tmp_path / "raw.jsonl").write_bytes(b"\n".join(made))
    folder = tmp_path / "lines"
    kept = ingested(tmp_path / "raw.jsonl", folder).ledger.kept
    for number, stage in enumerate(STAGES):
        outcome = run_pass([folder], [stage], tmp_path / f"{number}", Options(workers=1))
        folder = outcome.out
        assert outcome.ledger.read == kept and outcome.ledger.problem() is None
        kept = outcome.ledger.kept
    assert 300 < kept < 1_500


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 20))
def test_two_hundred_thousand(tmp_path: Path, real_data: Path, seed: int) -> None:
    agree(tmp_path, [*sample_lines(), *real_lines(real_data)], 20_000, seed)
    agree_in_array(tmp_path, real_lines(real_data), 2_000, seed)
