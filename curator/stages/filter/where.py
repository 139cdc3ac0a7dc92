"""filter.where: keep the records for which an expression is true."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from curator.errors import CuratorError, UsageError
from curator.schema.check import did_you_mean
from curator.schema.expression import Expression
from curator.schema.record import DROP_TYPE, column_array, drop_array
from curator.stages.base import RowFunction, RowStage

_POLICIES = ("drop", "keep", "error")


@dataclass(frozen=True)
class Where(RowStage):
    """Rows where it is false are dropped by rule `where`, rows where it is null by rule `unknown`."""

    name: ClassVar[str] = "filter.where"
    decides: ClassVar[bool] = True

    expression: str
    """One SQL expression over a record's columns, true for the rows to keep."""
    null: str = "drop"
    """Rows for which it is null (a score that could not be measured): drop, keep or error."""

    def __post_init__(self) -> None:
        if self.null not in _POLICIES:
            raise UsageError(f"filter.where: null is {self.null!r}", hint=did_you_mean(self.null, _POLICIES))

    def reads(self, schema: pa.Schema) -> Sequence[str]:
        return Expression(self.expression, schema, self.name).columns

    def writes(self, schema: pa.Schema) -> Mapping[str, pa.DataType]:
        return {"drop": DROP_TYPE}

    def prepare(self, schema: pa.Schema) -> None:
        Expression(self.expression, schema, self.name).require_bool()

    def open(self) -> RowFunction:
        expressions: dict[pa.Schema, Expression] = {}

        def decide(batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
            expression = expressions.get(batch.schema)
            if expression is None:
                expression = expressions[batch.schema] = Expression(self.expression, batch.schema, self.name)
            answer = expression.evaluate_bool(batch)
            unknown = answer.is_null()
            if self.null == "error" and answer.null_count:
                record_id = batch.column("id").filter(unknown)[0].as_py()
                raise CuratorError(
                    f"filter.where is unknown for {record_id}: a column it reads is null",
                    hint="--null drop or --null keep decides what happens to such rows",
                )
            removed = pc.invert(pc.fill_null(answer, self.null == "keep"))
            rule = pc.if_else(unknown, "unknown", "where")
            return {
                "drop": drop_array(removed, self.name, rule, value=_measured(batch, expression), detail=self.expression)
            }

        return decide


def _measured(batch: pa.RecordBatch, expression: Expression) -> pa.Array | None:
    """The value that was looked at, when the expression reads one number: what `drop.value` shows."""
    if len(expression.columns) != 1:
        return None
    column = column_array(batch, expression.columns[0])
    is_number = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
    return column.cast(pa.float64()) if is_number else None
