"""Raw rows through the builder, and a judge that shares no code with the adapters: does every value come through?"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from curator.io.build import Builder, SourceSettings
from curator.io.export import TARGETS
from curator.io.export.base import export_record, restorer
from curator.io.raw import RawRow


def built(row: Any, **source: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The records of one row, and the reason why it is bad."""
    data = row if isinstance(row, bytes) else row.encode() if isinstance(row, str) else json.dumps(row).encode()
    (result,) = Builder(SourceSettings("s", **source), "f").build([RawRow(7, 0, data)])
    return result.records.to_pylist(), result.bad.column("reason").to_pylist()


def records_of(row: Any, adapter: str | None = None, **source: Any) -> list[dict[str, Any]]:
    records, bad = built(row, **source)
    assert bad == []
    assert {record["provenance"]["adapter"] for record in records} == {adapter or records[0]["provenance"]["adapter"]}
    assert_kept(row, records)
    assert_restored(row, records)
    return records


def assert_restored(row: Any, records: list[dict[str, Any]]) -> None:
    """Export makes the row again, its key order and number text included, if its family can be restored."""
    family = records[0]["provenance"]["adapter"]
    # Judged pairs with turns of their own are not restored: their form keeps too little.
    if len(records) == 1 and restorer(family) is not None and not (family == "ranked" and _has_turns(row)):
        text = export_record(records[0], TARGETS["source"], False).text
        assert exact(text) == exact(row if isinstance(row, bytes | str) else json.dumps(row)), family


def _has_turns(row: Any) -> bool:
    return isinstance(row, dict) and "conversation_a" in row


def exact(text: str | bytes) -> Any:
    """JSON as key order, number text and all."""
    return json.loads(text, object_pairs_hook=tuple, parse_int=_Number, parse_float=_Number)


def record_of(row: Any, adapter: str | None = None, **source: Any) -> dict[str, Any]:
    (record,) = records_of(row, adapter, **source)
    return record


def bad_reason(row: Any, **source: Any) -> str:
    records, (reason,) = built(row, **source)
    assert records == []
    return reason


def turns_of(record: Mapping[str, Any], name: str = "messages") -> list[tuple[str, str | None]]:
    return [(turn["role"], turn["content"]) for turn in record[name]]


def payload_of(record: Mapping[str, Any]) -> tuple[str, Any]:
    return record["verifier"]["kind"], json.loads(record["verifier"]["payload"])


def extra_of(record: Mapping[str, Any]) -> Any:
    return {} if record["extra"] is None else json.loads(record["extra"])


class _Number(str):
    """A number of a source, by its digits."""


def parsed(text: str | bytes) -> Any:
    """JSON with numbers as they are written."""
    return json.loads(text, parse_int=_Number, parse_float=_Number)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(item)


def _texts_and_names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    yield from _texts(value)
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(item, dict | list):
            yield from _texts_and_names(item)


# What a family knows by its own name is in the adapter's name, not in the record.
_MARKS = (
    "human",
    "gpt",
    "system",
    "user",
    "assistant",
    "function",
    "<|",
    "###",
    "SYSTEM: ",
    "USER: ",
    "{'Instruction'",
)


def assert_kept(row: Any, records: list[dict[str, Any]]) -> None:
    """Every text and number of a row stands somewhere in its records, digit by digit."""
    source = parsed(row if isinstance(row, str | bytes) else json.dumps(row))
    found: list[str] = []
    for record in records:
        for turn in [*record["messages"], *(record["rejected"] or [])]:
            found += [
                turn[key] for key in ("role", "content", "reasoning", "tool_calls", "name") if turn[key] is not None
            ]
            wrap = turn["wrap"] or {"open": "", "close": ""}
            found.append(f"{wrap['open']}{turn['reasoning'] or ''}{wrap['close']}{turn['content'] or ''}")
            if turn["tool_calls"] is not None:
                found += _texts_and_names(parsed(turn["tool_calls"]))
        for text in (record["tools"], record["extra"], (record["verifier"] or {}).get("payload")):
            if text is not None:
                found.append(text)
                with suppress(ValueError):  # tools that came as a text may be any text
                    found += _texts_and_names(parsed(text))
        found += _texts_and_names(parsed(record["provenance"]["form"]))
        found += [value for value in record["metadata"].values() if isinstance(value, str)]
    everything = "\n".join(found)
    for text in _texts(source):
        assert text in everything or text.startswith(_MARKS), f"lost: {text!r}"
