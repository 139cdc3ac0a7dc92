"""Mutated raw rows: cut, doubled, flipped, nested, retyped, and more; and the rows that they begin as."""

import gzip
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import zstandard
from row_reader import BOM, LEVELS, Bad, read

SAMPLES = Path(__file__).parents[2] / "sample_data"


# --- mutants ------------------------------------------------------------------------------------------------------

NAMES = ["x", "id", "metadata", "system", "tools", "input", "output", "response", "role", "content", "weight", "name"]
NAMES += ["from", "value", "messages", "conversations", "chosen", "rejected", "label", "text", "prompt", "question"]
NAMES += ["answer", "completion", "instruction", "tool_calls", "tool_call_id", "reasoning_content", "reasoning"]
NAMES += ["function_call", "loss_weight"]
TURN, PAIR = {"role": "user", "content": "a"}, {"from": "human", "value": "a"}
VALUES = [
    *[None, True, 0, -1.5, 10**30, 10**310, 1e300, "", "text", [], {}, ["a", None], {"a": {"a": 1}}],
    *["\u2028\u0000\ue000", "<think>", "<think>a</think>b", "\n\nHuman: a\n\nAssistant: b", "\n\nAssistant:\n\nHuman:"],
    *[[{"type": "text", "text": "a"}], [{"type": "reasoning", "value": "r"}, {"value": "b", "type": "text", "x": 1}]],
    *[
        [{"type": "tool_call", "value": "{}"}, {"type": "image"}],
        "<Thought>a</Thought>\r\n<Output>b</Output>",
        "narrator",
    ],
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
