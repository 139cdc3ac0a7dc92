"""Mutated rows through ingest: an independent reader says which are records, and both must agree on every one.

The reader below is written from the documented rules with Python's json and shares no code with curator: UTF-8, one
object a line, no key twice where fields are read, no half characters, no NaN; then the shape of the row. What it makes
of a row (roles and texts) is compared with the record, and the bytes of every other row with its quarantine.
"""

import gzip
import json
import math
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from record_samples import ingested, rows_of

from curator.io.dataset import Dataset

SAMPLES = Path(__file__).parents[2] / "sample_data"
USER, ASSISTANT, TOOL = ("user", "human", "User"), ("assistant", "gpt", "model", "chatgpt", "bot", "Assistant"), "tool"
ROLES = (
    dict.fromkeys(USER, "user") | dict.fromkeys(ASSISTANT, "assistant") | {"system": "system", "developer": "system"}
)
ROLES |= dict.fromkeys(("tool", "observation", "function", "function_response"), "tool")
ROLES |= dict.fromkeys(("function_call", "tool_call"), "assistant")
TURN_FIELDS = {"role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name", "weight"}
PAIRS = (("prompt", "completion"), ("prompt", "response"), ("question", "answer"), ("question", "response"))
Turns = list[tuple[str, str | None]]


# --- the independent reader ---------------------------------------------------------------------------------------


class Bad(Exception):
    pass


class Object(dict):
    """An object that knows whether a key came twice."""

    repeats = False


def _object(pairs: list[tuple[str, Any]]) -> Object:
    made = Object(pairs)
    made.repeats = len(made) < len(pairs)
    return made


def _refuse(word: str) -> None:
    raise Bad(word)


_HALF = re.compile("[\ud800-\udfff]")


def read(line: bytes) -> Turns:
    """Roles and texts of a row, or Bad."""
    try:
        text = line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "strict")
        row = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
    except ValueError as error:
        raise Bad(str(error)) from None
    if _HALF.search(json.dumps(row, ensure_ascii=False)):
        raise Bad("half a character")
    expect(isinstance(row, Object) and not row.repeats)
    if isinstance(row.get("metadata"), Object):
        expect(not row["metadata"].repeats)
    names = set(row)
    if "messages" in names:
        expect(not names & {"chosen", "rejected", "label"})
        return _messages(row["messages"])
    expect(not names & {"conversations", "chosen", "rejected", "text"})
    if "instruction" in names and names & {"output", "response"}:
        return _alpaca(row)
    for ask, reply in PAIRS:
        if {ask, reply} <= names:
            return [*_system(row), ("user", _text(row, ask)), ("assistant", _text(row, reply))]
    raise Bad("no shape")


def expect(is_so: bool) -> None:
    if not is_so:
        raise Bad


def _text(row: Object, name: str) -> str:
    expect(isinstance(row.get(name), str))
    return row[name]


def _text_or_null(row: Object, name: str) -> str | None:
    expect(row.get(name) is None or isinstance(row[name], str))
    return row.get(name)


def _system(row: Object) -> Turns:
    text = _text_or_null(row, "system")
    return [] if text is None else [("system", text)]


def _alpaca(row: Object) -> Turns:
    instruction, given = _text(row, "instruction"), _text_or_null(row, "input")
    answer = _text(row, "output" if "output" in row else "response")
    asked = f"{instruction}\n\n{given}" if given else instruction
    return [*_system(row), ("user", asked), ("assistant", answer)]


def _messages(messages: Any) -> Turns:
    expect(isinstance(messages, list) and len(messages) > 0)
    turns: Turns = []
    for turn in messages:
        expect(isinstance(turn, Object) and not turn.repeats)
        expect(set(turn) <= TURN_FIELDS and turn.get("role") in ROLES if isinstance(turn.get("role"), str) else False)
        calls, weight = turn.get("tool_calls"), turn.get("weight")
        expect(calls is None or isinstance(calls, list))
        expect(weight is None or (type(weight) in (int, float) and math.isfinite(weight)))
        for name in ("reasoning_content", "tool_call_id", "name"):
            _text_or_null(turn, name)
        turns.append((ROLES[turn["role"]], _text_or_null(turn, "content")))
    return turns


