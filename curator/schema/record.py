"""What a record is: the columns, their types and meaning, the content hash, and how folders' schemas meet."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from curator.errors import CuratorError

SCHEMA_VERSION = 1

KINDS = ("sft", "preference", "feedback", "prompt", "text")
ROLES = ("system", "user", "assistant", "tool")
MAX_JSON_DEPTH = 128
"""Levels of lists and objects in a raw row or in JSON text. What Python's decoder takes depends on how deep the stack
is when it is called, so what is refused may not."""

WRAP_TYPE = pa.struct([("open", pa.string()), ("close", pa.string())])
IMAGE_TYPE = pa.struct([("sha256", pa.string()), ("mime", pa.string()), ("offset", pa.int64())])
"""An image of a turn: the digest of its bytes in hex, by which it lies under `media/`; what it is; and its place, the
number of UTF-8 bytes of `content` before it (0 when there is no content)."""
MESSAGE_TYPE = pa.struct(
    [
        ("role", pa.string()),
        ("content", pa.string()),
        ("reasoning", pa.string()),
        ("tool_calls", pa.string()),
        ("tool_call_id", pa.string()),
        ("name", pa.string()),
        ("wrap", WRAP_TYPE),
        ("weight", pa.float32()),
        ("images", pa.list_(IMAGE_TYPE)),
    ]
)
METADATA_FIELDS: dict[str, pa.DataType] = {
    "source": pa.string(),
    "domain": pa.string(),
    "task_type": pa.string(),
    "difficulty": pa.string(),
    "language": pa.string(),
    "reasoning_trace": pa.bool_(),
    "license": pa.string(),
    "teacher": pa.string(),
    "split": pa.string(),
    "original_id": pa.string(),
    "turn_issues": pa.list_(pa.string()),
}
DEDUP_TYPE = pa.struct(
    [("of", pa.string()), ("similarity", pa.float64()), ("component", pa.string()), ("component_size", pa.int64())]
)
DROP_TYPE = pa.struct(
    [
        ("step", pa.string()),
        ("rule", pa.string()),
        ("value", pa.float64()),
        ("threshold", pa.float64()),
        ("keeper", pa.string()),
        ("detail", pa.string()),
    ]
)
PROVENANCE_TYPE = pa.struct(
    [
        ("file", pa.string()),
        ("row", pa.int64()),
        ("byte_offset", pa.int64()),
        ("adapter", pa.string()),
        ("generation", pa.int32()),
        ("form", pa.string()),
        ("edited_by", pa.string()),
    ]
)
HASH_TYPE = pa.binary(16)

FIELD_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
}
"""Types a person may declare for a metadata field of their own (`--field team:string`)."""


def fitting(value: Any, type_: pa.DataType) -> str | bool | int | float | None:
    """The value as this type of a metadata field if it fits without loss, else None."""
    if isinstance(value, bool) or pa.types.is_boolean(type_):
        return value if isinstance(value, bool) and pa.types.is_boolean(type_) else None
    if isinstance(value, str):
        return value if pa.types.is_string(type_) else None
    if pa.types.is_integer(type_):
        return value if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else None
    if pa.types.is_floating(type_) and isinstance(value, int | float):
        return float(value) if isinstance(value, float) or abs(value) <= 1 << 53 else None
    return None


@dataclass(frozen=True)
class Column:
    """One column of a record: its Arrow type and what it means to a reader."""

    name: str
    type: pa.DataType
    meaning: str


COLUMNS = (
    Column("id", pa.string(), "<source>/<relative path>[!member]#<row>[.<k>]; unique, survives every step"),
    Column("content_hash", HASH_TYPE, "128-bit xxh3 over the content fields; no metadata, no weights"),
    Column("kind", pa.string(), "sft, preference, feedback, prompt (no answer yet) or text"),
    Column("group", pa.string(), "ties the rows of one prompt, ranking or tree; null if none"),
    Column("messages", pa.list_(MESSAGE_TYPE), "the conversation; for a preference: prompt and chosen continuation"),
    Column("tools", pa.string(), "tool schemas as the JSON text that came in"),
    Column("rejected", pa.list_(MESSAGE_TYPE), "preference: the losing continuation"),
    Column("verifier", pa.struct([("kind", pa.string()), ("payload", pa.string())]), "how an answer can be checked"),
    Column("metadata", pa.struct(list(METADATA_FIELDS.items())), "tags to mix by, and fields a person declares"),
    Column("dedup", DEDUP_TYPE, "duplicate of which record, how similar, in which component"),
    Column("loss_weight", pa.float32(), "weight of the record in the loss; null = 1"),
    Column("drop", DROP_TYPE, "why the record was removed; null when kept"),
    Column("extra", pa.string(), "JSON text of every raw field that no adapter mapped, verbatim"),
    Column("provenance", PROVENANCE_TYPE, "where the record came from and what export needs to restore it"),
)
"""Every column but `scores`, which appears with the first score (Parquet cannot hold an empty struct)."""

CONTENT_COLUMNS = ("messages", "tools", "rejected", "verifier")
"""The columns that `content_hash` covers."""

RECORD_SCHEMA = pa.schema([(column.name, column.type) for column in COLUMNS])

QUARANTINE_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("byte_offset", pa.int64()),
        ("reason", pa.string()),
        ("raw", pa.binary()),
    ]
)


def score_type(value: pa.DataType) -> pa.StructType:
    """A score: `value` (null when it could not be measured), `status` and `by` (`name@version:digest`)."""
    return pa.struct([("value", value), ("status", pa.string()), ("by", pa.string())])


def score_array(
    values: pa.Array, by: str, status: pa.Array | str = "ok", value_type: pa.DataType | None = None
) -> pa.StructArray:
    """Scores of one kind for a batch; a null value must come with a status other than ok."""
    value_type = value_type or values.type
    statuses = pa.repeat(pa.scalar(status), len(values)) if isinstance(status, str) else status
    return pa.StructArray.from_arrays(
        [values.cast(value_type), statuses, pa.repeat(pa.scalar(by), len(values))],
        fields=list(score_type(value_type)),
    )


def drop_array(
    rows: pa.BooleanArray,
    step: str,
    rule: str | pa.Array,
    value: pa.Array | None = None,
    threshold: float | None = None,
    keeper: pa.Array | None = None,
    detail: str | pa.Array | None = None,
) -> pa.StructArray:
    """The `drop` column of a batch: filled where `rows` is true, null elsewhere."""
    num_rows = len(rows)

    def column(given: Any, type_: pa.DataType) -> pa.Array:
        if isinstance(given, pa.Array):
            return given.cast(type_)
        return pa.repeat(pa.scalar(given, type_), num_rows)

    return pa.StructArray.from_arrays(
        [
            column(step, pa.string()),
            column(rule, pa.string()),
            column(value, pa.float64()),
            column(threshold, pa.float64()),
            column(keeper, pa.string()),
            column(detail, pa.string()),
        ],
        fields=list(DROP_TYPE),
        mask=pc.invert(rows),
    )


# --- the content hash -------------------------------------------------------------------------------------------


class MessageLike(Protocol):
    """What the content hash reads of one message."""

    role: str
    content: str | None
    reasoning: str | None
    tool_calls: str | None
    tool_call_id: str | None
    name: str | None
    images: list[dict[str, Any]] | None


HASH_VERSION = b"curator-content-1"
HASHED_TEXTS = ("role", "content", "reasoning", "tool_calls", "tool_call_id", "name")
"""The texts of a message that the hash covers, in its order."""


def _hash_messages(parts: list[bytes], tag: bytes, messages: Iterable[MessageLike]) -> None:
    for message in messages:
        parts.append(tag)
        for field_tag, text in (
            (b"r", message.role),
            (b"c", message.content),
            (b"t", message.reasoning),
            (b"f", message.tool_calls),
            (b"i", message.tool_call_id),
            (b"n", message.name),
        ):
            if text is not None:
                encoded = text.encode()
                parts.append(b"%b%d:" % (field_tag, len(encoded)))
                parts.append(encoded)
        for image in message.images or ():
            digest = image["sha256"].encode()
            parts.append(b"g%d:%b" % (len(digest), digest))


def content_hash(
    messages: Iterable[MessageLike],
    tools: str | None = None,
    rejected: Iterable[MessageLike] | None = None,
    verifier: tuple[str, str] | None = None,
) -> bytes:
    """16 bytes of xxh3 over a version and each content field as tag, length, bytes.

    A null field is left out and an empty one is written with length 0, so the two differ; the length in front of
    every text makes the encoding free of collisions by concatenation.
    """
    parts = [HASH_VERSION]
    _hash_messages(parts, b"M", messages)
    if tools is not None:
        encoded = tools.encode()
        parts.append(b"T%d:%b" % (len(encoded), encoded))
    if rejected is not None:
        parts.append(b"J")
        _hash_messages(parts, b"M", rejected)
    if verifier is not None:
        for tag, text in zip((b"K", b"P"), verifier, strict=True):
            encoded = text.encode()
            parts.append(b"%b%d:%b" % (tag, len(encoded), encoded))
    return xxhash.xxh3_128_digest(b"".join(parts))


@dataclass(slots=True)
class _Message:
    role: str
    content: str | None
    reasoning: str | None
    tool_calls: str | None
    tool_call_id: str | None
    name: str | None
    wrap: Any
    weight: float | None
    images: list[dict[str, Any]] | None


def content_hashes(batch: pa.RecordBatch) -> pa.FixedSizeBinaryArray:
    """The content hash of every row of a batch (for edited content; ingest hashes before it builds Arrow)."""
    hashes = []
    columns = [batch.column(name).to_pylist() for name in CONTENT_COLUMNS]
    for messages, tools, rejected, verifier in zip(*columns, strict=True):
        hashes.append(
            content_hash(
                [_Message(**message) for message in messages or ()],
                tools,
                None if rejected is None else [_Message(**message) for message in rejected],
                None if verifier is None else (verifier["kind"], verifier["payload"]),
            )
        )
    return pa.array(hashes, HASH_TYPE)


# --- ids --------------------------------------------------------------------------------------------------------

_ID_MASK = (1 << 128) - 1


def ids_digest(ids: pa.Array | pa.ChunkedArray | Iterable[str]) -> int:
    """A 128-bit digest of a multiset of ids: the sum of their hashes, so digests of parts add up to the whole."""
    if isinstance(ids, pa.Array | pa.ChunkedArray):
        texts = ids.cast(pa.binary()).to_pylist()
    else:
        texts = [record_id.encode() for record_id in ids]
    return sum_of_digests(b"".join(map(xxhash.xxh3_128_digest, texts)))


def sum_of_digests(digests: bytes) -> int:
    """The sum of 128-bit digests, 16 bytes each, big-endian, modulo 2^128."""
    words = np.frombuffer(digests, ">u4").reshape(-1, 4)
    # Words of 32 bits add up in 64 without overflow; Python integers of 128 bits take half as long again.
    sums = words.sum(axis=0, dtype=np.uint64).tolist()
    return sum(total << shift for total, shift in zip(sums, (96, 64, 32, 0), strict=True)) & _ID_MASK


def add_digests(*digests: int) -> int:
    """The digest of the union of multisets."""
    return sum(digests) & _ID_MASK


def id_sort_keys(ids: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Keys that put `a#2` before `a#10`: the text before the last `#`, and the row number behind it."""
    parts = pc.split_pattern(ids, "#", max_splits=1, reverse=True)
    numbers = pc.struct_field(pc.extract_regex(ids, r"#(?P<row>\d{1,18})[^#]*$"), "row").cast(pa.int64())
    return pc.list_element(parts, 0), pc.fill_null(numbers, 0)


