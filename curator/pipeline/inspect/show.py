"""Records as a person reads them."""

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator.errors import CuratorError, UsageError
from curator.io.dataset import Dataset
from curator.io.media import media_name
from curator.io.stream import StreamReader
from curator.pipeline.pipes import is_stream
from curator.schema.expression import Expression
from curator.schema.selectors import select_text
from curator.stages.sample import Sample

SHOWN_CHARS = 1_200
_PARTS = ("kept", "rejects", "quarantine")


def find_records(
    path: str,
    part: str = "kept",
    record_id: str | None = None,
    where: str | None = None,
    grep: str | None = None,
    head: int | None = None,
    sample: int | None = None,
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    """Records of a folder (or stream) that meet all conditions, as dictionaries; at most `head`, or `sample` at random.

    `part` is kept, rejects or quarantine; `grep` is a regular expression (RE2) over the conversation.
    """
    for option, number in (("--head", head), ("--sample", sample)):
        if number is not None and number < 1:
            raise UsageError(f"{option} {number}", hint="at least 1")
    if part not in _PARTS:
        raise UsageError(f"no part {part!r}", hint=", ".join(_PARTS))
    schema, batches = _batches(path, part)
    expression = None if where is None else Expression(where, schema, "--where")
    if expression is not None:
        expression.require_bool()
    if part == "quarantine" and grep is not None:
        raise UsageError("--grep looks into records", hint="quarantined rows can be filtered by --where reason ...")
    matches = _matching(batches, record_id, expression, grep)
    if sample is not None:
        yield from _sampled(matches, Sample(rows=sample, seed=seed))
        return
    left = head
    for batch in matches:
        rows = batch.to_pylist() if left is None else batch.slice(0, left).to_pylist()
        yield from rows
        if left is not None:
            left -= len(rows)
            if left <= 0:
                return


def _batches(path: str, part: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if is_stream(path):
        reader = StreamReader.open(path)
        return reader.schema, reader.batches()
    dataset = Dataset.open(path)
    if part == "kept":
        return dataset.schema, dataset.batches()
    if part == "rejects":
        return dataset.schema, dataset.rejects()
    from curator.schema.record import QUARANTINE_SCHEMA

    return QUARANTINE_SCHEMA, dataset.quarantine()


def _matching(
    batches: Iterator[pa.RecordBatch], record_id: str | None, expression: Expression | None, grep: str | None
) -> Iterator[pa.RecordBatch]:
    if grep is not None:
        try:
            pc.match_substring_regex(pa.array([""]), grep)
        except pa.ArrowInvalid as error:
            raise UsageError(f"--grep {grep}: {error}") from None
    for batch in batches:
        if record_id is not None:
            batch = batch.filter(pc.equal(batch.column("id"), record_id))
        if expression is not None and batch.num_rows:
            batch = batch.filter(pc.fill_null(expression.evaluate_bool(batch), False))
        if grep is not None and batch.num_rows:
            batch = batch.filter(pc.match_substring_regex(select_text(batch, "conversation"), grep))
        if batch.num_rows:
            yield batch
        if record_id is not None and batch.num_rows:
            return


def _sampled(batches: Iterator[pa.RecordBatch], sample: Sample) -> Iterator[dict[str, Any]]:
    """The records with the smallest seeded hashes, in their order; only candidates are held."""
    import xxhash

    best: list[tuple[int, int, dict[str, Any]]] = []
    row = 0
    for batch in batches:
        hashes = [xxhash.xxh3_64_intdigest(text.encode(), sample.seed) for text in batch.column("id").to_pylist()]
        candidates = np.argsort(hashes, kind="stable")[: sample.rows].tolist()
        taken = batch.take(pa.array(candidates, pa.int64())).to_pylist()
        best += [(hashes[index], row + index, record) for index, record in zip(candidates, taken, strict=True)]
        best = sorted(best, key=lambda item: item[:2])[: sample.rows]
        row += batch.num_rows
    yield from (record for _, _, record in sorted(best, key=lambda item: item[1]))


def record_text(record: dict[str, Any], full: bool = False) -> str:
    """A record as a few lines of plain text."""
    if "raw" in record:
        raw = record["raw"].decode(errors="backslashreplace")
        place = f"{record['file']}, row {record['row']}, byte {record['byte_offset']:,}"
        return f"== {record['id']}  ({place})\n   {record['reason']}\n   {_cut(raw, full)}"
    metadata = record["metadata"] or {}
    tags = [f"{name}={_value(value)}" for name, value in metadata.items() if value not in (None, [])]
    lines = [f"== {record['id']}  ({record['kind']})", f"   {'  '.join(tags)}"]
    if record.get("scores"):
        told = {name: score for name, score in record["scores"].items() if score and score["value"] is not False}
        scores = "  ".join(f"{name}={_score(score)}" for name, score in told.items())
        lines += textwrap.wrap(scores, 110, initial_indent="   ", subsequent_indent="   ")
    if record["dedup"] and record["dedup"]["component"]:
        dedup = record["dedup"]
        lines.append(f"   in a component of {dedup['component_size']} ({dedup['component']})")
    if record["drop"]:
        lines.append(f"   DROPPED {drop_text(record['drop'])}")
    if record["tools"]:
        lines.append(f"[tools] {_cut(record['tools'], full)}")
    lines += _turns(record["messages"], full)
    if record["rejected"]:
        lines.append("-- rejected:")
        lines += _turns(record["rejected"], full)
    if record["extra"]:
        lines.append(f"   extra {_cut(record['extra'], full)}")
    return "\n".join(lines)


def _turns(messages: Sequence[dict[str, Any]], full: bool) -> list[str]:
    lines = []
    for message in messages:
        if message["reasoning"]:
            lines.append(f"[{message['role']}, reasoning] {_cut(message['reasoning'], full)}")
        if message["content"] is not None:
            lines.append(f"[{message['role']}] {_cut(message['content'], full)}")
        for image in message["images"] or ():
            name = media_name(image["sha256"], image["mime"])
            lines.append(f"[{message['role']}, image at byte {image['offset']:,}] {name}")
        if message["tool_calls"]:
            lines.append(f"[{message['role']}, tool call] {_cut(message['tool_calls'], full)}")
    return lines


def drop_text(drop: dict[str, Any]) -> str:
    """Why a record was removed, in one line."""
    text = f"by {drop['step']}, rule {drop['rule']}"
    if drop["value"] is not None:
        text += f", value {drop['value']:g}"
    if drop["threshold"] is not None:
        text += f", threshold {drop['threshold']:g}"
    if drop["keeper"]:
        text += f", in favour of {drop['keeper']}"
    return text + (f": {drop['detail']}" if drop["detail"] else "")


def _score(score: dict[str, Any]) -> str:
    value = score["value"]
    if value is None:
        return f"({score['status']})"
    return _value(value)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


# What would move the cursor or clear the screen is shown, not sent.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _cut(text: str, full: bool) -> str:
    text = _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
    if full or len(text) <= SHOWN_CHARS:
        return text
    return f"{text[:SHOWN_CHARS]} ... (+{len(text) - SHOWN_CHARS:,} characters)"


def record_json(record: dict[str, Any]) -> str:
    """A record as one line of JSON; bytes as hex."""
    return json.dumps(record, ensure_ascii=False, default=lambda value: value.hex())


def require_found(found: int, path: str | Path, record_id: str | None) -> None:
    """Raise CuratorError when a record named by id is not there."""
    if record_id is not None and not found:
        raise CuratorError(
            f"{path} has no record {record_id}", hint="curator why ID FOLDER follows it through all steps"
        )
