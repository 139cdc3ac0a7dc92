"""From raw rows to Arrow: adapters are applied, ids and hashes given, and what fails is kept for quarantine."""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from curator.errors import UsageError
from curator.io.adapters import ADAPTERS, UNCLEAR, rival
from curator.io.adapters.base import Adapter, BadRow, Draft, Message, object_text, raw_text, refuse_repeats
from curator.io.dataset import BATCH_BYTES
from curator.io.gate import DEFAULT_GATE, Gate
from curator.io.mapping import compile_map, mapped_fields
from curator.io.raw import MAX_RECORD_BYTES, RawRow
from curator.schema.check import did_you_mean
from curator.schema.record import (
    FIELD_TYPES,
    HASH_TYPE,
    MAX_JSON_DEPTH,
    METADATA_FIELDS,
    QUARANTINE_SCHEMA,
    content_hash,
    fitting,
    ids_digest,
    record_schema,
)

SHARD_BYTES = 64 << 20
_BUILD_ROWS = 2_048


@dataclasses.dataclass(frozen=True)
class SourceSettings:
    """What a person says about a source besides where it lies."""

    name: str
    license: str | None = None
    metadata: dict[str, str | bool | int | float] = dataclasses.field(default_factory=dict)
    """Tags for every row of the source; a row's own value wins."""
    fields: dict[str, str] = dataclasses.field(default_factory=dict)
    """Declared metadata fields: name to string, int, float or bool; filled from the row's field of that name."""
    adapter: str | None = None
    """Force one adapter instead of choosing by field names."""
    map: dict[str, str] = dataclasses.field(default_factory=dict)
    """The person's own mapping instead of an adapter: place in the record to path in the row."""
    shard_bytes: int = SHARD_BYTES
    """A shard ends at the first record that begins behind a multiple of this many decompressed bytes."""
    max_record_bytes: int = MAX_RECORD_BYTES
    max_quarantine: str | int = DEFAULT_GATE
    """More bad rows than this, a share of all or a number, stop the run."""
    allow_empty: bool = False
    """Take patterns that match nothing, and files without rows."""
    retry_failed: bool = False
    """Read files with quarantined rows again, though nothing has changed."""
    replace: bool = False
    """A changed file takes the place of what it was, instead of standing beside it as `path@2`."""

    def __post_init__(self) -> None:
        if not self.name or any(char in self.name for char in "/#!@ \t\n"):
            raise UsageError(f"source name {self.name!r}", hint="letters, digits, - and _; it begins every record's id")
        if self.adapter is not None and self.adapter not in ADAPTERS:
            raise UsageError(f"no adapter {self.adapter!r}", hint=did_you_mean(self.adapter, ADAPTERS))
        if self.adapter is not None and self.map:
            raise UsageError(
                f"source {self.name}: adapter and map", hint="a map is an adapter of your own; leave one out"
            )
        for field, type_ in self.fields.items():
            if not field.isidentifier():
                raise UsageError(f"--field {field}:{type_}: not a name", hint="letters, digits and _")
            if type_ not in FIELD_TYPES:
                raise UsageError(f"--field {field}:{type_}: no such type", hint=f"one of {', '.join(FIELD_TYPES)}")
            if field in METADATA_FIELDS:
                raise UsageError(f"--field {field}: every record has this field", hint="rename yours")
        for field in self.metadata:
            if field not in METADATA_FIELDS and field not in self.fields:
                raise UsageError(
                    f"source {self.name}: metadata field {field} is not declared",
                    hint=did_you_mean(field, [*METADATA_FIELDS, *self.fields]),
                )
        for field, value in self.metadata.items():
            wanted = FIELD_TYPES[self.fields[field]] if field in self.fields else METADATA_FIELDS[field]
            if fitting(value, wanted) is None:
                raise UsageError(f"source {self.name}: metadata field {field} is {wanted}, {value!r} does not fit")
        if self.map:
            try:
                compile_map(self.map, self.fields)
            except UsageError as error:
                raise UsageError(f"source {self.name}: {error.message}", error.hint) from None
        Gate.parse(self.max_quarantine)
        if self.shard_bytes < 1024 or self.max_record_bytes < 1024:
            raise UsageError("shard_bytes and max_record_bytes must be at least 1024")

    def describe(self) -> dict[str, Any]:
        """What the records are a function of: all but what only decides whether a run goes on."""
        settings = dataclasses.asdict(self)
        for name in ("max_quarantine", "allow_empty", "retry_failed", "replace"):
            del settings[name]
        return settings

    def schema(self) -> pa.Schema:
        return record_schema({name: FIELD_TYPES[type_] for name, type_ in self.fields.items()})


