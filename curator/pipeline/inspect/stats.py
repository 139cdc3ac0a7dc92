"""What is in a dataset: counts by tag, scores with their coverage, and the account of the last pass."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator.io.dataset import Dataset
from curator.schema.record import column_array

_TAGS_SHOWN = 12


def dataset_stats(dataset: Dataset) -> dict[str, Any]:
    """Rows, kinds, values of every tag, and for every score its coverage and spread, in one pass without text."""
    metadata = [
        field
        for field in dataset.schema.field("metadata").type
        if not pa.types.is_list(field.type) and field.name != "original_id"
    ]
    score_index = dataset.schema.get_field_index("scores")
    scores = list(dataset.schema.field(score_index).type) if score_index >= 0 else []
    columns = ["kind", *(f"metadata.{field.name}" for field in metadata), *(f"scores.{field.name}" for field in scores)]
    tags: dict[str, Counter[str | None]] = {name: Counter() for name in ["kind", *(field.name for field in metadata)]}
    values: dict[str, list[np.ndarray]] = {field.name: [] for field in scores}
    statuses: dict[str, Counter[str | None]] = {field.name: Counter() for field in scores}
    for batch in dataset.batches(columns):
        _count(tags["kind"], batch.column("kind"))
        for field in metadata:
            _count(tags[field.name], column_array(batch, f"metadata.{field.name}").cast(pa.string()))
        for field in scores:
            score = column_array(batch, f"scores.{field.name}.value")
            numbers = (score.cast(pa.int8()) if pa.types.is_boolean(score.type) else score).cast(pa.float64())
            values[field.name].append(numbers.drop_null().to_numpy())
            _count(statuses[field.name], column_array(batch, f"scores.{field.name}.status"))
    ledger = dataset.manifest.ledger()
    return {
        "rows": dataset.num_rows,
        "shards": len(dataset.shards),
        "bytes": sum(shard.path.stat().st_size for shard in dataset.shards),
        "tags": {name: _common(counter) for name, counter in tags.items() if set(counter) - {None}},
        "scores": {
            field.name: _spread(
                values[field.name], dataset.num_rows, statuses[field.name], field.type.field("value").type
            )
            for field in scores
        },
        "steps": [step["step"] for entry in dataset.history() for step in entry["steps"]],
        "ledger": ledger.to_json(),
    }


def _count(counter: Counter[str | None], array: pa.Array) -> None:
    for item in pc.value_counts(array).to_pylist():
        counter[item["values"]] += item["counts"]


def _common(counter: Counter[str | None]) -> dict[str, int]:
    """The most frequent values; absent ones as `null`, the rest summed up."""
    named = {("null" if value is None else value): count for value, count in counter.most_common()}
    shown = dict(list(named.items())[:_TAGS_SHOWN])
    rest = sum(named.values()) - sum(shown.values())
    if rest:
        shown[f"({len(named) - len(shown)} more)"] = rest
    return shown


def _spread(parts: list[np.ndarray], rows: int, statuses: Counter[str | None], type_: pa.DataType) -> dict[str, Any]:
    numbers = np.concatenate([np.empty(0), *parts])
    result: dict[str, Any] = {
        "measured": len(numbers),
        "is_flag": pa.types.is_boolean(type_),
        "coverage": round(len(numbers) / rows, 4) if rows else None,
        "status": {str(name): count for name, count in statuses.most_common()},
    }
    if len(numbers):
        result["mean"] = round(float(numbers.mean()), 4)
        if not pa.types.is_boolean(type_):
            low, middle, high = np.quantile(numbers, [0.05, 0.5, 0.95])
            result |= {
                "min": float(numbers.min()),
                "p05": float(low),
                "median": float(middle),
                "p95": float(high),
                "max": float(numbers.max()),
            }
    return result
