"""Law 7, hard text goes everywhere, and what Arrow cannot hold is quarantined with its bytes."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from law_samples import SAMPLES, curator, parquet_rows
from record_samples import ingested, write_lines

from curator.io.stream import StreamReader

HARD = {
    "empty": "",
    "one": "a",
    "one_wide": "漢",
    "space": " ",
    "space_runs": "  a \t b \r\n ",
    "line_feeds": "\n\n\n",
    "carriage": "a\rb\r\nc",
    "cjk": "今日は天気がいいから散歩しましょう" * 40,
    "nul": "before\u0000after",
    "nul_prefix": "Before",
    "sharp": "straße",
    "sharp_upper": "STRASSE",
    "only_nul": "\u0000",
    "separators": "a\u2028b\u0085c\u2029d\u000bz\u000cy\u001cx",
    "rtl": "שלום \u202eעולם\u202c مرحبا",
    "marks_of_order": "\ufefftext\u200b\u200d\u2060",
    "control_tokens": "<|im_start|>system\nobey<|im_end|><|endoftext|></s>[INST] <<SYS>>",
    "escape": "\u001b[2J\u001b]0;title\u0007 \u009b31m",
    "zalgo": "e" + "\u0301" * 200,
    "astral": "😀👩‍👩‍👧‍👦🏴󠁧󠁢󠁳󠁣󠁴󠁿 𝔘𝔫𝔦 \U0010ffff",
    "noncharacters": "\ufffe\uffff\ufdd0",
    "json": '{"a": "\\u0000", "b": [null]}',
    "template": "{{ messages }} {% raw %} {# x #}",
    "markup": "<think>",
    "separators_of_selectors": "\u001e\u001f\u001e\u001e\u0003\u0004",
    "number": "1e999",
    "null": "null",
    "quotes": '"\'`\\\\\\"',
    "long_word": "x" * 20_000,
}
NAMES = list(HARD)
RULES = "scores.num_prompt_chars.value >= 0 and len(messages) = 6"


def lines() -> list[dict[str, Any]]:
    """Each text as prompt, as answer, as system text, tool call and extra field."""
    rows = []
    for name, text in HARD.items():
        turns = [
            {"role": "system", "content": text},
            {"role": "user", "content": text, "name": text},
            {"role": "assistant", "content": text, "reasoning_content": text},
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": text, "arguments": text}}]},
            {"role": "tool", "content": text, "tool_call_id": text},
            {"role": "assistant", "content": f"{name}: {text}"},
        ]
        rows.append({"messages": turns, "tools": tools_of(text), "note": {text: text}, "id": name})
    return rows


def calls_of(text: str) -> str:
    return json.dumps([{"function": {"name": text, "arguments": text}}], ensure_ascii=False)


def tools_of(text: str) -> str:
    return json.dumps([{"name": text, "description": text}], ensure_ascii=False)


def assert_untouched(rows: list[dict[str, Any]]) -> None:
    """Every record holds the text that went in, in every place."""
    for row in rows:
        name = row["metadata"]["original_id"]
        text = HARD[name]
        system, user, answer, call, result, last = row["messages"]
        assert system["content"] == user["content"] == answer["content"] == result["content"] == text
        assert user["name"] == answer["reasoning"] == result["tool_call_id"] == text
        assert call["content"] is None and call["tool_calls"] == calls_of(text)
        assert last["content"] == f"{name}: {text}"
        assert row["tools"] == tools_of(text)
        assert json.loads(row["extra"]) == {"note": {text: text}}


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lines(tmp_path_factory.mktemp("hard") / "hard.jsonl", lines())


@pytest.fixture(scope="module")
def chain(raw: Path) -> dict[str, Path]:
    """The hard texts through every step, each a command: its words, and its settings behind the input."""
    commands: dict[str, tuple[list[str], list[Any]]] = {
        "ingest": (["ingest"], [raw, "--source", "hard"]),
        "signals": (["tag", "signals"], []),
        "tokens": (["tag", "tokens"], ["--tokenizer", SAMPLES / "tiny-model"]),
        "language": (["classify", "language"], []),
        "domain": (["classify", "domain"], []),
        "difficulty": (["classify", "difficulty"], []),
        "metadata": (["tag", "metadata"], ["--set", "topic='hard'", "--where", "kind = 'sft'"]),
        "exact": (["dedup", "exact"], ["--on", "conversation"]),
        "prompt": (["dedup", "exact"], ["--on", "prompt", "--normalise", "case"]),
        "near": (["dedup", "near"], ["--on", "response", "--unit", "characters", "--threshold", "1"]),
        "where": (["filter", "where"], [RULES]),
        "sample": (["sample"], ["--rows", 1000]),
        "concat": (["concat"], []),
        "mix": (["mix"], []),
    }
    before: list[Any] = []
    folders = {}
    for name, (words, settings) in commands.items():
        folders[name] = raw.parent / name
        curator(*words, *before, *settings, "--out", folders[name])
        before = [folders[name]]
    return folders


def test_text_after_parquet_is_the_text_that_went_in(chain: dict[str, Path]) -> None:
    assert [row["metadata"]["original_id"] for row in parquet_rows(chain["ingest"])] == NAMES
    for folder in chain.values():
        rows = parquet_rows(folder)
        assert_untouched(rows)
        assert_untouched(parquet_rows(folder, "rejects"))
    for step in ("ingest", "signals", "tokens", "language", "domain", "metadata", "exact"):
        assert len(parquet_rows(chain[step])) == len(HARD)
    for step in ("where", "sample", "concat", "mix"):
        assert len(parquet_rows(chain[step])) == len(parquet_rows(chain["prompt"]))


def test_no_text_is_taken_for_another(chain: dict[str, Path]) -> None:
    """B019 and more: hashes and duplicates see the whole text; only what is equal is equal."""
    rows = parquet_rows(chain["ingest"])
    assert len({row["content_hash"] for row in rows}) == len(HARD)
    kept = {row["metadata"]["original_id"] for row in parquet_rows(chain["prompt"])}
    dropped = {row["metadata"]["original_id"] for row in parquet_rows(chain["prompt"], "rejects")}
    expected: dict[str, str] = {}
    for name, text in HARD.items():
        if text.strip():
            expected.setdefault(text.casefold(), name)
    blank = {name for name, text in HARD.items() if not text.strip()}
    assert kept == {*expected.values(), *blank}
    assert dropped == set(NAMES) - kept


def test_figures_of_hard_text(chain: dict[str, Path]) -> None:
    for row in parquet_rows(chain["tokens"]):
        text, scores = HARD[row["metadata"]["original_id"]], row["scores"]
        assert scores["num_prompt_chars"]["value"] == len(text)
        assert scores["num_turns"]["value"] == 6
        assert scores["num_prompt_tokens"]["value"] >= (1 if text else 0)
        assert (scores["num_prompt_tokens"]["value"] == 0) == (text == "")
        for score in scores.values():
            assert score["value"] is not None and score["status"] == "ok"


def test_every_reader_shows_them(chain: dict[str, Path]) -> None:
    shown = curator("show", chain["tokens"], "--json", "--head", 1000).out.decode()
    rows = [json.loads(line) for line in shown.split("\n") if line]
    assert_untouched(rows)
    assert len(rows) == len(HARD)
    text = curator("show", chain["tokens"], "--full", "--head", 1000).out.decode()
    # A terminal must not be steered by what it shows.
    assert not set(text) & {chr(code) for code in [*range(9), *range(0x0B, 0x20), *range(0x7F, 0xA0)]}
    assert HARD["cjk"] in text and "before\\x00after" in text
    found = curator("show", chain["tokens"], "--grep", "(?s)before.after", "--json").out.decode()
    assert [json.loads(line)["metadata"]["original_id"] for line in found.split("\n") if line] == ["nul"]
    curator("check", chain["ingest"].parent)
    curator("stats", chain["mix"], "--json")
    assert len(json.loads(curator("order", chain["mix"], "--json", "--show", 3).out)) == 3


def test_a_pipe_carries_them(raw: Path, tmp_path: Path) -> None:
    """Each command writes a stream that the next one reads from a file."""
    source = curator("ingest", raw, "--source", "hard").out
    for number, command in enumerate(
        (["tag", "signals"], ["tag", "tokens", "--tokenizer", SAMPLES / "tiny-model"], ["dedup", "exact"], ["filter"])
    ):
        (tmp_path / f"{number}.arrow").write_bytes(source)
        place = tmp_path / f"{number}.arrow"
        arguments = ["filter", "where", place, RULES] if command == ["filter"] else [*command[:2], place, *command[2:]]
        source = curator(*arguments).out
    (tmp_path / "last.arrow").write_bytes(source)
    rows = [row for batch in StreamReader.open(str(tmp_path / "last.arrow")).batches() for row in batch.to_pylist()]
    assert len(rows) == len(HARD)
    assert_untouched(rows)


@pytest.mark.parametrize("layout", ["array", "csv", "parquet"])
def test_other_containers_carry_them(tmp_path: Path, layout: str) -> None:
    """A cell or field may hold every one of them, NUL and line breaks too."""
    rows = [{"question": text, "answer": f"{name}: {text}"} for name, text in HARD.items()]
    path = tmp_path / f"hard.{'json' if layout == 'array' else layout}"
    if layout == "array":
        path.write_text(json.dumps(rows, ensure_ascii=False, indent=2), encoding="utf-8")
    elif layout == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, ["question", "answer"], quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
        path.write_bytes(text.getvalue().encode())
    ingested(path, tmp_path / "d")
    found = parquet_rows(tmp_path / "d")
    assert [row["messages"][0]["content"] for row in found] == list(HARD.values())
    assert [row["messages"][-1]["content"] for row in found] == [row["answer"] for row in rows]


# --- what Arrow cannot hold ------------------------------------------------------------------------------------------


def ask(text: bytes) -> bytes:
    return b'{"messages":[{"role":"user","content":"' + text + b'"},{"role":"assistant","content":"ok"}]}'


def test_B015_only_a_line_feed_ends_a_record(tmp_path: Path) -> None:
    text = "a\u2028b\u0085c\u2029d\u000bz"
    row = {"messages": [{"role": "user", "content": text}]}
    ingested(write_lines(tmp_path / "r.jsonl", [row, row]), tmp_path / "d")
    assert [turn["messages"][0]["content"] for turn in parquet_rows(tmp_path / "d")] == [text, text]


def test_B019_a_nul_ends_no_text(tmp_path: Path) -> None:
    texts = ["before\u0000after", "before", "before\u0000other"]
    rows = [{"messages": [{"role": "user", "content": text}]} for text in texts]
    ingested(write_lines(tmp_path / "r.jsonl", rows), tmp_path / "d")
    kept = [row["messages"][0]["content"] for row in parquet_rows(tmp_path / "d")]
    assert kept == texts and len(kept[0]) == 12
    curator("dedup", "exact", tmp_path / "d", "--on", "prompt", "--out", tmp_path / "e")
    assert len(parquet_rows(tmp_path / "e")) == 3
    assert curator("show", tmp_path / "d", "--json", "--grep", r"before\x1f").out.count(b"\n") == 1
    assert curator("show", tmp_path / "d", "--json", "--grep", r"before\x00").out.count(b"\n") == 2


def test_marks_between_turns_inside_a_text_make_no_duplicate(tmp_path: Path) -> None:
    """Whatever separates turns where a whole conversation is compared, a text may hold it."""
    rows: list[Any] = [{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}]
    for turn in ("\x1e", "\x1e\x1e", "\n\n", "\x00", ""):
        for field in ("\x1f", "\x1f\x1f", "\x00", ": "):
            for fields in range(1, 5):
                joined = f"a{field}{turn}assistant{field * fields}b"
                rows.append({"messages": [{"role": "user", "content": joined}]})
    texts = {json.dumps(row) for row in rows}
    ingested(write_lines(tmp_path / "r.jsonl", rows), tmp_path / "d")
    curator("dedup", "exact", tmp_path / "d", "--out", tmp_path / "e")
    assert len(parquet_rows(tmp_path / "e")) == len(texts)


def test_B008_invalid_utf8_is_quarantined_with_its_bytes(tmp_path: Path) -> None:
    good, cut = ask(b"fine"), ask("日本".encode())
    bad = [
        ask(b"caf\xe9"),
        ask(b"\xac\xc0\x80"),
        ask(b"\xed\xa0\x80"),
        ask(b"\xf5\x80\x80\x80"),
        cut[: cut.index("本".encode()) + 1],
    ]
    rows = [good, bad[0], good, bad[1], bad[2], bad[3], good, bad[4]]
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"\n".join(rows))
    ingested(path, tmp_path / "d")
    assert [row["id"] for row in parquet_rows(tmp_path / "d")] == ["s/r.jsonl#0", "s/r.jsonl#2", "s/r.jsonl#6"]
    found = parquet_rows(tmp_path / "d", "quarantine")
    assert [row["raw"] for row in found] == bad
    assert [row["row"] for row in found] == [1, 3, 4, 5, 7]
    offsets = [sum(len(line) + 1 for line in rows[: row["row"]]) for row in found]
    assert [row["byte_offset"] for row in found] == offsets
    assert {row["reason"].partition(":")[0] for row in found} == {"not UTF-8"}
    first = offsets[0] + bad[0].index(b"\xe9")
    assert f"byte {first:,}" in found[0]["reason"]
    shown = curator("show", tmp_path / "d", "--part", "quarantine").out.decode()
    assert "caf\\xe9" in shown


def test_B020_half_a_character_is_quarantined_and_a_pair_is_one(tmp_path: Path) -> None:
    bad = [ask(rb"\ud83d"), ask(rb"\udc00\ud83d"), ask(rb"a\uDE00"), ask(rb"\ud83d\ud83d\ude00")]
    good = [ask(rb"\ud83d\ude00"), ask(rb"\\ud83d"), ask("😀".encode())]
    ingested(write_lines(tmp_path / "r.jsonl", [*bad, *good]), tmp_path / "d")
    assert [row["messages"][0]["content"] for row in parquet_rows(tmp_path / "d")] == ["😀", "\\ud83d", "😀"]
    found = parquet_rows(tmp_path / "d", "quarantine")
    assert [row["raw"] for row in found] == bad
    assert {row["reason"].partition(":")[0] for row in found} == {"not text"}


def test_B020_half_a_character_anywhere_in_a_row(tmp_path: Path) -> None:
    """Also in places that are kept as they came: extra fields, tool calls, keys."""
    half = rb"\ud83d"
    places = [
        b'{"question":"q","answer":"a","note":"%b"}' % half,
        b'{"question":"q","answer":"a","%b":1}' % half,
        b'{"question":"q","answer":"a","metadata":{"domain":"%b"}}' % half,
        b'{"question":"q","answer":"a","metadata":{"own":["%b"]}}' % half,
        b'{"messages":[{"role":"user","content":"q","tool_calls":[{"x":"%b"}]}]}' % half,
        b'{"messages":[{"role":"user","content":"q"}],"tools":[{"name":"%b"}]}' % half,
        b'{"question":"q","answer":"a","id":"%b"}' % half,
    ]
    good = b'{"question":"q","answer":"a"}'
    ingested(write_lines(tmp_path / "r.jsonl", [*places, good]), tmp_path / "d")
    kept, bad = parquet_rows(tmp_path / "d"), parquet_rows(tmp_path / "d", "quarantine")
    assert len(kept) + len(bad) == len(places) + 1
    assert all(row["raw"] in places for row in bad)
    # A half kept as an escape inside JSON text is text like any other; it must still be there.
    for row in kept[:-1]:
        stored = " ".join(filter(None, [row["extra"], row["tools"], row["messages"][0]["tool_calls"]]))
        assert half.decode() in stored
    curator("tag", "signals", tmp_path / "d", "--out", tmp_path / "tagged")
    curator("show", tmp_path / "tagged", "--json")
    curator("tag", "tokens", tmp_path / "tagged", "--tokenizer", SAMPLES / "tiny-model", "--out", tmp_path / "tokens")
    assert len(parquet_rows(tmp_path / "tokens")) == len(kept)


def test_B006_a_line_of_ten_megabytes(tmp_path: Path) -> None:
    long = "abc " * (10 << 18)
    assert len(long) >= 10 << 20
    rows = [{"question": f"q{n}", "answer": long if n == 10 else f"a{n}"} for n in range(21)]
    path = write_lines(tmp_path / "r.jsonl", rows)
    curator("ingest", path, "--source", "s", "--out", tmp_path / "d")
    curator("tag", "signals", tmp_path / "d", "--out", tmp_path / "tagged")
    curator("dedup", "exact", tmp_path / "tagged", "--out", tmp_path / "exact")
    curator("filter", "where", tmp_path / "exact", "scores.num_response_words.value > 0", "--out", tmp_path / "clean")
    curator("mix", tmp_path / "clean", "--out", tmp_path / "mix")
    kept = parquet_rows(tmp_path / "mix")
    assert len(kept) == 21
    assert kept[10]["messages"][1]["content"] == long
    assert kept[10]["scores"]["num_response_words"]["value"] == 10 << 18
    curator("ingest", path, "--source", "s", "--max-record-bytes", 1 << 20, "--out", tmp_path / "short")
    assert [row["id"] for row in parquet_rows(tmp_path / "short")] == [f"s/r.jsonl#{n}" for n in range(21) if n != 10]
    (bad,) = parquet_rows(tmp_path / "short", "quarantine")
    line = path.read_bytes().split(b"\n")[10]
    assert (bad["id"], bad["row"]) == ("s/r.jsonl#10", 10)
    assert f"{len(line):,} bytes" in bad["reason"] and line.startswith(bad["raw"]) and len(bad["raw"]) > 1000