@dataclasses.dataclass
class Built:
    """Records and bad rows of a stretch of raw rows, in order."""

    records: pa.RecordBatch
    bad: pa.RecordBatch
    num_rows: int
    """Records and bad rows; a raw row that holds several records counts as often."""
    ids: int
    """Multiset digest of the ids of all of them."""
    first_offset: int
    text_bytes: int
    adapters: dict[str, int]


class Found(msgspec.Struct, gc=False):
    """A record on its way to Arrow: what the adapter read, and where."""

    row: RawRow
    adapter: str
    draft: Draft
    extra: str | None
    declared: dict[str, Any]
    part: int | None = None
    """Its number among the records of a row that holds several."""


_NULL = ord("n")
"""The first byte of a null."""
_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Builder:
    """Builds records of one raw file. `file` is its relative path, `generation` the ingest run that brings it."""

    def __init__(self, source: SourceSettings, file: str, generation: int = 0) -> None:
        self._source = source
        self._file = file
        self._generation = generation
        self._own = compile_map(source.map, source.fields) if source.map else None
        self._mapped = mapped_fields(source.map)
        self._prefix = f"{source.name}/{file}#"
        self._schema = source.schema()
        self._chosen: dict[frozenset[str], Adapter] = {}

    def build(self, rows: Iterable[RawRow]) -> Iterator[Built]:
        """Stretches of at most 2,048 rows, 64 MiB and one shard of the input each."""
        pending: list[RawRow] = []
        pending_bytes = 0
        for row in rows:
            crosses = (
                pending
                and row.byte_offset // self._source.shard_bytes != pending[0].byte_offset // self._source.shard_bytes
            )
            if crosses or len(pending) >= _BUILD_ROWS or pending_bytes >= BATCH_BYTES:
                yield self._build(pending, pending_bytes)
                pending, pending_bytes = [], 0
            pending.append(row)
            pending_bytes += len(row.data)
        if pending:
            yield self._build(pending, pending_bytes)

    def _build(self, rows: list[RawRow], text_bytes: int) -> Built:
        found: list[Found] = []
        bad: list[tuple[RawRow, str]] = []
        adapters: dict[str, int] = {}
        for row in rows:
            try:
                records = self._read(row)
            except BadRow as error:
                bad.append((row, str(error)))
                continue
            found += records
            name = records[0].adapter
            adapters[name] = adapters.get(name, 0) + 1
        ids = [self._id(record) for record in found]
        return Built(
            self._batch(found, ids),
            self._bad_batch(bad),
            len(found) + len(bad),
            ids_digest([*ids, *(f"{self._prefix}{row.row}" for row, _ in bad)]),
            rows[0].byte_offset,
            text_bytes,
            adapters,
        )

    def _id(self, record: Found) -> str:
        return f"{self._prefix}{record.row.row}" + ("" if record.part is None else f".{record.part}")

    def _read(self, row: RawRow) -> list[Found]:
        """The records of a raw row, most often one. Raises BadRow."""
        if row.problem:
            raise BadRow(row.problem)
        if row.data.count(b"[") + row.data.count(b"{") > MAX_JSON_DEPTH and _nests_deeper(row.data, MAX_JSON_DEPTH):
            raise BadRow(f"nested too deeply: more than {MAX_JSON_DEPTH} levels")
        try:
            fields = _decoder.decode(row.data)
            refuse_repeats(row.data, [fields])
            adapter = self._own or self._adapter(fields)
            drafts = adapter.convert(fields)
            self._refuse_unclear(adapter, fields, [drafts] if isinstance(drafts, Draft) else drafts)
            if isinstance(drafts, Draft):
                return [self._found(row, adapter, fields, drafts)]
            if not drafts:
                raise BadRow("no records: the row holds none")
            return [self._found(row, adapter, fields, draft, part) for part, draft in enumerate(drafts)]
        except msgspec.ValidationError:
            raise BadRow("wrong type: the row is not an object") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadRow(_explain(row, error)) from None

    def _found(
        self, row: RawRow, adapter: Adapter, fields: Mapping[str, msgspec.Raw], draft: Draft, part: int | None = None
    ) -> Found:
        declared = self._declared(fields, draft)
        rest = {name: raw_text(raw) for name, raw in fields.items() if name not in draft.used} | draft.left
        return Found(row, adapter.name, draft, object_text(rest) if rest else None, declared, part)

    def _adapter(self, fields: Mapping[str, msgspec.Raw]) -> Adapter:
        names = frozenset(fields)
        adapter = self._chosen.get(names)
        if adapter is None:
            if self._source.adapter is not None:
                adapter = ADAPTERS[self._source.adapter]
                if not adapter.takes(names):
                    raise BadRow(f"not {adapter.name}: fields are {_shown(names)}")
            else:
                adapter = next((candidate for candidate in ADAPTERS.values() if candidate.takes(names)), None)
                if adapter is None:
                    raise BadRow(f"no adapter: fields are {_shown(names)}")
            self._chosen[names] = adapter
        return adapter

    def _refuse_unclear(self, adapter: Adapter, fields: Mapping[str, msgspec.Raw], drafts: list[Draft]) -> None:
        """Raise BadRow when two families can claim the row, unless a person said which has it."""
        if self._own is not None or self._source.adapter is not None:
            return
        used = frozenset(name for draft in drafts for name in draft.used)
        left = {name: raw for name, raw in fields.items() if name not in used and memoryview(raw)[0] != _NULL}
        if left and (readings := rival(adapter, used, left)) is not None:
            raise BadRow(f"{UNCLEAR}: {readings}")

    def _declared(self, fields: Mapping[str, msgspec.Raw], draft: Draft) -> dict[str, Any]:
        """Values of the fields a person declared; what does not fit the type stays in extra."""
        values: dict[str, Any] = {}
        for name, type_ in self._source.fields.items():
            if name not in fields or name in self._mapped:
                continue
            try:
                value = fitting(msgspec.json.decode(fields[name]), FIELD_TYPES[type_])
            except msgspec.ValidationError:  # a number beyond any float
                value = None
            if value is not None:
                values[name] = value
                draft.used = (*draft.used, name)
        return values

    def _batch(self, found: list[Found], ids: list[str]) -> pa.RecordBatch:
        source, schema, count = self._source, self._schema, len(found)
        drafts = [record.draft for record in found]
        hashes = [content_hash(draft.messages, draft.tools, draft.rejected, draft.verifier) for draft in drafts]
        constant = {"source": source.name, "license": source.license, **source.metadata}
        metadata = [{**constant, **record.draft.metadata, **record.declared} for record in found]
        metadata_type = schema.field("metadata").type
        provenance_type = schema.field("provenance").type
        groups = [None if draft.group is None else f"{self._prefix}{draft.group}" for draft in drafts]
        verifiers = [None if draft.verifier is None else _verifier(draft.verifier) for draft in drafts]

        def repeated(value: Any, type_: pa.DataType) -> pa.Array:
            return pa.repeat(pa.scalar(value, type_), count)

        columns = {
            "id": pa.array(ids, pa.string()),
            "content_hash": pa.array(hashes, HASH_TYPE),
            "kind": pa.array([draft.kind for draft in drafts], pa.string()),
            "group": pa.array(groups, pa.string()),
            "messages": message_lists([draft.messages for draft in drafts]),
            "tools": pa.array([draft.tools for draft in drafts], pa.string()),
            "rejected": message_lists([draft.rejected for draft in drafts]),
            "verifier": pa.array(verifiers, schema.field("verifier").type),
            "metadata": pa.StructArray.from_arrays(
                [pa.array([row.get(field.name) for row in metadata], field.type) for field in metadata_type],
                fields=list(metadata_type),
            ),
            "loss_weight": pa.array([draft.loss_weight for draft in drafts], pa.float32()),
            "extra": pa.array([record.extra for record in found], pa.string()),
            "provenance": pa.StructArray.from_arrays(
                [
                    repeated(self._file, pa.string()),
                    pa.array([record.row.row for record in found], pa.int64()),
                    pa.array([record.row.byte_offset for record in found], pa.int64()),
                    pa.array([record.adapter for record in found], pa.string()),
                    repeated(self._generation, pa.int32()),
                    pa.array([msgspec.json.encode(draft.form).decode() for draft in drafts], pa.string()),
                    repeated(None, pa.string()),
                ],
                fields=list(provenance_type),
            ),
        }
        arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _bad_batch(self, bad: list[tuple[RawRow, str]]) -> pa.RecordBatch:
        columns = [
            [f"{self._prefix}{row.row}" for row, _ in bad],
            [self._file] * len(bad),
            [row.row for row, _ in bad],
            [row.byte_offset for row, _ in bad],
            [reason for _, reason in bad],
            [row.data for row, _ in bad],
        ]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, QUARANTINE_SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=QUARANTINE_SCHEMA)