def turns_of_record(record: dict[str, Any]) -> Turns:
    """The same of a record, with a trace back in its place."""
    turns: Turns = []
    for message in record["messages"]:
        wrap, content = message["wrap"], message["content"]
        if wrap is not None:
            content = f"{wrap['open']}{message['reasoning']}{wrap['close']}{content}"
        turns.append((message["role"], content))
    return turns


# --- mutants ------------------------------------------------------------------------------------------------------

NAMES = ["x", "id", "metadata", "system", "tools", "input", "output", "response", "role", "content", "weight", "name"]
VALUES = [
    None,
    True,
    0,
    -1.5,
    10**30,
    "",
    "text",
    [],
    {},
    ["a", None],
    {"a": {"a": 1}},
    "\u2028\u0000\ue000",
    "<think>",
]
SPOILS = ["\\ud83d", "\\udc00\\ud83d", "\\ud83d\\ude00", "\\u0000", "\\x", "\x01", "\u0085", "NaN", '"', "\\", "\ufeff"]
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
    row[generator.choice(["x", "note", "ü", "id", "tools"])] = generator.choice(VALUES)
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


def _nested(generator: random.Random, row: Any) -> Any:
    if generator.random() < 0.3:
        return generator.choice([[row], {"row": row}, [[]], row.get("messages"), 7])
    name = generator.choice(list(row))
    value = row[name]
    for _ in range(generator.choice([1, 1, 3, 40])):
        value = [value] if generator.random() < 0.5 else {"a": value}
    return {**row, (name if generator.random() < 0.3 else "deep"): value}


def _cut(generator: random.Random, line: bytes) -> bytes:
    place = generator.randrange(1, len(line))
    return generator.choice([line[:place], line[place:], line[: place - 1] + line[place:]])


def _doubled(generator: random.Random, line: bytes) -> bytes:
    start = generator.randrange(len(line))
    part = line[start : start + generator.choice([1, 2, 20])]
    whole = generator.choice([line + line, line + b" " + line, line[:start] + part + line[start:]])
    return whole if generator.random() < 0.5 else b'{"x":1,' + line[1:-1] + b',"x":2}'


def _flipped(generator: random.Random, line: bytes) -> bytes:
    data = bytearray(line)
    for _ in range(generator.choice([1, 1, 2])):
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    return bytes(data)


def _spoilt(generator: random.Random, line: bytes) -> bytes:
    """Something awkward in the middle of a text."""
    text = line.decode()
    places = [match.end() for match in re.finditer(r": ?\"", text)]
    place = generator.choice(places) if places else len(text) // 2
    return (text[:place] + generator.choice(SPOILS) + text[place:]).encode()


def _spaced(generator: random.Random, line: bytes) -> bytes:
    blank = generator.choice([b" ", b"\t", b"  \t", b"\r"])
    return generator.choice([blank + line, line + blank, line + b"\r", b"\xef\xbb\xbf" + line, line])


MUTATIONS: list[tuple[Mutation, int]] = [
    (_cut, 2),
    (_doubled, 2),
    (_flipped, 3),
    (_spoilt, 3),
    (_spaced, 3),
    (_changed(_retyped), 3),
    (_changed(_added), 3),
    (_changed(_extra), 3),
    (_changed(_renamed), 2),
    (_changed(_removed), 2),
    (_changed(_reordered), 2),
    (_changed(_nested), 2),
]