# --- schemas meet here -------------------------------------------------------------------------------------------


def record_schema(
    metadata_fields: Mapping[str, pa.DataType] | None = None, scores: Mapping[str, pa.DataType] | None = None
) -> pa.Schema:
    """The schema of a dataset with these declared metadata fields and these scores (name to value type)."""
    schema = RECORD_SCHEMA
    writes: dict[str, pa.DataType] = {f"metadata.{name}": type_ for name, type_ in (metadata_fields or {}).items()}
    writes |= {f"scores.{name}": score_type(type_) for name, type_ in (scores or {}).items()}
    return extend_schema(schema, writes)


def extend_schema(schema: pa.Schema, writes: Mapping[str, pa.DataType]) -> pa.Schema:
    """The schema after columns named by dotted path (`scores.num_turns`, `metadata.team`, `drop`) are written."""
    for path, type_ in writes.items():
        top, _, child = path.partition(".")
        index = schema.get_field_index(top)
        if not child:
            if index < 0:
                raise ValueError(f"a record has no column {top}")
            continue
        if "." in child:
            raise ValueError(f"{path}: only one level of a struct can be written")
        fields = [] if index < 0 else list(schema.field(index).type)
        known = {field.name: field.type for field in fields}
        if child in known:
            if known[child] != type_:
                raise CuratorError(
                    f"{path} is {known[child]} in the input and {type_} in this step",
                    hint="write it under another name, or drop the old column first",
                )
            continue
        fields.append(pa.field(child, type_))
        new = pa.field(top, pa.struct(fields))
        if index >= 0:
            schema = schema.set(index, new)
        else:
            schema = schema.insert(schema.get_field_index("metadata") + 1, new)
    return schema


