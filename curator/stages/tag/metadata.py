"""tag.metadata: set metadata fields by rule or from a side file."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from curator.errors import CuratorError, UsageError
from curator.io.manifest import digest_file
from curator.schema.check import did_you_mean
from curator.schema.expression import Expression
from curator.schema.record import column_array, has_column
from curator.stages.base import RowFunction, RowStage

_FIXED = ("source", "split", "turn_issues", "original_id")


@dataclass(frozen=True)
class Metadata(RowStage):
    """Metadata fields from expressions (`set`, for rows where `where` is true), or from a CSV joined on a field.

    A new field is text, unless its expression is a number or a truth value. A row that the join does not find keeps
    what it has; a rule replaces what was there.
    """

    name: ClassVar[str] = "tag.metadata"

    set: dict[str, str] = field(default_factory=dict)
    """Metadata field to expression: `domain: "'devops'"`."""
    where: str | None = None
    """Rows that the rules in `set` apply to."""
    join: str | None = None
    """A CSV file with a header: the column named `on`, and metadata fields."""
    on: str = "id"
    """What to join on: `id`, or a metadata field such as `original_id`."""

    def __post_init__(self) -> None:
        if bool(self.set) == bool(self.join):
            raise UsageError(
                "tag.metadata takes either set or join", hint="--set domain=\"'devops'\", or --join labels.csv"
            )
        for name in self.set:
            _check_name(name)

    def settings(self) -> dict[str, Any]:
        # The side file's content decides, not where it lies.
        joined = None if self.join is None else digest_file(self._existing(self.join))
        return {"set": dict(self.set), "where": self.where, "join": joined, "on": self.on}

    def _existing(self, path: str) -> Path:
        if not Path(path).is_file():
            raise CuratorError(f"{path}: no such file", hint="--join names a CSV file with a header")
        return Path(path)

    @cached_property
    def _table(self) -> tuple[list[str], dict[str, list[str | None]]]:
        """The side file: names of its metadata columns, and key to values. Empty cells are null."""
        assert self.join is not None
        try:
            with self._existing(self.join).open(encoding="utf-8-sig", newline="") as file:
                text = file.read()
        except UnicodeDecodeError:
            raise CuratorError(f"{self.join}: not text in UTF-8") from None
        with io.StringIO(text, newline="") as lines:
            reader = csv.reader(lines)
            header = next(reader, [])
            if len(set(header)) < len(header):
                raise UsageError(f"{self.join}: two columns have the same name", hint="rename one in the header")
            if self.on not in header:
                raise UsageError(f"{self.join} has no column {self.on}", hint=did_you_mean(self.on, header))
            key = header.index(self.on)
            names = [name for name in header if name != self.on]
            for name in names:
                _check_name(name)
            rows: dict[str, list[str | None]] = {}
            for row in reader:
                if not row:
                    continue
                if len(row) != len(header):
                    raise CuratorError(
                        f"{self.join}, line {reader.line_num}: {len(row)} fields, the header has {len(header)}"
                    )
                if row[key] in rows:
                    raise CuratorError(f"{self.join}, line {reader.line_num}: {self.on} {row[key]!r} is there twice")
                rows[row[key]] = [value or None for index, value in enumerate(row) if index != key]
        return names, rows

    def _key_column(self) -> str:
        return "id" if self.on == "id" else f"metadata.{self.on.removeprefix('metadata.')}"

    def _expressions(self, schema: pa.Schema) -> tuple[dict[str, Expression], Expression | None]:
        rules = {name: Expression(text, schema, f"tag.metadata set {name}") for name, text in self.set.items()}
        condition = None if self.where is None else Expression(self.where, schema, "tag.metadata where")
        return rules, condition

    def reads(self, schema: pa.Schema) -> Sequence[str]:
        if self.join:
            return [self._key_column()]
        rules, condition = self._expressions(schema)
        return [column for rule in (*rules.values(), *([condition] if condition else [])) for column in rule.columns]

    def writes(self, schema: pa.Schema) -> Mapping[str, pa.DataType]:
        if self.join:
            names = {name: pa.string() for name in self._table[0]}
        else:
            names = {name: _field_type(rule.type) for name, rule in self._expressions(schema)[0].items()}
        known = {field.name: field.type for field in schema.field("metadata").type}
        for name, type_ in names.items():
            fits = known.get(name, type_) in (type_, pa.string()) or (known[name], type_) == (pa.float64(), pa.int64())
            if not self.join and not fits:
                raise UsageError(f"tag.metadata: {name} is {known[name]}, its expression gives {type_}")
        return {f"metadata.{name}": known.get(name, type_) for name, type_ in names.items()}

    def prepare(self, schema: pa.Schema) -> None:
        if self.where is not None:
            Expression(self.where, schema, "tag.metadata where").require_bool()
        self.writes(schema)
        if self.join and not has_column(schema, self._key_column()):
            raise UsageError(f"tag.metadata: records have no {self._key_column()}", hint="--on id, or a metadata field")

    def open(self) -> RowFunction:
        return self._open_join() if self.join else self._open_rules()

    def _open_rules(self) -> RowFunction:
        opened: dict[pa.Schema, tuple[dict[str, Expression], Expression | None]] = {}

        def tag(batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
            if batch.schema not in opened:
                opened[batch.schema] = self._expressions(batch.schema)
            rules, condition = opened[batch.schema]
            chosen = (
                pa.repeat(True, batch.num_rows)
                if condition is None
                else pc.fill_null(condition.evaluate_bool(batch), False)
            )
            columns = {}
            for path, type_ in self.writes(batch.schema).items():
                value = rules[path.removeprefix("metadata.")].evaluate(batch).cast(type_)
                old = column_array(batch, path) if has_column(batch.schema, path) else pa.nulls(batch.num_rows, type_)
                columns[path] = pc.if_else(chosen, value, old)
            return columns

        return tag

    def _open_join(self) -> RowFunction:
        names, rows = self._table
        key = self._key_column()
        empty: list[str | None] = [None] * len(names)

        def tag(batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
            found = [rows.get(value, empty) for value in column_array(batch, key).cast(pa.string()).to_pylist()]
            columns = {}
            for index, (path, type_) in enumerate(self.writes(batch.schema).items()):
                new = _cast_text(
                    pa.array([row[index] for row in found], pa.string()), type_, f"{self.join}: {names[index]}"
                )
                old = column_array(batch, path) if has_column(batch.schema, path) else pa.nulls(batch.num_rows, type_)
                columns[path] = pc.coalesce(new, old)
            return columns

        return tag

    def __getstate__(self) -> dict[str, Any]:
        return {"set": self.set, "where": self.where, "join": self.join, "on": self.on}


def _check_name(name: str) -> None:
    if name in _FIXED or not name.isidentifier():
        raise UsageError(f"tag.metadata cannot set {name!r}", hint=f"a field name other than {', '.join(_FIXED)}")


def _field_type(type_: pa.DataType) -> pa.DataType:
    """What a metadata field of this expression is: text, truth value, integer or float."""
    if pa.types.is_boolean(type_) or pa.types.is_string(type_):
        return type_
    if pa.types.is_integer(type_):
        return pa.int64()
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return pa.float64()
    raise UsageError(f"tag.metadata: an expression gives {type_}", hint="text, a number, or true and false")


def _cast_text(array: pa.StringArray, type_: pa.DataType, where: str) -> pa.Array:
    try:
        return array.cast(type_)
    except pa.ArrowInvalid as error:
        raise CuratorError(f"{where}: {error}", hint=f"the field is {type_}") from None
