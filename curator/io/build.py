"""From raw rows to Arrow: adapters are applied, ids and hashes given, and what fails is kept for quarantine."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator.errors import UsageError
from curator.io.adapters import ADAPTERS, UNCLEAR, rival
from curator.io.adapters.base import (
    BARE,
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    json_text,
    kind_of,
    object_text,
    raw_text,
    refuse_repeats,
)
from curator.io.dataset import BATCH_BYTES
from curator.io.gate import DEFAULT_GATE, Gate
from curator.io.issues import MARKS, turn_issues
from curator.io.mapping import compile_map, mapped_fields
from curator.io.media import MediaStore
from curator.io.raw import MAX_RECORD_BYTES, RawRow
from curator.io.repair import REPAIRS, repair_turns, without_surrogates
from curator.io.sides import ANSWER_FIELDS, Side
from curator.schema.check import did_you_mean
from curator.schema.record import (
    FIELD_TYPES,
    HASH_TYPE,
    MAX_JSON_DEPTH,
    METADATA_FIELDS,
    QUARANTINE_SCHEMA,
    add_digests,
    column_type,
    content_hash,
    fitting,
    ids_digest,
    record_schema,
)

SHARD_BYTES = 64 << 20
_BUILD_ROWS = 2_048
_BUILD_TURNS = 1 << 18


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
    image_root: str | None = None
    """Folder that paths of images are relative to, and must lie in; without it the folder of each file."""
    join: str | None = None
    """A side file whose rows join the source's by id: its path from the folder of a file, `{name}` being its name."""
    repair: tuple[str, ...] = ()
    """What may be changed, and is said where it was: merge_consecutive, drop_trailing_user, surrogates."""
    max_quarantine: str | int = DEFAULT_GATE
    """More bad rows than this, a share of all or a number, stop the run."""
    allow_empty: bool = False
    """Take patterns that match nothing, and files without rows."""
    retry_failed: bool = False
    """Read files with quarantined rows again, though nothing has changed."""
    replace: bool = False
    """A changed file takes the place of what it was, instead of standing beside it as `path@2`."""
    header: bool | None = None
    """Whether the first row of a CSV or TSV names its columns; None lets the content say."""
    columns: tuple[str, ...] = ()
    """Names of the columns of a CSV or TSV without header."""

    def __post_init__(self) -> None:
        if not self.name or any(char in self.name for char in "/#!@ \t\n"):
            raise UsageError(f"source name {self.name!r}", hint="letters, digits, - and _; it begins every record's id")
        if self.adapter is not None and self.adapter not in ADAPTERS:
            raise UsageError(f"no adapter {self.adapter!r}", hint=did_you_mean(self.adapter, ADAPTERS))
        for repair in self.repair:
            if repair not in REPAIRS:
                raise UsageError(f"source {self.name}: no repair {repair!r}", hint=did_you_mean(repair, REPAIRS))
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
    kept_ids: int
    """Multiset digest of the ids of the records."""
    bad_ids: int
    """And of the bad rows."""
    first_offset: int
    text_bytes: int
    adapters: dict[str, int]
    counts: dict[str, int]
    """What else to say about the stretch: records by turn issue, by control token, by repair."""

    def followed_by(self, other: "Built") -> "Built":
        """This stretch and the one behind it as one."""
        return Built(
            _joined(self.records, other.records),
            _joined(self.bad, other.bad),
            self.num_rows + other.num_rows,
            add_digests(self.kept_ids, other.kept_ids),
            add_digests(self.bad_ids, other.bad_ids),
            self.first_offset,
            self.text_bytes + other.text_bytes,
            sum_counts(self.adapters, other.adapters),
            sum_counts(self.counts, other.counts),
        )


def sum_counts(first: Mapping[str, int], second: Mapping[str, int], times: int = 1) -> dict[str, int]:
    """First and `times` the second, by name."""
    return {**first, **{name: first.get(name, 0) + times * count for name, count in second.items()}}