def unify_schemas(schemas: Iterable[pa.Schema], names: Iterable[str]) -> pa.Schema:
    """The union of the schemas of several folders, in the order fields first appear; types must agree.

    Raises CuratorError naming the column, both types and the folder that differs.
    """
    result: pa.Schema | None = None
    for schema, name in zip(schemas, names, strict=True):
        if result is None:
            result = schema
            continue
        for field in schema:
            index = result.get_field_index(field.name)
            if index < 0:
                result = result.insert(result.get_field_index("metadata") + 1, field)
            elif result.field(index).type != field.type:
                merged = _union_type(result.field(index).type, field.type, field.name, name)
                result = result.set(index, pa.field(field.name, merged))
    assert result is not None
    return result


def _union_type(left: pa.DataType, right: pa.DataType, path: str, folder: str) -> pa.DataType:
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        fields = {field.name: field.type for field in left}
        for field in right:
            known = fields.get(field.name)
            fields[field.name] = (
                field.type
                if known is None or known == field.type
                else _union_type(known, field.type, f"{path}.{field.name}", folder)
            )
        return pa.struct(list(fields.items()))
    raise CuratorError(
        f"{folder}: column {path} is {right}, but {left} in the folders before it",
        hint="give the field one type in every source (--field name:type), then ingest again",
    )


