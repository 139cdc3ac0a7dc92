"""What every dedup stage shares: of records alike in a text, the best by a keep order stays."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from curator.errors import UsageError
from curator.schema.check import did_you_mean
from curator.schema.record import (
    DEDUP_TYPE,
    DROP_TYPE,
    column_array,
    column_type,
    field_names,
    has_column,
    id_sort_keys,
)
from curator.schema.selectors import check_selector, selector_columns
from curator.stages.base import DatasetStage


@dataclass(frozen=True)
class KeepBest(DatasetStage):
    """A dataset stage with a selector `on` and an order `keep`."""

    decides: ClassVar[bool] = True

    on: str
    keep: str

    def __post_init__(self) -> None:
        check_selector(self.on, self.name)
        parse_keep(self.keep)

    def reads(self, schema: pa.Schema) -> Sequence[str]:
        columns = [column for column, _ in parse_keep(self.keep)]
        return list(dict.fromkeys(["id", "dedup", *selector_columns(self.on), *columns]))

    def writes(self, schema: pa.Schema) -> Mapping[str, pa.DataType]:
        return {"dedup": DEDUP_TYPE, "drop": DROP_TYPE}

    def prepare(self, schema: pa.Schema) -> None:
        check_keep(self.keep, schema, self.name)


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


def check_keep(text: str, schema: pa.Schema, step: str) -> None:
    """Raise UsageError when records have no such column, or it cannot be put in order."""
    for column, _ in parse_keep(text):
        if not has_column(schema, column):
            raise UsageError(
                f"{step}: keep names {column}, which the records do not have",
                hint=did_you_mean(column, field_names(schema)),
            )
        if column not in field_names(schema) or pa.types.is_list(column_type(schema, column)):
            hint = f"did you mean {column}.value?" if column.startswith("scores.") else None
            raise UsageError(f"{step}: keep names {column}, which has no order", hint=hint)


def keep_columns(batch: pa.RecordBatch, text: str) -> dict[str, pa.Array]:
    """What `sorted_by_keep` needs of a batch: `id`, and `keep0`, `keep1`, ... for the other columns in order."""
    columns = {"id": batch.column("id")}
    for index, (column, _) in enumerate(parse_keep(text)):
        if column != "id":
            columns[f"keep{index}"] = column_array(batch, column)
    return columns


def sorted_by_keep(table: pa.Table, text: str, first: Sequence[str]) -> pa.Array:
    """The lines of a table with `keep_columns` in order: by the columns `first`, then down the keep order; indices.

    Nulls come last in every column; ids compare by their text, then by the row number behind the last `#`.
    """
    order = []
    for index, (column, direction) in enumerate(parse_keep(text)):
        way = "descending" if direction == "desc" else "ascending"
        if column == "id":
            prefix, number = id_sort_keys(table.column("id").combine_chunks())
            table = table.append_column("id_prefix", prefix).append_column("id_number", number)
            order += [("id_prefix", way), ("id_number", way)]
        else:
            order.append((f"keep{index}", way))
    return pc.sort_indices(table, sort_keys=[*((column, "ascending") for column in first), *order])
