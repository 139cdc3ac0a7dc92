"""Every family, every field, every wrong type: a row is a record that keeps it all or a bad row, never an exception."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from adapter_samples import assert_kept, built, parsed

from curator.io.adapters import ADAPTERS
from curator.io.adapters.base import Unrestorable

_OLDER = ("openai", "sharegpt", "preference", "alpaca", "pairs", "transcripts")
_VALUES = (
    None,
    1,
    2.5,
    True,
    "x",
    "",
    [],
    {},
    [1],
    ["a"],
    [[]],
    [{}],
    [{"a": 1}],
    {"a": 1},
    {"a": {"b": []}},
    [["a", 1]],
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*path, key))


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _with(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize("name", [name for name in ADAPTERS if name not in _OLDER])
def test_a_wrong_type_anywhere_is_a_bad_row_or_is_kept(name: str) -> None:
    example = json.loads(ADAPTERS[name].example)
    for path in _places(example):
        for value in _VALUES:
            row = _with(example, path, value)
            records, bad = built(row)
            assert len(bad) <= 1 and bool(bad) != bool(records), (path, value)
            if bad:
                assert ": " in bad[0], (path, value)
            elif records[0]["provenance"]["adapter"] not in _OLDER:
                assert_kept(row, records)
                _assert_restored(row, records)


def _assert_restored(row: Any, records: list[dict[str, Any]]) -> None:
    restore = ADAPTERS[records[0]["provenance"]["adapter"]].restore
    if restore is None or len(records) > 1:
        return
    try:
        back = restore(records[0])
    except Unrestorable:
        assert "part" in json.loads(records[0]["provenance"]["form"])
        return
    assert parsed(back) == parsed(json.dumps(row)) and list(parsed(back)) == list(row)