_null_arrays: dict[pa.DataType, pa.Array] = {}


def _nulls(count: int, type_: pa.DataType) -> pa.Array:
    """Nulls, in memory that all arrays of the type share: most columns of a record are null."""
    known = _null_arrays.get(type_)
    if known is None or len(known) < count:
        known = _null_arrays[type_] = pa.nulls(count, type_)
    return known.slice(0, count)


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly this schema: by name, missing fields as nulls, text variants as plain strings."""
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    arrays = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        arrays.append(_nulls(batch.num_rows, field.type) if index < 0 else cast_array(batch.column(index), field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def cast_array(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast by name through structs and lists; missing fields are null, values without a field are refused."""
    if array.type == type_:
        return array
    if array.null_count == len(array):
        return _nulls(len(array), type_)
    if pa.types.is_struct(type_) and pa.types.is_struct(array.type):
        lost = {field.name for field in array.type} - {field.name for field in type_}
        if lost:
            raise ValueError(f"a cast would lose {sorted(lost)}")
        children = []
        for field in type_:
            index = array.type.get_field_index(field.name)
            children.append(_nulls(len(array), field.type) if index < 0 else cast_array(array.field(index), field.type))
        return pa.StructArray.from_arrays(
            children, fields=list(type_), mask=array.is_null() if array.null_count else None
        )
    if pa.types.is_list(type_) and pa.types.is_list(array.type):
        offsets = array.offsets
        values = cast_array(
            array.values.slice(offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py()), type_.value_type
        )
        shifted = pc.subtract(offsets, offsets[0])
        return pa.ListArray.from_arrays(shifted, values, type=type_, mask=array.is_null() if array.null_count else None)
    return array.cast(type_)


