"""How a classifier's answers become columns: labels fill nulls, what a person wrote stays, scores say why."""

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from curator.errors import UsageError
from curator.schema.record import column_array, column_type, has_column, score_array, score_type

NOT_LABELS = ("source", "split", "original_id", "turn_issues", "license")
"""Metadata that says where a record is from; no classifier may learn or write it."""
_SCORE = score_type(pa.float64())


def check_text_field(schema: pa.Schema, field: str, step: str) -> None:
    """Raise UsageError unless `metadata.<field>` is text, or not there yet."""
    type_ = column_type(schema, f"metadata.{field}")
    if type_ not in (None, pa.string()):
        raise UsageError(f"{step}: metadata.{field} is {type_}", hint="a label is a text field")


def label_reads(schema: pa.Schema, field: str) -> list[str]:
    """What `labelled` looks at, as far as it is there."""
    return [path for path in (f"metadata.{field}", _score_path(field)) if has_column(schema, path)]


def _score_path(field: str) -> str:
    return f"scores.{field}_confidence"


def rows_to_label(batch: pa.RecordBatch, field: str, overwrite: bool) -> pa.Array | None:
    """Numbers of the rows that need an answer: those without a label; None for all."""
    path = f"metadata.{field}"
    if overwrite or not has_column(batch.schema, path):
        return None
    is_null = column_array(batch, path).is_null()
    return None if pc.all(is_null).as_py() is not False else pc.indices_nonzero(is_null)


def labelled(
    batch: pa.RecordBatch,
    field: str,
    rows: pa.Array | None,
    found: pa.StructArray,
    by: str,
    undecided: Collection[str],
) -> dict[str, pa.Array]:
    """The columns `metadata.<field>` and `scores.<field>_confidence` of a batch.

    `found` holds label, confidence and status of `rows` (None: of all). A row that was not asked for keeps its label
    and its score; without a score it gets one of status `labelled`, for somebody else chose the label. A label in
    `undecided`, or none, never replaces one.
    """
    label, confidence, status = found.flatten()
    scores: pa.Array = score_array(pc.round(confidence, 4), by, status)
    old_labels = _old(batch, f"metadata.{field}", pa.string())
    if rows is None:
        is_decided = pc.and_(label.is_valid(), pc.invert(pc.is_in(label, pa.array(sorted(undecided), pa.string()))))
        new_labels = pc.if_else(pc.or_(is_decided, old_labels.is_null()), label, old_labels)
        return {f"metadata.{field}": new_labels, _score_path(field): scores}
    old_scores = _old(batch, _score_path(field), _SCORE)
    not_asked = score_array(pa.nulls(batch.num_rows, pa.float64()), by, "labelled")
    answers = pa.concat_arrays([scores, old_scores, not_asked])
    places = _places(rows, old_scores, batch.num_rows)
    label_places = pc.if_else(pc.less(places, len(rows)), places, None)
    return {
        f"metadata.{field}": pc.coalesce(old_labels, label.take(label_places)),
        _score_path(field): answers.take(places),
    }


def _places(rows: pa.Array, old_scores: pa.Array, num_rows: int) -> pa.Array:
    """Where each row's score is: among the new ones, else the old ones, else those of `labelled`."""
    import numpy as np

    old = np.arange(num_rows) + len(rows)
    places = np.where(old_scores.is_valid().to_numpy(zero_copy_only=False), old, old + num_rows)
    places[rows.to_numpy()] = np.arange(len(rows))
    return pa.array(places, pa.int64())


def _old(batch: pa.RecordBatch, path: str, type_: pa.DataType) -> pa.Array:
    return column_array(batch, path) if has_column(batch.schema, path) else pa.nulls(batch.num_rows, type_)