def _joined(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    if not first.num_rows or not second.num_rows:
        return first if first.num_rows else second
    return pa.Table.from_batches([first, second]).combine_chunks().to_batches()[0]


class Found(msgspec.Struct, gc=False):
    """A record on its way to Arrow: what the adapter read, and where."""

    row: RawRow
    adapter: str
    draft: Draft
    extra: str | None
    declared: dict[str, Any]
    part: int | None = None
    """Its number among the records of a row that holds several."""
    repaired: list[str] = []


_NULL = ord("n")
"""The first byte of a null."""
_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_turns_decoder = msgspec.json.Decoder(list[msgspec.Raw])


class Builder:
    """Builds records of one raw file. `file` is its relative path, `side` the answers that join its rows, `media` takes
    its images, `generation` is the ingest run that brings it."""

    def __init__(
        self,
        source: SourceSettings,
        file: str,
        side: Side | None = None,
        media: MediaStore | None = None,
        generation: int = 0,
    ) -> None:
        self._media = media or MediaStore(None, None)
        self._side = side
        self.source = source
        self._file = file
        self._generation = generation
        self._own = compile_map(source.map, source.fields) if source.map else None
        self._mapped = mapped_fields(source.map)
        self._prefix = f"{source.name}/{file}#"
        self._schema = source.schema()
        self._chosen: dict[frozenset[str], list[Adapter]] = {}
        self._begun: dict[str, Callable[[Fields], Draft | list[Draft]]] = {}

    def build(self, rows: Iterable[RawRow]) -> Iterator[Built]:
        """Stretches of at most 2,048 rows, 64 MiB and one shard of the input each."""
        pending: list[RawRow] = []
        pending_bytes = last_offset = 0
        for row in rows:
            crosses = (
                pending
                and row.byte_offset // self.source.shard_bytes != pending[0].byte_offset // self.source.shard_bytes
            )
            if crosses or len(pending) >= _BUILD_ROWS or pending_bytes >= BATCH_BYTES:
                yield from self._build(pending)
                pending, pending_bytes = [], 0
            pending.append(row)
            pending_bytes += len(row.data)
            last_offset = row.byte_offset
        if pending:
            yield from self._build(pending)
        if self._side is not None and (unmet := self._side.unmet()):
            yield Builder(self.source, self._side.relative)._built([], unmet, last_offset, 0, {})

    def read_rows(self, rows: list[RawRow]) -> Built:
        """The records of these rows in one stretch."""
        parts = list(self._build(rows))
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.followed_by(part)
        return whole

    def _build(self, rows: list[RawRow]) -> Iterator[Built]:
        """One stretch, or more where rows hold several records that repeat turns of one another."""
        first_offset, text_bytes, num_turns, num_chars = rows[0].byte_offset, 0, 0, 0
        found: list[Found] = []
        bad: list[tuple[RawRow, str]] = []
        adapters: dict[str, int] = {}
        for row in rows:
            text_bytes += len(row.data)
            try:
                records = self.read(row)
            except BadRow as error:
                bad.append((row, str(error)))
                continue
            name = records[0].adapter
            adapters[name] = adapters.get(name, 0) + 1
            for record in records:
                messages = record.draft.messages
                if len(messages) > 2:
                    num_turns += len(messages)
                    num_chars += sum(len(message.content or "") for message in messages)
                    if found and (num_turns > _BUILD_TURNS or num_chars > BATCH_BYTES):
                        yield self._built(found, bad, first_offset, text_bytes, adapters)
                        found, bad, adapters, text_bytes, num_turns, num_chars = [], [], {}, 0, 0, 0
                found.append(record)
        yield self._built(found, bad, first_offset, text_bytes, adapters)

    def _built(
        self,
        found: list[Found],
        bad: list[tuple[RawRow, str]],
        first_offset: int,
        text_bytes: int,
        adapters: dict[str, int],
    ) -> Built:
        ids = [self._id(record) for record in found]
        counts: dict[str, int] = {}
        for record in found:
            look(record.draft, record.repaired, counts)
        return Built(
            self._batch(found, ids),
            self._bad_batch(bad),
            len(found) + len(bad),
            ids_digest(ids),
            ids_digest(f"{self._prefix}{row.row}" for row, _ in bad),
            first_offset,
            text_bytes,
            adapters,
            counts,
        )

    def _id(self, record: Found) -> str:
        return f"{self._prefix}{record.row.row}" + ("" if record.part is None else f".{record.part}")

    def read(self, row: RawRow) -> list[Found]:
        """The records of a raw row, most often one. Raises BadRow."""
        if row.problem:
            raise BadRow(row.problem)
        if row.data.count(b"[") + row.data.count(b"{") > MAX_JSON_DEPTH and _nests_deeper(row.data, MAX_JSON_DEPTH):
            raise BadRow(f"nested too deeply: more than {MAX_JSON_DEPTH} levels")
        try:
            fields, is_changed = self._decode(row)
            question = fields
            answer = None if self._side is None else self._side.answer(fields)
            if answer is not None:
                fields = {**fields, **answer}
            adapter = self._own or self._adapter(fields)
            drafts = self._convert(adapter)(fields)
            self._refuse_unclear(adapter, fields, [drafts] if isinstance(drafts, Draft) else drafts)
            if isinstance(drafts, list) and not drafts:
                raise BadRow("no records: the row holds none")
            if answer is not None:
                for draft in [drafts] if isinstance(drafts, Draft) else drafts:
                    draft.form = {**draft.form, "joined": list(answer)}
            for draft in [drafts] if isinstance(drafts, Draft) else drafts:
                if any(message.images for message in (*draft.messages, *(draft.rejected or ()))):
                    self._media.resolve(draft)
            if isinstance(drafts, Draft):
                found = [self._found(row, adapter, fields, drafts, None, is_changed)]
            else:
                found = [
                    self._found(row, adapter, fields, draft, part, is_changed) for part, draft in enumerate(drafts)
                ]
            if self._side is not None:
                self._side.count(question)
            return found
        except msgspec.ValidationError:
            raise BadRow("wrong type: the row is not an object") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadRow(_explain(row, error)) from None

    def group_of(self, record: Found) -> str | None:
        """The record's group, in full; that of a draft may be empty, which is the row."""
        return None if record.draft.group is None else f"{self._prefix}{record.draft.group or record.row.row}"

    def _decode(self, row: RawRow) -> tuple[dict[str, msgspec.Raw], bool]:
        """The fields of a row, and whether halves of characters in it were replaced."""
        data, is_changed = row.data, False
        if "surrogates" in self.source.repair and b"\\u" in data and _HALF_CHARACTER.search(data):
            data, num_changed = without_surrogates(data)
            is_changed = num_changed > 0
        if data[:1] == b'"':
            # A row that is a text has one field, under a name of its own.
            if data[1:].lstrip()[:1] in (b"{", b"["):
                raise BadRow("wrong type: the row is a text that holds JSON, not an object")
            return {BARE: msgspec.Raw(data)}, is_changed
        if data[:1] == b"[" and data[1:].lstrip()[:1] == b"{":
            _turns_decoder.decode(data)  # each turn is looked into later, by a family
            return {BARE: msgspec.Raw(data)}, is_changed
        fields = _decoder.decode(data)
        refuse_repeats(data, [fields])
        return fields, is_changed

    def _found(
        self,
        row: RawRow,
        adapter: Adapter,
        fields: Mapping[str, msgspec.Raw],
        draft: Draft,
        part: int | None,
        is_changed: bool,
    ) -> Found:
        declared = self._declared(fields, draft)
        rest = {name: raw_text(raw) for name, raw in fields.items() if name not in draft.used} | draft.left
        repaired = repair_turns(draft, self.source.repair) if self.source.repair else []
        if is_changed:
            repaired = ["surrogates", *repaired]
        return Found(row, adapter.name, draft, object_text(rest) if rest else None, declared, part, repaired)

    @property
    def no_rows(self) -> pa.RecordBatch:
        """A quarantine without rows."""
        return self._bad_batch([])

    @property
    def marks(self) -> Sequence[str]:
        """What makes an adapter look at a text: rows without any differ in their texts alone."""
        return MARKS

    def reads_by_shape(self, fields: Fields, has_opaque: bool) -> bool:
        """Whether rows with these fields, without a mark, are read by the names and kinds of fields alone.

        Families that are asked first look at the kinds of fields, and may look into lists and objects, if there are
        any that are not opened.
        """
        if self._own is not None:
            return self._own.by_shape
        candidates = self._candidates(frozenset(fields))
        chosen = next((n for n, known in enumerate(candidates) if known.fits is None or known.fits(fields)), None)
        if chosen is None or chosen > 0 and has_opaque:
            return False
        return candidates[chosen].by_shape and candidates[chosen].fits is None

    def claims(self, row: RawRow) -> list[str]:
        """Every family that would take a row that is read, first asked or not."""
        fields, _ = self._decode(row)
        names = frozenset(fields)
        return [
            adapter.name
            for adapter in ADAPTERS.values()
            if adapter.takes(names) and (adapter.fits is None or adapter.fits(fields))
        ]

    def _convert(self, adapter: Adapter) -> Callable[[Fields], Draft | list[Draft]]:
        if adapter.begin is None:
            return adapter.convert
        if adapter.name not in self._begun:
            self._begun[adapter.name] = adapter.begin()
        return self._begun[adapter.name]

    def _candidates(self, names: frozenset[str]) -> list[Adapter]:
        """The adapters that take rows with these fields, in the order in which they are asked."""
        candidates = self._chosen.get(names)
        if candidates is None:
            forced = self.source.adapter
            known = ADAPTERS.values() if forced is None else [ADAPTERS[forced]]
            candidates = self._chosen[names] = [adapter for adapter in known if adapter.takes(names)]
        return candidates

    def _adapter(self, fields: Mapping[str, msgspec.Raw]) -> Adapter:
        names = frozenset(fields)
        candidates = self._candidates(names)
        for adapter in candidates:
            if adapter.fits is None or self.source.adapter is not None or adapter.fits(fields):
                return adapter
        if names == ANSWER_FIELDS and self.source.adapter is None:
            raise BadRow("no question: an answer, and no file of questions beside it")
        if names == {BARE}:
            raise BadRow(f"wrong type: the row is a {kind_of(fields[BARE])}, not an object")
        reason = "no adapter" if self.source.adapter is None else f"not {self.source.adapter}"
        raise BadRow(f"{reason}: fields are {_shown(names)}{_of_rows(fields)}")

    def _refuse_unclear(self, adapter: Adapter, fields: Mapping[str, msgspec.Raw], drafts: list[Draft]) -> None:
        """Raise BadRow when two families can claim the row, unless a person said which has it."""
        if self._own is not None or self.source.adapter is not None:
            return
        used = frozenset(name for draft in drafts for name in draft.used)
        left = {name: raw for name, raw in fields.items() if name not in used and memoryview(raw)[0] != _NULL}
        if left and (readings := rival(adapter, used, left)) is not None:
            raise BadRow(f"{UNCLEAR}: {readings}")

    def _declared(self, fields: Mapping[str, msgspec.Raw], draft: Draft) -> dict[str, Any]:
        """Values of the fields a person declared; what does not fit the type stays in extra."""
        values: dict[str, Any] = {}
        for name, type_ in self.source.fields.items():
            if name not in fields or name in self._mapped:
                continue
            try:
                value = fitting(msgspec.json.decode(fields[name]), FIELD_TYPES[type_])
            except msgspec.ValidationError:  # a number beyond any float
                value = None
            if value is not None:
                values[name] = value
                draft.used = (*draft.used, name)
                draft.form = {**draft.form, "declared": [*draft.form.get("declared", ()), name]}
                # The digits of a number, where the column would not give them again.
                if not isinstance(value, str) and msgspec.json.encode(value) != bytes(fields[name]):
                    numbers = {**draft.form.get("numbers", {}), name: raw_text(fields[name])}
                    draft.form = {**draft.form, "numbers": numbers}
        return values

    def _batch(self, found: list[Found], ids: list[str]) -> pa.RecordBatch:
        drafts = [record.draft for record in found]
        metadata = [
            {
                **record.draft.metadata,
                **record.declared,
                **({"turn_issues": record.draft.issues} if record.draft.issues else {}),
            }
            for record in found
        ]
        names = {name for row in metadata for name in row}
        verifiers = [draft.verifier or (None, None) for draft in drafts]
        given = {
            "content_hash": pa.array(
                [content_hash(draft.messages, draft.tools, draft.rejected, draft.verifier) for draft in drafts],
                HASH_TYPE,
            ),
            "kind": self._array("kind", [draft.kind for draft in drafts]),
            "group": self._array("group", [self.group_of(record) for record in found]),
            "messages": message_lists([draft.messages for draft in drafts]),
            "tools": self._array("tools", [draft.tools for draft in drafts]),
            "rejected": message_lists([draft.rejected for draft in drafts]),
            "verifier.kind": self._array("verifier.kind", [kind for kind, _ in verifiers]),
            "verifier.payload": self._array("verifier.payload", [payload for _, payload in verifiers]),
            "loss_weight": self._array("loss_weight", [draft.loss_weight for draft in drafts]),
            "extra": self._array("extra", [record.extra for record in found]),
            "provenance.adapter": self._array("provenance.adapter", [record.adapter for record in found]),
            "provenance.edited_by": self._array(
                "provenance.edited_by", [_edited_by(record.repaired) for record in found]
            ),
            "provenance.form": self._array(
                "provenance.form", [msgspec.json.encode(draft.form).decode() for draft in drafts]
            ),
        }
        for name in names:
            path = f"metadata.{name}"
            given[path] = self._array(path, [row.get(name) for row in metadata])
        rows = np.array([record.row.row for record in found], np.int64)
        offsets = np.array([record.row.byte_offset for record in found], np.int64)
        return self.assemble(rows, offsets, given, pa.array(ids, pa.string()))

    def type_of(self, column: str) -> pa.DataType:
        """The type of a column, by dotted path."""
        type_ = column_type(self._schema, column)
        assert type_ is not None, column
        return type_

    def _array(self, column: str, values: list[Any]) -> pa.Array:
        return pa.array(values, self.type_of(column))

    def assemble(
        self, rows: np.ndarray, offsets: np.ndarray, given: Mapping[str, pa.Array], ids: pa.Array | None = None
    ) -> pa.RecordBatch:
        """Records from the columns that were read, by dotted path; the others are the same for all rows, or null.

        `rows` and `offsets` (int64) are where the records came from. A null in a metadata column is filled with what
        the source says.
        """
        count = len(rows)
        if ids is None:
            ids = pc.binary_join_element_wise(self._prefix, pa.array(rows).cast(pa.string()), "")
        constants: dict[str, Any] = {
            "provenance.file": self._file,
            "provenance.generation": self._generation,
            "metadata.source": self.source.name,
            "metadata.license": self.source.license,
            **{f"metadata.{name}": value for name, value in self.source.metadata.items()},
        }
        columns = {"id": ids, "provenance.row": pa.array(rows), "provenance.byte_offset": pa.array(offsets), **given}

        arrays = [_column(field.name, field.type, columns, constants, count) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

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


# No closure: one that calls itself is a cycle, and the arrays that it holds stay until the collector runs.
def _column(
    path: str, type_: pa.DataType, columns: Mapping[str, pa.Array], constants: Mapping[str, Any], count: int
) -> pa.Array:
    """The column at a path: a given array, a struct of such, a constant or nulls."""
    constant = constants.get(path)
    if path in columns:
        array = columns[path]
        return array if constant is None or not array.null_count else array.fill_null(constant)
    if pa.types.is_struct(type_) and any(known.startswith(f"{path}.") for known in (*columns, *constants)):
        children = [_column(f"{path}.{field.name}", field.type, columns, constants, count) for field in type_]
        missing = None
        if path == "verifier":
            missing = children[0].is_null()
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=missing)
    return pa.nulls(count, type_) if constant is None else pa.repeat(pa.scalar(constant, type_), count)


def look(draft: Draft, repaired: list[str], counts: dict[str, int]) -> None:
    """Give a draft its issues, sorted, and count what is to be said of it."""
    issues, tokens = turn_issues(draft.kind, draft.messages, draft.rejected)
    if issues or draft.issues:
        draft.issues = tuple(sorted({*issues, *draft.issues}))
    for name in (
        *(f"turn issue {issue}" for issue in draft.issues),
        *(f"control token {token}" for token in tokens),
        *(f"repaired {repair}" for repair in repaired),
    ):
        counts[name] = counts.get(name, 0) + 1


def _edited_by(repaired: list[str]) -> str | None:
    return ",".join(f"repair.{name}" for name in repaired) or None


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


_FEW = 8
"""Fields of an object that may be one around rows."""


def _of_rows(fields: Fields) -> str:
    """What to do with an object that holds rows, such as {"version": 1, "data": [{...}, {...}]}."""
    for name, raw in fields.items():
        if kind_of(raw) == "list" and bytes(raw)[1:].lstrip()[:1] == b"{" and len(fields) <= _FEW:
            path = f".{name}" if name.isidentifier() else f"[{json_text(name)}]"
            return f"; {name} holds a list of objects, which jq -c '{path}[]' writes as rows"
    return ""


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