def filter_batch(batch: pa.RecordBatch, rows: pa.BooleanArray) -> pa.RecordBatch:
    """The rows where `rows` is true: `RecordBatch.filter`, which copies nulls at the price of values."""
    is_kept = rows.to_numpy(zero_copy_only=False)
    return pa.RecordBatch.from_arrays([_filter(column, rows, is_kept) for column in batch.columns], schema=batch.schema)


def _filter(array: pa.Array, rows: pa.BooleanArray, is_kept: np.ndarray) -> pa.Array:
    """`rows` and `is_kept` say the same."""
    type_ = array.type
    if array.null_count == len(array):
        return array.slice(0, rows.true_count)
    missing = array.is_null().filter(rows) if array.null_count else None
    if pa.types.is_struct(type_):
        children = [_filter(array.field(index), rows, is_kept) for index in range(type_.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=missing)
    if pa.types.is_list(type_):
        offsets = array.offsets.to_numpy()
        lengths = np.diff(offsets)
        are_kept = np.repeat(is_kept, lengths)
        values = array.values.slice(offsets[0], offsets[-1] - offsets[0])
        starts = np.concatenate([[0], np.cumsum(lengths[is_kept])]).astype(np.int32)
        return pa.ListArray.from_arrays(
            pa.array(starts), _filter(values, pa.array(are_kept), are_kept), type=type_, mask=missing
        )
    return array.filter(rows)


def set_columns(batch: pa.RecordBatch, columns: Mapping[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """The batch under `schema` (an extension of its own) with the columns named by dotted path replaced or added."""
    arrays = []
    for field in schema:
        if field.name in columns:
            arrays.append(cast_array(columns[field.name], field.type))
            continue
        index = batch.schema.get_field_index(field.name)
        updates = {
            path.partition(".")[2]: array for path, array in columns.items() if path.startswith(field.name + ".")
        }
        if not updates:
            arrays.append(
                _nulls(batch.num_rows, field.type) if index < 0 else cast_array(batch.column(index), field.type)
            )
            continue
        children = []
        for child in field.type:
            if child.name in updates:
                children.append(cast_array(updates[child.name], child.type))
            elif index >= 0 and batch.schema.field(index).type.get_field_index(child.name) >= 0:
                old = batch.column(index)
                # flatten() applies the parent's nulls, so a null metadata stays null in every child.
                children.append(cast_array(old.flatten()[old.type.get_field_index(child.name)], child.type))
            else:
                children.append(_nulls(batch.num_rows, child.type))
        arrays.append(pa.StructArray.from_arrays(children, fields=list(field.type)))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def column_array(batch: pa.RecordBatch, path: str) -> pa.Array:
    """The column at a dotted path (`metadata.source`, `scores.num_turns.value`), parents' nulls applied."""
    top, *rest = path.split(".")
    array = batch.column(top)
    for name in rest:
        array = array.flatten()[array.type.get_field_index(name)]
    return array


def has_column(schema: pa.Schema, path: str) -> bool:
    """Whether the dotted path names a field of the schema."""
    return column_type(schema, path) is not None


def column_type(schema: pa.Schema, path: str) -> pa.DataType | None:
    """The type of the field at a dotted path, None when there is no such field."""
    top, *rest = path.split(".")
    index = schema.get_field_index(top)
    if index < 0:
        return None
    type_ = schema.field(index).type
    for name in rest:
        if not pa.types.is_struct(type_) or type_.get_field_index(name) < 0:
            return None
        type_ = type_.field(name).type
    return type_


def prune_schema(schema: pa.Schema, paths: Iterable[str]) -> pa.Schema:
    """The schema with only the fields at these dotted paths (a path to a struct takes it whole), in schema order."""
    wanted = set(paths)

    def prune(prefix: str, type_: pa.DataType) -> pa.DataType | None:
        if prefix in wanted:
            return type_
        if not pa.types.is_struct(type_):
            return None
        children = [(field.name, prune(f"{prefix}.{field.name}", field.type)) for field in type_]
        kept = [(name, child) for name, child in children if child is not None]
        return pa.struct(kept) if kept else None

    pruned = [(field.name, prune(field.name, field.type)) for field in schema]
    return pa.schema([(name, type_) for name, type_ in pruned if type_ is not None])


def field_names(schema: pa.Schema) -> list[str]:
    """Dotted paths of everything an expression can name, struct by struct; lists count as one field."""

    def walk(prefix: str, type_: pa.DataType) -> list[str]:
        if not pa.types.is_struct(type_):
            return [prefix]
        return [name for field in type_ for name in walk(f"{prefix}.{field.name}", field.type)]

    return [name for field in schema for name in walk(field.name, field.type)]


def filled_fields(batch: pa.RecordBatch) -> set[str]:
    """Dotted paths that hold at least one value in this batch, list elements included (`messages.reasoning`)."""
    filled: set[str] = set()

    def walk(prefix: str, array: pa.Array) -> None:
        if len(array) == 0 or array.null_count == len(array):
            return
        if pa.types.is_struct(array.type):
            for field, child in zip(array.type, array.flatten(), strict=True):
                walk(f"{prefix}.{field.name}", child)
        elif pa.types.is_list(array.type) and pa.types.is_struct(array.type.value_type):
            filled.add(prefix)
            walk(prefix, array.flatten())
        else:
            filled.add(prefix)

    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        walk(name, column)
    return filled


def row_bytes(batch: pa.RecordBatch) -> np.ndarray:
    """Bytes of text in each row, shape [num_rows] int64: what decides where row groups are cut."""
    total = np.zeros(batch.num_rows, dtype=np.int64)
    for name in ("messages", "rejected", "tools", "extra"):
        index = batch.schema.get_field_index(name)
        if index < 0:
            continue
        column = batch.column(index)
        if column.null_count == len(column):
            continue
        if pa.types.is_string(column.type):
            total += _text_bytes(column)
            continue
        offsets = column.offsets.to_numpy()
        messages = column.values
        per_message = np.zeros(len(messages), dtype=np.int64)
        for field in ("content", "reasoning", "tool_calls"):
            texts = messages.field(field)
            if texts.null_count < len(texts):
                per_message += _text_bytes(texts)
        sums = np.concatenate([[0], np.cumsum(per_message)])
        total += sums[offsets[1:]] - sums[offsets[:-1]]
    return total


def _text_bytes(array: pa.StringArray) -> np.ndarray:
    return pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """The schema as a JSON object, column to type: what a manifest holds."""

    def describe(type_: pa.DataType) -> Any:
        if pa.types.is_struct(type_):
            return {field.name: describe(field.type) for field in type_}
        if pa.types.is_list(type_):
            return [describe(type_.value_type)]
        return str(type_)

    return {field.name: describe(field.type) for field in schema}


def schema_from_json(described: Mapping[str, Any]) -> pa.Schema:
    """The inverse of `schema_to_json`."""

    def build(value: Any) -> pa.DataType:
        if isinstance(value, dict):
            return pa.struct([(name, build(child)) for name, child in value.items()])
        if isinstance(value, list):
            return pa.list_(build(value[0]))
        if value.startswith("fixed_size_binary["):
            return pa.binary(int(value.removeprefix("fixed_size_binary[").removesuffix("]")))
        return {"float": pa.float32(), "double": pa.float64()}.get(value) or pa.type_for_alias(value)

    return pa.schema([(name, build(value)) for name, value in described.items()])


def canonical_json(value: Any) -> bytes:
    """JSON bytes that depend on the value alone (sorted keys, no spaces): what digests of settings are made of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
