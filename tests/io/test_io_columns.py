"""Rows that go straight into Arrow are the rows that the adapters make, in every column."""

import gc
import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator.io.adapters.base import TRACE_MARKS
from curator.io.build import Builder, Built, SourceSettings
from curator.io.columns import ColumnBuilder, warm
from curator.io.issues import CONTROL_TOKENS, MARKS
from curator.io.raw import Counts, RawBlock, RawReader, RawRow
from curator.io.raw.lines import Lines
from curator.schema.record import add_digests

SOURCE = SourceSettings("s", license="mit", metadata={"domain": "code"}, fields={"team": "string", "level": "int"})


def _tables(built: list[Built]) -> tuple[pa.Table, pa.Table, int, int, dict[str, int]]:
    adapters: dict[str, int] = {}
    for part in built:
        for name, count in part.adapters.items():
            adapters[name] = adapters.get(name, 0) + count
    return (
        pa.Table.from_batches([part.records for part in built]).combine_chunks(),
        pa.Table.from_batches([part.bad for part in built]).combine_chunks(),
        add_digests(*(part.kept_ids for part in built)),
        add_digests(*(part.bad_ids for part in built)),
        adapters,
    )


def compare(path: Path, source: SourceSettings = SOURCE) -> tuple[pa.Table, float]:
    """Read the file both ways, expect the same; the records, and the share of rows that the kernel read."""
    with RawReader(str(path), source.max_record_bytes) as reader:
        general = _tables(list(Builder(source, "f").build(reader.rows())))
    with RawReader(str(path), source.max_record_bytes) as reader:
        columns = ColumnBuilder(Builder(source, "f"))
        fast = _tables(list(columns.build(reader.blocks())))
    for left, right in zip(general[:2], fast[:2], strict=True):
        assert left.schema == right.schema
        for name in left.column_names:
            if not left[name].equals(right[name]):
                pairs = zip(left[name].to_pylist(), right[name].to_pylist(), strict=True)
                assert [pair for pair in pairs if pair[0] != pair[1]] == [], name
        assert left.equals(right)
    assert general[2:] == fast[2:]
    return general[0], columns.rows_by_kernel / max(1, general[0].num_rows)


def _lines(path: Path, rows: list[object]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def _chat(number: int, **more: object) -> dict[str, object]:
    call = {"id": f"call{number}", "type": "function", "function": {"name": "f", "arguments": f'{{"x":{number}}}'}}
    return {
        "messages": [
            {"role": "system", "content": f"System {number}."},
            {"role": "user", "content": f'Question {number}\nwith "quotes" and 日本 {number}'},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call{number}", "name": "f", "content": f"[{number}]"},
            {"role": "assistant", "content": f"Answer {number}"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"x": {}}}}],
        **more,
    }


FORMS = {
    "alpaca": lambda n: {"instruction": f"Do {n}", "input": "" if n % 3 else f"on {n}", "output": f"Done {n}."},
    "metadata": lambda n: {
        "instruction": f"Do {n}",
        "input": f"{n}",
        "output": f"Done {n}.",
        "metadata": {"domain": "math", "difficulty": "easy", "reasoning_trace": n % 2 == 0, "topic": {"deep": [n]}},
        "id": n,
        "team": f"t{n % 4}",
    },
    "pairs": lambda n: {"question": f"{n}?", "answer": f"\\boxed{{{n}}} {'é' * (n % 5)}", "rank": n, "score": n / 7},
    "sharegpt": lambda n: {
        "conversations": [
            {"from": "human", "value": f"Hi {n}"},
            {"from": "gpt", "value": f"Hello {n}"},
            {"from": "human", "value": f"More {n}"},
            {"from": "gpt", "value": f"Less {n}"},
        ][: 2 + 2 * (n % 2)],
        "system": f"Be {n}.",
        "tools": "[]",
        "id": f"x-{n}",
    },
    "calls": lambda n: {
        "conversations": [
            {"from": "human", "value": f"Hi {n}"},
            {"from": "function_call", "value": json.dumps({"name": "f", "arguments": {"n": n}})},
            {"from": "observation", "value": f'{{"r": {n}}}'},
            {"from": "gpt", "value": f"It is {n}"},
        ],
        "tools": json.dumps([{"name": "f"}]),
    },
    "openai": lambda n: _chat(n, uid=n, weight=None),
}


@pytest.mark.parametrize("form", FORMS)
def test_plain_rows_are_read_by_the_kernel(form: str, tmp_path: Path) -> None:
    table, share = compare(_lines(tmp_path / "a.jsonl", [FORMS[form](n) for n in range(300)]))
    assert table.num_rows == 300
    assert share == 1