def _verifier(verifier: tuple[str, str]) -> dict[str, str]:
    kind, payload = verifier
    return {"kind": kind, "payload": payload}


def message_lists(rows: list[list[Message] | None]) -> pa.ListArray:
    """Messages of many records as one Arrow list array; None gives null."""
    from curator.schema.record import IMAGE_TYPE, MESSAGE_TYPE, WRAP_TYPE

    flat = [message for row in rows if row is not None for message in row]
    lengths = np.fromiter((0 if row is None else len(row) for row in rows), np.int32, len(rows))
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    children = [
        pa.array([message.role for message in flat], pa.string()),
        pa.array([message.content for message in flat], pa.string()),
        pa.array([message.reasoning for message in flat], pa.string()),
        pa.array([message.tool_calls for message in flat], pa.string()),
        pa.array([message.tool_call_id for message in flat], pa.string()),
        pa.array([message.name for message in flat], pa.string()),
        pa.array([message.wrap for message in flat], WRAP_TYPE),
        pa.array([message.weight for message in flat], pa.float32()),
        pa.array([message.images for message in flat], pa.list_(IMAGE_TYPE)),
    ]
    values = pa.StructArray.from_arrays(children, fields=list(MESSAGE_TYPE))
    nulls = np.fromiter((row is None for row in rows), bool, len(rows))
    return pa.ListArray.from_arrays(
        offsets, values, type=pa.list_(MESSAGE_TYPE), mask=pa.array(nulls) if nulls.any() else None
    )