def mutants(seed: int, count: int, lines: list[bytes]) -> Iterator[bytes]:
    generator = random.Random(seed)
    kinds, weights = zip(*MUTATIONS, strict=True)
    while count:
        (mutate,) = generator.choices(kinds, weights)
        line = mutate(generator, generator.choice(lines)).replace(b"\n", b" ")
        if line.strip(b" \t\r\xef\xbb\xbf"):
            yield line
            count -= 1


# --- lines to begin with ------------------------------------------------------------------------------------------


def sample_lines() -> list[bytes]:
    packed = (SAMPLES / "messages.jsonl.zst").read_bytes()
    lines = zstandard.ZstdDecompressor().stream_reader(packed).read().splitlines()
    for name in ("alpaca_metadata.jsonl", "prompt_completion.jsonl"):
        lines += (SAMPLES / name).read_bytes().splitlines()
    lines += [
        json.dumps(row, ensure_ascii=False).encode() for row in json.loads((SAMPLES / "alpaca.json").read_bytes())
    ]
    return [line for line in lines if len(line) < 3000]


def real_lines(folder: Path) -> list[bytes]:
    lines: list[bytes] = []
    for pattern in (
        "alpaca_en/*.json.gz",
        "gsm8k/*.jsonl",
        "t0_p3/*.jsonl",
        "huatuo_med_zh/*.json",
        "gpteacher/*.json",
    ):
        for path in sorted(folder.glob(pattern))[:3]:
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            if data.lstrip()[:1] == b"[":
                found = [json.dumps(row, ensure_ascii=False).encode() for row in json.loads(data)]
            else:
                found = data.splitlines()
            lines += [line for line in found[::7] if 2 < len(line) < 3000]
    return lines


def agree(tmp_path: Path, lines: list[bytes], count: int, seed: int) -> None:
    """Ingest the mutants and compare each with the reader's verdict."""
    made = list(mutants(seed, count, lines))
    raw = tmp_path / "raw.jsonl"
    # A sound row first: the container is read off the beginning of the file.
    raw.write_bytes(b"\n".join([lines[0], *made]) + b"\n")
    data = raw.read_bytes()
    outcome = ingested(raw, tmp_path / "d")
    records = {int(row["id"].rpartition("#")[2]): row for row in rows_of(tmp_path / "d", ["id", "messages"])}
    bad = {row["row"]: row for batch in Dataset.open(tmp_path / "d").quarantine() for row in batch.to_pylist()}
    assert outcome.ledger.read == count + 1 == len(records) + len(bad)
    valid = 0
    for number, line in enumerate(made, 1):
        try:
            expected = read(line)
        except Bad as error:
            assert number in bad, f"taken, but should not be ({error}): {line!r}"
            # A row is its line without a byte order mark and outer blanks; its offset is where the line begins, with
            # mark and blanks (shards are cut by it, so it may not depend on what a line holds).
            row = bad[number]
            assert row["raw"] == line.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r"), line
            assert data.startswith(line + b"\n", row["byte_offset"]), line
            continue
        valid += 1
        assert number in records, f"refused ({bad[number]['reason']}): {line!r}"
        assert turns_of_record(records[number]) == expected, line
    assert valid >= 0.4 * count, f"only {valid} of {count} mutants are valid"
    assert count - valid >= 0.1 * count, f"only {count - valid} of {count} mutants are not"


def test_ten_thousand_mutated_sample_lines(tmp_path: Path) -> None:
    agree(tmp_path, sample_lines(), 10_000, 1)


def test_ten_thousand_more_of_real_lines(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Without real data, sample lines under another seed: the number stays twenty thousand."""
    import os

    lines = real_lines(request.getfixturevalue("real_data")) if os.environ.get("CURATOR_REAL_DATA") else sample_lines()
    agree(tmp_path, lines, 10_000, 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 20))
def test_two_hundred_thousand(tmp_path: Path, real_data: Path, seed: int) -> None:
    agree(tmp_path, [*sample_lines(), *real_lines(real_data)], 20_000, seed)
