"""Expressions over one record's columns: one DuckDB SQL expression, checked as a tree, run on a locked connection."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator.errors import UsageError
from curator.schema.check import did_you_mean
from curator.schema.record import column_array, field_names, has_column

FUNCTIONS = frozenset(
    " ".join(
        [
            "+ - * / // % ^ ** || ~~ !~~ ~~* !~~* ~~~ and or not",
            "abs ceil ceiling floor round sign sqrt ln log log2 log10 exp power pow greatest least",
            "coalesce ifnull nullif if isnan isinf isfinite",
            "length len strlen lower upper trim ltrim rtrim substring substr left right reverse replace",
            "split string_split split_part concat concat_ws contains prefix suffix starts_with ends_with",
            "position strpos instr ascii chr like_escape ilike_escape not_like_escape not_ilike_escape",
            "regexp_matches regexp_full_match regexp_extract regexp_replace levenshtein jaccard",
            "list_contains array_contains list_has array_length list_extract array_extract list_value list_position",
            "list_has_any list_has_all list_max list_min list_sum list_avg list_distinct list_unique array_to_string",
            "struct_extract json_extract json_extract_string json_valid json_array_length json_type",
        ]
    ).split()
)
"""Functions an expression may call: pure, and bounded in time by their arguments."""

_NODES = frozenset(
    [
        "COLUMN_REF",
        "CONSTANT",
        "VALUE_CONSTANT",
        "COMPARISON",
        "CONJUNCTION",
        "OPERATOR",
        "CASE",
        "CAST",
        "TYPE",
        "BETWEEN",
        "FUNCTION",
    ]
)
_MAX_DEPTH = 200


class Expression:
    """A checked expression. `columns` are the dotted paths it reads, bare metadata names resolved."""

    def __init__(self, text: str, schema: pa.Schema, where: str = "expression") -> None:
        """Parse and check `text` against `schema`. Raises UsageError saying what is not allowed, and where."""
        self.text = text
        self._where = where
        self._schema = schema
        self.columns: list[str] = []
        self._connection = _locked_connection()
        try:
            select = self._parse()
            self._check(select["select_list"][0], 0)
        except RecursionError:
            raise UsageError(f"{self._where} is nested too deeply") from None
        self.columns = sorted(set(self.columns))
        self._sql = self._deserialise(select)
        self.type = self._bind()

    def _parse(self) -> dict[str, Any]:
        if not self.text.strip():
            raise UsageError(f"{self._where} is empty", hint="for example: metadata.language = 'en'")
        tree = json.loads(self._ask("SELECT json_serialize_sql(?)", f"SELECT ({self.text}\n)"))
        if tree["error"]:
            raise UsageError(
                f"{self._where} does not parse: {_first_line(tree['error_message'])}: {self.text}",
                hint="SQL, as in: metadata.language = 'en' and scores.num_turns.value >= 2",
            )
        if len(tree["statements"]) != 1:
            raise UsageError(f"{self._where} must be one expression, without ;: {self.text}")
        self._tree = tree
        # In parentheses it may still close them and go on with a clause; bare, such a text does not parse.
        bare = json.loads(self._ask("SELECT json_serialize_sql(?)", f"SELECT {self.text}\n"))
        node = tree["statements"][0]["node"]
        extras = [
            name
            for name, value in node.items()
            if name in ("where_clause", "having", "qualify", "sample")
            and value is not None
            or name in ("modifiers", "group_expressions", "group_sets")
            and value
            or name == "cte_map"
            and value.get("map")
        ]
        if (
            node["type"] != "SELECT_NODE"
            or node["from_table"]["type"] != "EMPTY"
            or extras
            or len(node["select_list"]) != 1
            or (bare["error"] and node["select_list"][0]["class"] != "SUBQUERY")
        ):
            raise UsageError(
                f"{self._where} must be one expression over a record's columns: {self.text}",
                hint="columns, constants, operators, case, cast and pure functions",
            )
        return node

    def _check(self, node: dict[str, Any], depth: int) -> None:
        kind = node["class"]
        if depth > _MAX_DEPTH:
            raise UsageError(f"{self._where} is nested too deeply")
        if kind == "COLUMN_REF":
            node["column_names"] = self._resolve(node["column_names"])
            return
        if kind not in _NODES:
            names = {
                "SUBQUERY": "a subquery",
                "WINDOW": "a window function",
                "STAR": "*",
                "LAMBDA": "a lambda",
                "PARAMETER": "a parameter",
            }
            raise UsageError(
                f"{self._where} uses {names.get(kind, kind.lower())}, which is not allowed: {self.text}",
                hint="columns, constants, operators, case, cast and pure functions",
            )
        if kind == "FUNCTION":
            name = node["function_name"].lower()
            if (
                node.get("catalog")
                or node.get("filter")
                or node.get("distinct")
                or (node.get("order_bys") or {}).get("orders")
            ):
                raise UsageError(f"{self._where}: {name} is used as an aggregate, which is not allowed")
            if name not in FUNCTIONS:
                raise UsageError(
                    f"{self._where} calls {name}, which is not on the list of allowed functions",
                    hint="pure functions only; for text: lower, length, contains, starts_with, regexp_matches",
                )
        for child in _children(node):
            self._check(child, depth + 1)

    def _resolve(self, names: list[str]) -> list[str]:
        """A column reference against the schema; a bare metadata field may leave out `metadata.`."""
        path = ".".join(names)
        if not has_column(self._schema, path):
            bare = f"metadata.{path}"
            if not has_column(self._schema, bare):
                known = field_names(self._schema)
                if names[0] == "scores":
                    known = [name for name in known if name.startswith("scores.")]
                hint = did_you_mean(path, [*known, *(name.removeprefix("metadata.") for name in known)]) or ""
                if has_column(self._schema, f"scores.{path}.value"):
                    hint = f"a score is read as scores.{path}.value"
                elif not hint.startswith("did"):
                    tags = "a tag or classify step writes scores; " if names[0] == "scores" else ""
                    quotes = f"text stands in single quotes: '{path}'; " if len(names) == 1 else ""
                    hint = f"{tags}{quotes}curator stats shows the columns of a folder"
                raise UsageError(f"{self._where}: no column {path} in the records", hint=hint)
            names = ["metadata", *names]
        self.columns.append(".".join(names))
        return names

    def _deserialise(self, select: dict[str, Any]) -> str:
        self._tree["statements"][0]["node"] = select
        return self._ask("SELECT json_deserialize_sql(?)", json.dumps(self._tree))

    def _ask(self, sql: str, parameter: str) -> str:
        return self._connection.execute(sql, [parameter]).fetchall()[0][0]

    def _bind(self) -> pa.DataType:
        arrays = [pa.array([], field.type) for field in self._schema]
        return self.evaluate(pa.RecordBatch.from_arrays(arrays, schema=self._schema)).type

    def _run(self, table: pa.Table) -> pa.Array:
        import duckdb

        self._connection.register("records", table)
        try:
            result = self._connection.sql(f"{self._sql} FROM records").to_arrow_table()
        except duckdb.Error as error:
            hint = "try(...) gives null where a value does not fit" if table.num_rows else None
            if "STRUCT(" in str(error):
                hint = "a score is compared by its value: scores.num_tokens.value"
            raise UsageError(f"{self._where} fails: {_first_line(str(error))}: {self.text}", hint=hint) from None
        finally:
            self._connection.unregister("records")
        return result.column(0).combine_chunks()

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """The value for every row, [num_rows]; NaN in the columns counts as null."""
        if not self.columns:
            table = pa.table({"_": pa.repeat(pa.scalar(0, pa.int8()), batch.num_rows)})
        else:
            table = _projection(batch, self.columns)
        return self._run(table)

    def require_bool(self) -> None:
        """Raise UsageError when the expression is not a condition."""
        if not pa.types.is_boolean(self.type):
            raise UsageError(
                f"{self._where} gives {self.type}, not true or false: {self.text}", hint="compare it: ... > 0"
            )

    def evaluate_bool(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """True, false or null for every row. Raises UsageError when the expression is not a condition."""
        self.require_bool()
        return self.evaluate(batch)

    def require_number(self) -> None:
        """Raise UsageError when the expression is not a number."""
        if not (
            pa.types.is_floating(self.type)
            or pa.types.is_integer(self.type)
            or pa.types.is_decimal(self.type)
            or pa.types.is_boolean(self.type)
        ):
            raise UsageError(f"{self._where} gives {self.type}, not a number: {self.text}")

    def evaluate_number(self, batch: pa.RecordBatch) -> pa.DoubleArray:
        """A float64 for every row. Raises UsageError when the expression is not a number."""
        self.require_number()
        values = self.evaluate(batch)
        if pa.types.is_boolean(self.type):
            values = values.cast(pa.int8())
        return values.cast(pa.float64())

    def close(self) -> None:
        self._connection.close()


def _locked_connection() -> Any:
    """A DuckDB connection that can reach no file, network, extension or Python variable."""
    return _locked_database().cursor()


@cache
def _locked_database() -> Any:
    import duckdb

    # All in the configuration of the database: what SET changes, the next cursor would not have.
    settings: dict[str, Any] = {
        "python_enable_replacements": "false",
        "threads": "1",
        "enable_external_access": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "ieee_floating_point_ops": "false",  # x / 0 is null, not NaN or infinity
        "error_on_division_by_zero": "false",
        "lock_configuration": "true",
    }
    return duckdb.connect(":memory:", config=settings)


def _children(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The expression nodes directly below a node."""
    for value in node.values():
        yield from _nodes(value)


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if isinstance(value.get("class"), str) and "type" in value:
            yield value
        else:
            for child in value.values():
                yield from _nodes(child)
    elif isinstance(value, list):
        for child in value:
            yield from _nodes(child)