def _odd_rows() -> list[object]:
    """Rows that an adapter must see, or that are none."""
    plain = FORMS["alpaca"](1)
    chat = _chat(7)
    turns: list[dict[str, object]] = chat["messages"]  # type: ignore[assignment]
    return [
        {**plain, "output": "<think>so</think>yes"},
        {**plain, "output": "  "},
        {**plain, "output": None},
        {**plain, "output": 5},
        {**plain, "instruction": "a\n\nb", "input": "c"},
        {**plain, "instruction": "a\n", "input": "c"},
        {**plain, "output": "line\r\nend \u2028 \x00 <|im_end|>"},
        {"instruction": "no answer"},
        {"messages": []},
        {"messages": [*turns, {"role": "assistant", "content": "again"}]},
        {"messages": turns[2:]},
        {"messages": [{"role": "critic", "content": "?"}, *turns]},
        {"messages": [*turns[:3], {**turns[3], "tool_call_id": "other"}, turns[4]]},
        {"messages": [{**turn, "weight": 0.5} for turn in turns]},
        {"messages": [{**turn, "weight": "x"} for turn in turns]},
        {"unknown": 1},
        [1],
    ]


@pytest.mark.parametrize("form", FORMS)
def test_odd_rows_among_plain_ones_stay_in_their_places(form: str, tmp_path: Path) -> None:
    rows: list[object] = [FORMS[form](n) for n in range(200)]
    for number, row in enumerate(_odd_rows()):
        rows.insert(11 * number + 3, row)
    path = _lines(tmp_path / "a.jsonl", rows)
    path.write_bytes(
        path.read_bytes() + b'{"cut": \n\n \xef\xbb\xbf{"instruction":"a","output":"caf\xe9"}\n{"a":1,"a":2}'
    )
    _, share = compare(path)
    assert 0.9 < share < 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8), st.text(max_size=12)), min_size=12, max_size=40))
def test_any_texts(tmp_path_factory: pytest.TempPathFactory, texts: list[tuple[str, str, str]]) -> None:
    rows = [{"instruction": one, "input": two, "output": three} for one, two, three in texts]
    path = tmp_path_factory.mktemp("any") / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    compare(path)


def test_a_shape_is_learned_once_it_pays(tmp_path: Path) -> None:
    _, share = compare(_lines(tmp_path / "few.jsonl", [FORMS["alpaca"](1)] * 5))
    assert share == 0
    _, share = compare(_lines(tmp_path / "many.jsonl", [FORMS["alpaca"](1)] * 50))
    assert share == 1


def _line_rows(data: bytes, block_bytes: int, limit: int) -> tuple[list[RawRow], int, int]:
    counts = Counts()
    lines = Lines(counts, limit)
    blocks = (data[start : start + block_bytes] for start in range(0, len(data), block_bytes))
    rows: list[RawRow] = []
    for found in lines.split(blocks):
        rows += [found.row(index) for index in range(len(found.starts))] if isinstance(found, RawBlock) else [found]
    return rows, counts.blank_lines, counts.byte_order_marks


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.integers(1, 70))
def test_lines_are_the_same_for_any_block_size(noise: bytes, block_bytes: int) -> None:
    data = (
        noise.replace(b"\x01", b"\n").replace(b"\x02", b"\r\n").replace(b"\x03", b"\xef\xbb\xbf").replace(b"\x04", b" ")
    )
    assert _line_rows(data, block_bytes, 60) == _line_rows(data, 1 << 20, 60)


def test_lines_are_those_of_the_row_reader(tmp_path: Path) -> None:
    random.seed(3)
    pieces = [b"{}", b" ", b"\r", b"\n", b"\n", b"\xef\xbb\xbf", b"a" * 1500, b"x\ty"]
    for number in range(60):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(b"{" + b"".join(random.choices(pieces, k=40)))
        with RawReader(str(path), 2000) as reader:
            rows = list(reader.rows())
            expected = rows, reader.blank_lines, reader.byte_order_marks
        assert _line_rows(path.read_bytes(), random.randrange(1, 3000), 2000) == expected


@settings(max_examples=300, deadline=None)
@given(st.from_regex(CONTROL_TOKENS, fullmatch=True) | st.sampled_from([m for pair in TRACE_MARKS for m in pair]))
def test_every_control_token_and_trace_has_a_mark(token: str) -> None:
    assert any(mark in token for mark in MARKS)


@pytest.mark.parametrize("is_fast", [True, False], ids=["kernel", "general"])
def test_batches_are_freed_without_the_collector(tmp_path: Path, is_fast: bool) -> None:
    """A cycle of references would hold every batch until Python collects, which in a worker is almost never."""
    path = _lines(tmp_path / "a.jsonl", [_chat(number) for number in range(3000)])
    warm()
    gc.collect()
    gc.disable()
    try:
        before = pa.total_allocated_bytes()
        with RawReader(str(path)) as reader:
            builder = Builder(SOURCE, "f")
            for built in ColumnBuilder(builder).build(reader.blocks()) if is_fast else builder.build(reader.rows()):
                assert built.records.num_rows
            del built, builder
        assert pa.total_allocated_bytes() - before < 10_000
    finally:
        gc.enable()