def _shown(names: Iterable[str]) -> str:
    names = sorted(names)
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "") if names else "none"


# A text that does not end is a token too, or each quote in it would be tried again.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[][{}]', re.DOTALL)


def _nests_deeper(text: bytes, limit: int) -> bool:
    """Whether lists and objects stand in one another more than `limit` deep."""
    depth = 0
    for token in _TOKEN.finditer(text):
        mark = text[token.start()]
        if mark in b"[{":
            depth += 1
            if depth > limit:
                return True
        elif mark in b"]}":
            depth -= 1
    return False


_HALF_CHARACTER = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]..",
    re.DOTALL,
)


def _explain(row: RawRow, error: Exception) -> str:
    """Reason and detail of a row that cannot be decoded, with what it looks like when that is a known mistake."""
    try:
        row.data.decode()
    except UnicodeDecodeError as bad:
        return f"not UTF-8: byte {row.byte_offset + bad.start:,}"
    if half := _HALF_CHARACTER.search(row.data):
        return f"not text: a lone surrogate, {half[0][:6].decode()}"
    text = str(error).removeprefix("JSON is malformed: ")
    if row.data.lstrip().startswith(b"{'"):
        text += "; it looks like a Python dictionary (single quotes)"
    elif b"NaN" in row.data or b"Infinity" in row.data:
        text += "; NaN and Infinity are not JSON"
    elif b"}{" in row.data:
        text += "; it looks like several objects without line breaks"
    return f"not JSON: {text}"