def _projection(batch: pa.RecordBatch, columns: list[str]) -> pa.Table:
    """Only the fields that are read, under their own names, NaN as null."""
    tree: dict[str, Any] = {}
    for path in columns:
        *parents, leaf = path.split(".")
        level = tree
        for name in parents:
            level = level.setdefault(name, {})
            if not isinstance(level, dict):
                break
        else:
            level[leaf] = _nan_as_null(column_array(batch, path))

    def build(value: Any) -> pa.Array:
        if isinstance(value, dict):
            children = {name: build(child) for name, child in value.items()}
            return pa.StructArray.from_arrays(list(children.values()), names=list(children))
        return value

    return pa.table({name: build(value) for name, value in tree.items()})


def _nan_as_null(array: pa.Array) -> pa.Array:
    """NaN as null, inside structs and lists too."""
    if pa.types.is_floating(array.type):
        return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
    if pa.types.is_struct(array.type) and _holds_floats(array.type):
        children = [_nan_as_null(child) for child in array.flatten()]
        return pa.StructArray.from_arrays(children, fields=list(array.type), mask=array.is_null())
    if pa.types.is_list(array.type) and _holds_floats(array.type):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        values = _nan_as_null(array.flatten())
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(offsets, values, type=array.type, mask=mask)
    return array


def _holds_floats(type_: pa.DataType) -> bool:
    if pa.types.is_struct(type_):
        return any(_holds_floats(field.type) for field in type_)
    return _holds_floats(type_.value_type) if pa.types.is_list(type_) else pa.types.is_floating(type_)


def _first_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[0] if lines else text
