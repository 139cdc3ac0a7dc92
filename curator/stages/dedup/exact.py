"""dedup.exact: of records that are equal in a selector's text, keep one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from curator.errors import UsageError
from curator.schema.check import did_you_mean
from curator.schema.record import (
    DEDUP_TYPE,
    DROP_TYPE,
    HASH_TYPE,
    column_array,
    column_type,
    drop_array,
    field_names,
    has_column,
    id_sort_keys,
)
from curator.schema.selectors import check_selector, select_text, selector_columns
from curator.stages.base import DatasetStage, Reduce, Scan
from curator.stages.dedup.components import Components

_NORMALISATIONS = ("case", "space")


@dataclass(frozen=True)
class Exact(DatasetStage):
    """Equal text, by 128-bit hash. Records in which the selector finds nothing are never duplicates of each other."""

    name: ClassVar[str] = "dedup.exact"
    decides: ClassVar[bool] = True

    on: str = "conversation"
    """Selector whose text is compared."""
    normalise: tuple[str, ...] = ()
    """Differences that do not count: `case` (Unicode case folding) and `space` (runs of white space as one)."""
    keep: str = "id"
    """Who stays, as columns in order of preference: `scores.quality.value desc, id`; nulls last, id breaks ties."""

    def __post_init__(self) -> None:
        check_selector(self.on, self.name)
        for word in self.normalise:
            if word not in _NORMALISATIONS:
                raise UsageError(f"dedup.exact: normalise {word!r}", hint=did_you_mean(word, _NORMALISATIONS))
        parse_keep(self.keep)

    def reads(self, schema: pa.Schema) -> Sequence[str]:
        keep = [column for column, _ in parse_keep(self.keep)]
        return list(dict.fromkeys(["id", "dedup", *selector_columns(self.on), *keep]))

    def writes(self, schema: pa.Schema) -> Mapping[str, pa.DataType]:
        return {"dedup": DEDUP_TYPE, "drop": DROP_TYPE}

    def prepare(self, schema: pa.Schema) -> None:
        for column, _ in parse_keep(self.keep):
            if not has_column(schema, column):
                raise UsageError(
                    f"dedup.exact: keep names {column}, which the records do not have",
                    hint=did_you_mean(column, field_names(schema)),
                )
            if column not in field_names(schema) or pa.types.is_list(column_type(schema, column)):
                hint = f"did you mean {column}.value?" if column.startswith("scores.") else None
                raise UsageError(f"dedup.exact: keep names {column}, which has no order", hint=hint)

    def rounds(self, schema: pa.Schema) -> Sequence[Scan | Reduce]:
        return [Scan(_scan, self.reads(schema)), Reduce(_groups, by="key"), Reduce(_decide, by=None)]


def parse_keep(text: str) -> list[tuple[str, str]]:
    """A keep order as (column, asc or desc); `id` comes last if it is not named. Raises UsageError."""
    order = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([\w.]+)(?:\s+(asc|desc))?\s*", part)
        if not match:
            raise UsageError(f"keep order {text!r}", hint="for example: scores.quality.value desc, id")
        order.append((match[1], match[2] or "asc"))
    if all(column != "id" for column, _ in order):
        order.append(("id", "asc"))
    return order


def _normalise(text: str, how: Sequence[str]) -> str:
    if "case" in how:
        text = text.casefold()
    if "space" in how:
        text = " ".join(text.split())
    return text


def _keys(texts: pa.StringArray, how: Sequence[str]) -> list[bytes | None]:
    """The 16-byte key of every text; None for empty text."""
    digest = xxhash.xxh3_128_digest
    if not how:
        return [digest(text.encode()) if text else None for text in texts.to_pylist()]
    return [digest(_normalise(text, how).encode()) if text.strip() else None for text in texts.to_pylist()]


def _scan(stage: Exact, batch: pa.RecordBatch, first_row: int) -> pa.Table:
    """One line a record: row, key, id, keep columns, and the component it already belongs to."""
    columns = {
        "row": pa.array(np.arange(first_row, first_row + batch.num_rows), pa.int64()),
        "key": pa.array(_keys(select_text(batch, stage.on), stage.normalise), HASH_TYPE),
        "id": batch.column("id"),
        "component": column_array(batch, "dedup.component"),
        "component_size": column_array(batch, "dedup.component_size"),
    }
    for index, (column, _) in enumerate(parse_keep(stage.keep)):
        if column != "id":
            columns[f"keep{index}"] = column_array(batch, column)
    return pa.table(columns)


def _groups(stage: Exact, table: pa.Table) -> pa.Table:
    """The lines that matter for decisions: members of groups of two or more with their keeper, and rows that have a
    component already (a union may rename it)."""
    order = []
    for index, (column, direction) in enumerate(parse_keep(stage.keep)):
        way = "descending" if direction == "desc" else "ascending"
        if column == "id":
            prefix, number = id_sort_keys(table.column("id").combine_chunks())
            table = table.append_column("id_prefix", prefix).append_column("id_number", number)
            order += [("id_prefix", way), ("id_number", way)]
        else:
            order.append((f"keep{index}", way))
    ranked = table.take(pc.sort_indices(table, sort_keys=[("key", "ascending"), *order]))
    keys = ranked.column("key").combine_chunks()
    if len(keys) == 0:
        return _members(ranked, np.empty(0, np.int64), np.empty(0, bool))
    same = np.zeros(len(keys), dtype=bool)
    same[1:] = pc.fill_null(pc.equal(keys[1:], keys[:-1]), False).to_numpy(zero_copy_only=False)
    group_first = np.maximum.accumulate(np.where(same, 0, np.arange(len(keys))))
    in_group = same.copy()
    in_group[:-1] |= same[1:]
    return _members(ranked, group_first, in_group)


def _members(ranked: pa.Table, keeper_of: np.ndarray, in_group: np.ndarray) -> pa.Table:
    has_component = pc.is_valid(ranked.column("component")).to_numpy()
    chosen = in_group | has_component
    keepers = ranked.column("id").take(pa.array(np.where(in_group, keeper_of, np.arange(len(ranked)))))
    table = ranked.select(["row", "id", "component", "component_size"]).append_column("keeper", keepers)
    table = table.filter(pa.array(chosen))
    return table.take(pc.sort_indices(table, sort_keys=[("row", "ascending")]))


def _decide(stage: Exact, table: pa.Table) -> pa.Table:
    """Union the components and write `dedup` and `drop` for every line."""
    components = Components()
    rows = table.to_pydict()
    labels = []
    for record_id, component, size in zip(rows["id"], rows["component"], rows["component_size"], strict=True):
        label = record_id if component is None else component
        components.add(label, 1 if component is None else size)
        labels.append(label)
    label_of = dict(zip(rows["id"], labels, strict=True))
    for label, keeper in zip(labels, rows["keeper"], strict=True):
        components.union([label, label_of[keeper]])
    is_duplicate = pa.array(
        [keeper != record_id for keeper, record_id in zip(rows["keeper"], rows["id"], strict=True)], pa.bool_()
    )
    keepers = pa.array(rows["keeper"], pa.string())
    dedup = pa.StructArray.from_arrays(
        [
            pc.if_else(is_duplicate, keepers, pa.scalar(None, pa.string())),
            pc.if_else(is_duplicate, pa.scalar(1.0), pa.scalar(None, pa.float64())),
            pa.array([components.find(label) for label in labels], pa.string()),
            pa.array([components.size(label) for label in labels], pa.int64()),
        ],
        fields=list(DEDUP_TYPE),
    )
    ones = pa.repeat(1.0, len(table))
    detail = "equal " + stage.on + ("" if not stage.normalise else f" but for {' and '.join(stage.normalise)}")
    drop = drop_array(is_duplicate, stage.name, "duplicate", ones, 1.0, keepers, detail)
    return pa.table({"row": table.column("row"), "dedup": dedup, "drop": drop})
