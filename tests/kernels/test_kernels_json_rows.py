"""Tokens of rows: what is taken is exactly what a JSON decoder takes, and shapes tell apart what adapters must see."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator.io.columns import Tokens
from curator.kernels import json_rows as kernel

MARKS = ("<think>", "[INST]", "####")


@pytest.fixture(scope="module")
def tokens() -> Tokens:
    return Tokens(MARKS)


def _scan(tokens: Tokens, *rows: str | bytes) -> tuple[np.ndarray, np.ndarray]:
    encoded = [row.encode() if isinstance(row, str) else row for row in rows]
    data = np.frombuffer(b"\n".join(encoded), np.uint8)
    ends = np.cumsum([len(row) + 1 for row in encoded]).astype(np.int64) - 1
    starts = ends - np.array([len(row) for row in encoded])
    assert tokens.scan(data, starts, ends) == len(rows)
    return tokens.is_odd[: len(rows)].astype(bool), tokens.shapes[: len(rows)]


def _odd(tokens: Tokens, row: str | bytes) -> bool:
    return bool(_scan(tokens, row)[0][0])


NOT_JSON = [
    "",
    "[]",
    "1",
    "{",
    "}",
    '{"a"',
    '{"a":',
    '{"a":1',
    '{"a":1,}',
    '{"a":1}}',
    '{"a":1} x',
    '{"a":01}',
    '{"a":1.}',
    '{"a":.5}',
    '{"a":+1}',
    '{"a":1e}',
    '{"a":-}',
    '{"a":NaN}',
    '{"a":Infinity}',
    '{"a":tru}',
    '{"a":nulL}',
    "{'a':1}",
    '{"a":"b}',
    '{"a":"\\x"}',
    '{"a":"\\u12"}',
    '{"a":"\\u12G4"}',
    '{"a":"\t"}',
    '{"a":"\x00"}',
    '{"a":[1,]}',
    '{"a":[1 2]}',
    '{"a":{"b":1,}}',
    '{"a":{"b" 1}}',
    '{"a":[}',
    '{"a":{]}',
    '{"a" 1}',
    '{a:1}',
    '{"a":1 "b":2}',
    b'{"a":"caf\xe9"}',
    b'{"a":"\xc0\xaf"}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"a":"\xf4\x90\x80\x80"}',
    b'{"a":"\xe4\xb8"}',
    b'{"a":["\xff"]}',
]  # fmt: skip


@pytest.mark.parametrize("row", NOT_JSON)
def test_what_no_decoder_takes_is_odd(tokens: Tokens, row: str | bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        raw = msgspec.json.decode(row, type=dict[str, msgspec.Raw])
        [bytes(value).decode() for value in raw.values()]
    assert _odd(tokens, row)


@pytest.mark.parametrize(
    "row",
    [
        "{}",
        '{"a":"x","a":"y"}',
        '{"a":"x","\\u0061":"y"}',
        '{"messages":[{"role":"user","role":"user"}]}',
        '{"a":1e400}',
        '{"messages":[{"role":"user","content":[{"x":"\\ud83d"}]}]}',
        '{"conversations":[{"from":"function_call","value":"{\\"id\\":1,\\"name\\":\\"f\\"}"}]}',
        '{"conversations":[{"from":"function_call","value":"[{}]"}]}',
        '{"conversations":[{"value":"{}","from":"tool_call"}]}',
        '{"a":"\\ud83d"}',
        '{"a":"\\udc00\\ud83d"}',
        '{"a":{"deep":[[[["\\ud83d"]]]]}}',
        '{"a":{"deep":{"\\udc00":1}}}',
        '{"a":"carriage\\r\\nreturn"}',
        '{"a":"nul\\u0000"}',
        '{"a":"line\u2028end"}',
        '{"a":"line\\u2029end"}',
        '{"a":"mark\ufeff"}',
        '{"a":"next\u0085line"}',
        '{"a":"a <think> b"}',
        '{"a":"[INST] b"}',
        '{"a":"12\\n#### 12"}',
        '{"a":"\\u003cthink>"}',
        '{"a":"<\\/think>"}',
        '{"a":" \\n\\t"}',
        '{"a":"\u3000\u00a0"}',
        '{"a":' + "[" * 80 + "]" * 80 + "}",
    ],
)
def test_what_an_adapter_may_look_at_is_odd(tokens: Tokens, row: str) -> None:
    assert _odd(tokens, row)


@pytest.mark.parametrize(
    "row",
    [
        ' { "a" : "x" , "b" : [ 1 , { } ] } ',
        '{"a":"x < y && [1] # 2 <thin","b":"\\"q\\" \\\\ \\/ \\b\\f\\n\\t"}',
        '{"a":"\\ud83d\\ude00 \\u00e9 \\u4e2d"}',
        '{"a":-0.5e+10,"b":1E40,"c":123456789012345678901234567890}',
        '{"a":"日本語 \\u65e5 é"}',
    ],
)
def test_plain_rows_are_not_odd(tokens: Tokens, row: str) -> None:
    json.loads(row)
    assert not _odd(tokens, row)


ROW = '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"tools":"[]","n":1}'


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (ROW.replace('"a"', '"another text"').replace('"n":1', '"n":2.5e9'), True),
        (ROW.replace('"a"', '"\\u00e9\\n"'), True),
        (ROW.replace('"a"', '""'), False),
        (ROW.replace('"a"', "null"), False),
        (ROW.replace('"a"', "1"), False),
        (ROW.replace('"a"', "[]"), False),
        (ROW.replace('"user"', '"human"'), False),
        (ROW.replace('"n":1', '"n":"1"'), False),
        (ROW.replace('"n":1', '"m":1'), False),
        (ROW.replace('"tools":"[]"', '"tools":"{}"'), False),
        (ROW.replace('"tools":"[]"', '"tools":"[1"'), False),
        (ROW.replace('{"role":"user","content":"a"},', ""), False),
        (ROW.replace('"content":"a"', '"content":"a","weight":0'), False),
    ],
)
def test_shapes(tokens: Tokens, other: str, same: bool) -> None:
    is_odd, shapes = _scan(tokens, ROW, other)
    assert not is_odd.any()
    assert (shapes[0] == shapes[1]) == same


def test_equal_ids_are_part_of_the_shape_and_ids_are_not(tokens: Tokens) -> None:
    def row(call: str, result: str) -> str:
        return (
            f'{{"messages":[{{"role":"assistant","tool_calls":[{{"id":"{call}"}}]}},'
            f'{{"role":"tool","tool_call_id":"{result}"}}]}}'
        )

    _, shapes = _scan(tokens, row("a", "a"), row("b1", "b1"), row("a", "b"))
    assert shapes[0] == shapes[1] != shapes[2]


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["messages", "role", "a", "tools", "id", "metadata", "tool_calls"]), _values),
    st.booleans(),
)
def test_spans_hold_the_values(value: dict[str, object], ascii_only: bool) -> None:
    row = json.dumps(value, ensure_ascii=ascii_only).encode(errors="replace")
    tokens = Tokens(MARKS)
    data = np.frombuffer(row, np.uint8)
    tokens.scan(data, np.array([0]), np.array([len(row)]))
    if tokens.is_odd[0]:
        return
    fields = msgspec.json.decode(row, type=dict[str, msgspec.Raw])
    found: dict[str, bytes] = {}
    token = 1
    count = int(tokens.first[1])
    while token < count:
        begin, end = int(tokens.pos[token]), int(tokens.end[token])
        key = row[begin:end].decode()
        token += 1
        quoted = tokens.kinds[token] not in (
            kernel.NUMBER, kernel.TRUE, kernel.FALSE, kernel.NULL, kernel.OBJECT, kernel.LIST, kernel.OPAQUE_OBJECT,
            kernel.OPAQUE_LIST, kernel.OPAQUE_EMPTY, kernel.LITERAL_NUMBER,
        )  # fmt: skip
        begin, end = int(tokens.pos[token]) - quoted, int(tokens.end[token]) + quoted
        found[key] = row[begin:end]
        while token < count and tokens.pos[token] < end:
            token += 1
        # The key behind a value lies behind it.
    assert found == {name: bytes(raw) for name, raw in fields.items()}
