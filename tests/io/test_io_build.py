"""Records out of raw rows: ids, places, metadata, and the reason for every row that cannot become one."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator.errors import UsageError
from curator.io import build
from curator.io.adapters import ADAPTERS
from curator.io.build import Builder, Built, SourceSettings, message_lists
from curator.io.raw import RawReader, RawRow
from curator.schema.record import QUARANTINE_SCHEMA, content_hashes, ids_digest, record_schema

ALPACA = {"instruction": "a", "output": "b"}


def built(*rows: Any, **source: Any) -> Built:
    data = [row if isinstance(row, bytes) else json.dumps(row, ensure_ascii=False).encode() for row in rows]
    raw = [RawRow(index, index * 100, item) for index, item in enumerate(data)]
    (result,) = Builder(SourceSettings(**{"name": "s", **source}), "d/f.jsonl").build(raw)
    return result


def reason(row: Any, **source: Any) -> str:
    result = built(row, **source)
    assert result.records.num_rows == 0
    return result.bad.column("reason")[0].as_py()


def one(row: Any, **source: Any) -> dict[str, Any]:
    result = built(row, **source)
    assert result.bad.column("reason").to_pylist() == []
    return result.records.to_pylist()[0]


def test_ids_and_provenance_count_every_raw_row() -> None:
    result = built(ALPACA, b"broken", ALPACA, license="mit")
    assert result.records.column("id").to_pylist() == ["s/d/f.jsonl#0", "s/d/f.jsonl#2"]
    assert result.bad.to_pylist() == [
        {
            "id": "s/d/f.jsonl#1",
            "file": "d/f.jsonl",
            "row": 1,
            "byte_offset": 100,
            "reason": "not JSON: invalid character (byte 0)",
            "raw": b"broken",
        }
    ]
    assert result.bad.schema.equals(QUARANTINE_SCHEMA)
    assert result.num_rows == 3
    assert result.ids == ids_digest(f"s/d/f.jsonl#{row}" for row in range(3))
    second = result.records.to_pylist()[1]
    assert second["provenance"] == {
        "file": "d/f.jsonl",
        "row": 2,
        "byte_offset": 200,
        "adapter": "alpaca",
        "generation": 0,
        "form": '{"keys":["instruction","output"]}',
        "edited_by": None,
    }
    assert {name: value for name, value in second["metadata"].items() if value is not None} == {
        "source": "s",
        "license": "mit",
    }
    for name in ("group", "tools", "rejected", "verifier", "dedup", "loss_weight", "drop", "extra"):
        assert second[name] is None
    assert result.records.column("content_hash").equals(content_hashes(result.records))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (b"", "not JSON: Input data was truncated"),
        (b'{"instruction": "a", "output": "b"', "not JSON: Input data was truncated"),
        (b'{"instruction":"a","output":"b",}', "not JSON: trailing comma in object (byte 32)"),
        (
            b'{"instruction":"a","output":"b"}{"instruction":"a","output":"b"}',
            "not JSON: trailing characters (byte 33); it looks like several objects without line breaks",
        ),
        (
            b"{'instruction': 'a'}",
            "not JSON: object keys must be strings (byte 1); it looks like a Python dictionary (single quotes)",
        ),
        (
            b'{"instruction":"a","output":"b","x":NaN}',
            "not JSON: invalid character (byte 36); NaN and Infinity are not JSON",
        ),
        (
            b'{"instruction":"a","output":"b","x":-Infinity}',
            "not JSON: invalid character (byte 37); NaN and Infinity are not JSON",
        ),
        (b'{"instruction":"a\x00","output":"b"}', "not JSON: invalid character (byte 17)"),
        (b'{"instruction":"C:\\path","output":"b"}', "not JSON: invalid escaped character (byte 19)"),
        (b'{"instruction":"caf\xe9","output":"b"}', "not UTF-8: byte 19"),
        (b'{"instruction":"a","output":"b","x":"caf\xe9"}', "not UTF-8: byte 40"),
        (b'{"instruction":"a","output":"b\xe2\x80', "not UTF-8: byte 30"),
        (rb'{"instruction":"a","output":"\ud83d"}', r"not text: a lone surrogate, \ud83d"),
        (rb'{"instruction":"a","output":"\udc00\ud83d"}', r"not text: a lone surrogate, \udc00"),
        (rb'{"instruction":"a","output":"b","x":"\uDC00"}', r"not text: a lone surrogate, \uDC00"),
        (b"[1, 2]", "wrong type: the row is not an object"),
        (b'"text"', "wrong type: the row is not an object"),
        (b"null", "wrong type: the row is not an object"),
        (b"{}", "no adapter: fields are none"),
        (b'{"b":1,"a":2}', "no adapter: fields are a, b"),
        (b'{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}', "no adapter: fields are a, b, c, d, e, f, ..."),
        (b'{"instruction":"a","output":{"x":1}}', "wrong type: output is object, expected text"),
        (b'{"instruction":"a","output":["x"]}', "wrong type: output is list, expected text"),
        (b'{"instruction":"a","output":5}', "wrong type: output is number, expected text"),
        (b'{"instruction":"a","output":true}', "wrong type: output is true/false, expected text"),
        (b'{"instruction":"a","output":null}', "wrong type: output is null, expected text"),
        (b'{"instruction":null,"output":"a"}', "wrong type: instruction is null, expected text"),
        (b'{"instruction":"a","output":"b","input":7}', "wrong type: input is number, expected text"),
        (b'{"instruction":"a","output":"b","output":"c"}', "key twice: output"),
        (b'{"instruction":"a","output":"b","id":"1","x":0,"id":"2"}', "key twice: id"),
        (b'{"messages":[{"role":"user","content":"a","content":"b"}]}', "key twice: content"),
        (b'{"instruction":"a","output":"b","metadata":{"domain":"x","domain":"y"}}', "key twice: domain"),
    ],
)
def test_a_bad_row_says_why(row: bytes, expected: str) -> None:
    assert reason(row) == expected


def nested(levels: int) -> bytes:
    """An alpaca row whose lists stand in one another so deep, the row itself being the first level."""
    return b'{"instruction":"a","output":"b","x":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def test_a_deeply_nested_row_is_bad_and_nothing_breaks() -> None:
    result = built(ALPACA, nested(100_000), nested(129), ALPACA)
    assert result.records.num_rows == 2
    assert result.bad.column("reason").to_pylist() == ["nested too deeply: more than 128 levels"] * 2


def test_how_deep_a_row_may_nest_does_not_depend_on_the_stack() -> None:
    def below(frames: int) -> Built:
        return below(frames - 1) if frames else built(nested(128), nested(129))

    for frames in (0, 400):
        result = below(frames)
        assert [result.records.num_rows, result.bad.num_rows] == [1, 1]


def test_brackets_in_texts_are_no_levels() -> None:
    row = {**ALPACA, "output": '[{"' * 2000, "x": [[], {}] * 2000}
    assert one(row)["messages"][1]["content"] == row["output"]
    cut = json.dumps(row).encode()[:3000]
    assert reason(cut).startswith("not JSON: ")


@pytest.mark.parametrize(
    ("row", "key"),
    [
        (rb'{"question":"q","answer":"a","\u0061nswer":"b"}', "answer"),
        (rb'{"question":"q","answer":"a","x\"y":1,"x\"y":2}', 'x"y'),
        (rb'{"question":"q","answer":"a","x\\":1,"x\\" :2}', "x\\"),
        (rb'{"question":"q","answer":"a","\u0061\nb":1,"a\u000ab":2}', "a\nb"),
        (rb'{"messages":[{"role":"user","content":"q","r\u006fle":"system"}]}', "role"),
        (rb'{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a","\u0076alue":"b"}]}', "value"),
        (rb'{"question":"q","answer":"a","metadata":{"domain":"x","d\u006fmain":"y"}}', "domain"),
    ],
)
def test_b028_a_key_twice_in_two_spellings(row: bytes, key: str) -> None:
    assert reason(row) == f"key twice: {key}"


def test_a_key_with_escapes_may_come_once() -> None:
    row = rb'{"question":"q","\u0061nswer":"a\"b\":","x\"y":1,"z":{"\"":1}}'
    record = one(row)
    assert record["messages"][1]["content"] == 'a"b":'
    assert json.loads(record["extra"]) == {'x"y': 1, "z": {'"': 1}}


def test_numbers_of_thousands_of_digits_stay_text_wherever_keys_are_compared() -> None:
    digits = "7" * 5000
    for number in (digits, f"-{digits}", f"{digits}.5", f"1e{digits}"):
        record = one(f'{{"question":"answer","answer":"question","x":{number},"id":{number}}}'.encode())
        assert record["extra"] == f'{{"x":{number}}}'
        assert record["metadata"]["original_id"] == number


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert one(rb'{"instruction":"a","output":"\ud83d\ude00"}')["messages"][1]["content"] == "\U0001f600"


def test_a_key_that_is_also_a_value_or_deeper_down_is_not_twice() -> None:
    row = {"messages": [{"role": "role", "content": "content"}], "id": 1}
    row["messages"][0]["role"] = "user"  # type: ignore[index]
    calls = [{"id": "1", "function": {"name": "f", "arguments": '{"id": 1}'}, "content": "content"}]
    row["messages"].append({"role": "assistant", "content": None, "tool_calls": calls})  # type: ignore[attr-defined]
    assert len(one({**row, "x": {"id": "id", "messages": "messages"}})["messages"]) == 2


def test_what_no_adapter_mapped_is_kept_as_it_came() -> None:
    row = (
        '{"z": {"b": 1.10,  "a":[1e3, 4.50]},"instruction":"a","big":12345678901234567890,'
        '"output":"b","t":"\\u00e9\\/","n":null,"e":{},"l":[ ]}'
    )
    extra = one(row.encode())["extra"]
    assert extra == (
        '{"z":{"b": 1.10,  "a":[1e3, 4.50]},"big":12345678901234567890,"t":"\\u00e9\\/","n":null,"e":{},"l":[ ]}'
    )


def test_null_absent_empty_list_and_empty_object_stay_apart() -> None:
    rows = [{**ALPACA, "x": value} for value in (None, [], {}, "", 0, False)]
    extras = [record["extra"] for record in built(ALPACA, *rows).records.to_pylist()]
    assert extras == [None, '{"x":null}', '{"x":[]}', '{"x":{}}', '{"x":""}', '{"x":0}', '{"x":false}']


# --- declared fields ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("string", '"x"', "x"),
        ("string", '""', ""),
        ("string", "5", None),
        ("string", "null", None),
        ("int", "5", 5),
        ("int", "-9223372036854775808", -(2**63)),
        ("int", "9223372036854775808", None),
        ("int", "12345678901234567890", None),
        ("int", "5.0", None),
        ("int", "true", None),
        ("int", '"5"', None),
        ("float", "0.5", 0.5),
        ("float", "5", 5.0),
        ("float", "9007199254740993", None),
        ("float", "1e999", None),
        ("float", "true", None),
        ("bool", "false", False),
        ("bool", "0", None),
        ("bool", '"true"', None),
        ("int", "[5]", None),
    ],
)
def test_a_declared_field_takes_what_fits_and_leaves_the_rest_in_extra(type_: str, text: str, value: Any) -> None:
    row = one(f'{{"instruction":"a","output":"b","team":{text}}}'.encode(), fields={"team": type_})
    assert row["metadata"]["team"] == value
    assert type(row["metadata"]["team"]) is type(value)
    assert row["extra"] == (None if value is not None else f'{{"team":{text}}}')


def test_nothing_depends_on_what_came_first() -> None:
    rows = [{**ALPACA, "n": value} for value in [None] * 3 + ["x", 1, 1.5, [1], {"a": 1}]]
    for order in (rows, rows[::-1]):
        records = built(*order, fields={"n": "int"}).records
        assert records.schema.equals(record_schema({"n": pa.int64()}))
        values = {record["extra"]: record["metadata"]["n"] for record in records.to_pylist()}
        assert values == {
            '{"n":null}': None,
            '{"n":"x"}': None,
            None: 1,
            '{"n":1.5}': None,
            '{"n":[1]}': None,
            '{"n":{"a": 1}}': None,
        }


def test_tags_of_the_source_give_way_to_the_rows_own() -> None:
    rows = [{**ALPACA, "metadata": {"domain": "code", "license": "mit"}}, ALPACA]
    records = built(*rows, metadata={"domain": "math", "team": "red"}, fields={"team": "string"}, license="cc0").records
    assert [record["metadata"]["domain"] for record in records.to_pylist()] == ["code", "math"]
    assert [record["metadata"]["license"] for record in records.to_pylist()] == ["mit", "cc0"]
    assert [record["metadata"]["team"] for record in records.to_pylist()] == ["red", "red"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"name": "a/b"}, "source name 'a/b'"),
        ({"name": ""}, "source name ''"),
        ({"name": "a b"}, "source name 'a b'"),
        ({"adapter": "alpcaa"}, "no adapter 'alpcaa'"),
        ({"fields": {"team": "text"}}, "--field team:text: no such type"),
        ({"fields": {"domain": "string"}}, "--field domain: every record has this field"),
        ({"fields": {"a.b": "string"}}, "--field a.b:string: not a name"),
        ({"metadata": {"team": "x"}}, "source s: metadata field team is not declared"),
        ({"metadata": {"domain": 5}}, "source s: metadata field domain is string, 5 does not fit"),
        (
            {"metadata": {"reasoning_trace": "yes"}},
            "source s: metadata field reasoning_trace is bool, 'yes' does not fit",
        ),
        ({"metadata": {"turn_issues": "x"}}, "source s: metadata field turn_issues is list<"),
        ({"shard_bytes": 10}, "shard_bytes and max_record_bytes must be at least 1024"),
    ],
)
def test_wrong_settings_are_refused(source: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        SourceSettings(**{"name": "s", **source})
    assert caught.value.message.startswith(message)


def test_a_forced_adapter_names_rows_that_are_not_its_own() -> None:
    assert one({"prompt": "a", "completion": "b"}, adapter="pairs")["provenance"]["adapter"] == "pairs"
    assert reason(ALPACA, adapter="pairs") == "not pairs: fields are instruction, output"


# --- stretches ------------------------------------------------------------------------------------------------------


def test_stretches_end_at_shard_borders_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.dumps(ALPACA).encode()
    rows = [RawRow(index, index * 300, data) for index in range(20)]
    source = SourceSettings("s", shard_bytes=1024)
    assert [part.num_rows for part in Builder(source, "f").build(rows)] == [4, 3, 4, 3, 4, 2]
    assert [part.first_offset for part in Builder(source, "f").build(rows)] == [0, 1200, 2100, 3300, 4200, 5400]
    monkeypatch.setattr(build, "_BUILD_ROWS", 8)
    assert [part.num_rows for part in Builder(SourceSettings("s"), "f").build(rows)] == [8, 8, 4]
    monkeypatch.setattr(build, "BATCH_BYTES", 3 * len(data))
    assert [part.num_rows for part in Builder(SourceSettings("s"), "f").build(rows)] == [3] * 6 + [2]


def test_message_lists_tell_null_from_empty() -> None:
    assert message_lists([None, [], None]).to_pylist() == [None, [], None]
    assert message_lists([]).to_pylist() == []


# --- every text of the row is in the record -------------------------------------------------------------------------

_WORDS = st.text(max_size=12) | st.sampled_from(
    ["<think>\nx\n</think>\n\ny", "<think>a</think>", "\u2028", "\0", "'\"\\"]
)
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _WORDS,
    lambda child: st.lists(child, max_size=2) | st.dictionaries(st.text(max_size=4), child, max_size=2),
    max_leaves=4,
)
_REST = st.dictionaries(st.sampled_from(["x", "y", "id", "metadata", "text", "label"]), _ANY, max_size=3)


def restored(message: dict[str, Any]) -> str | None:
    """The text as it came."""
    if message["reasoning"] is None or message["wrap"] is None:
        return message["content"]
    return message["wrap"]["open"] + message["reasoning"] + message["wrap"]["close"] + message["content"]


def rest_of(record: dict[str, Any]) -> dict[str, Any]:
    """The fields that are not messages: from extra and from metadata, put together again."""
    rest = json.loads(record["extra"]) if record["extra"] else {}
    form = json.loads(record["provenance"]["form"])
    if "id" in form:
        text = record["metadata"]["original_id"]
        rest["id"] = text if form["id"] == "text" else json.loads(text)
    if isinstance(form.get("metadata"), list):
        inner = rest.get("metadata", {})
        rest["metadata"] = {key: inner[key] if key in inner else record["metadata"][key] for key in form["metadata"]}
    return rest


@settings(max_examples=80, deadline=None)
@given(_WORDS, _WORDS, st.none() | _WORDS, _REST)
def test_alpaca_rows_lose_nothing(instruction: str, output: str, given_input: str | None, rest: dict[str, Any]) -> None:
    row = {**rest, "instruction": instruction, "input": given_input, "output": output}
    record = one(row)
    user, answer = record["messages"]
    assert json.loads(ADAPTERS["alpaca"].restore(record)) == row  # type: ignore[misc]
    form = json.loads(record["provenance"]["form"])
    assert user["content"] == (f"{instruction}\n\n{given_input}" if given_input else instruction)
    assert form.get("input", given_input) == given_input
    assert restored(answer) == output
    assert rest_of(record) == rest
    assert form["keys"] == list(row)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": st.none() | _WORDS},
            optional={"name": _WORDS, "tool_calls": st.lists(_ANY, max_size=2), "reasoning_content": _WORDS},
        ),
        min_size=1,
        max_size=4,
    ),
    _REST,
)
def test_messages_rows_lose_nothing(turns: list[dict[str, Any]], rest: dict[str, Any]) -> None:
    rest.pop("label", None)
    record = one({"messages": turns, **rest})
    assert len(record["messages"]) == len(turns)
    for message, turn in zip(record["messages"], turns, strict=True):
        assert message["role"] == turn["role"]
        assert restored(message) == turn["content"]
        assert message["name"] == turn.get("name")
        if "reasoning_content" in turn:
            assert (message["reasoning"], message["wrap"]) == (turn["reasoning_content"], None)
        assert (message["tool_calls"] is None) == ("tool_calls" not in turn)
        if "tool_calls" in turn:
            assert json.loads(message["tool_calls"]) == turn["tool_calls"]
    assert rest_of(record) == rest
    assert json.loads(ADAPTERS["openai"].restore(record)) == {"messages": turns, **rest}  # type: ignore[misc]


def test_a_whole_file_through_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(b"\n".join(json.dumps({**ALPACA, "n": n}).encode() for n in range(3000)))
    with RawReader(str(path)) as reader:
        parts = list(Builder(SourceSettings("s"), "f.jsonl").build(reader.rows()))
    assert [part.num_rows for part in parts] == [2048, 952]
    assert sum(part.text_bytes for part in parts) == path.stat().st_size - 2999
    ids = [record_id for part in parts for record_id in part.records.column("id").to_pylist()]
    assert ids == [f"s/f.jsonl#{n}" for n in range(3000)]
