"""dedup.exact: of records that are equal in a selector's text, keep one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from curator.errors import UsageError
from curator.schema.check import did_you_mean
from curator.schema.record import HASH_TYPE, column_array
from curator.schema.selectors import select_text
from curator.stages.base import Reduce, Scan
from curator.stages.dedup.components import decisions
from curator.stages.dedup.keep import KeepBest, keep_columns, sorted_by_keep

_NORMALISATIONS = ("case", "space")


@dataclass(frozen=True)
class Exact(KeepBest):
    """Equal text, by 128-bit hash. Records in which the selector finds nothing are never duplicates of each other."""

    name: ClassVar[str] = "dedup.exact"

    on: str = "conversation"
    """Selector whose text is compared."""
    normalise: tuple[str, ...] = ()
    """Differences that do not count: `case` (Unicode case folding) and `space` (runs of white space as one)."""
    keep: str = "id"
    """Who stays, as columns in order of preference: `scores.quality.value desc, id`; nulls last, id breaks ties."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for word in self.normalise:
            if word not in _NORMALISATIONS:
                raise UsageError(f"dedup.exact: normalise {word!r}", hint=did_you_mean(word, _NORMALISATIONS))

    def rounds(self, schema: pa.Schema) -> Sequence[Scan | Reduce]:
        return [Scan(_scan, self.reads(schema)), Reduce(_groups, by="key"), Reduce(_decide)]


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
        "component": column_array(batch, "dedup.component"),
        "component_size": column_array(batch, "dedup.component_size"),
    }
    return pa.table({**columns, **keep_columns(batch, stage.keep)})


def _groups(stage: Exact, table: pa.Table) -> pa.Table:
    """The lines that matter for decisions: members of groups of two or more with their keeper, and rows that have a
    component already (a union may rename it)."""
    ranked = table.take(sorted_by_keep(table, stage.keep, first=["key"]))
    keys = ranked.column("key").combine_chunks()
    same = np.zeros(len(keys), dtype=bool)
    if len(keys):
        same[1:] = pc.fill_null(pc.equal(keys[1:], keys[:-1]), False).to_numpy(zero_copy_only=False)
    group_first = np.maximum.accumulate(np.where(same, 0, np.arange(len(keys))))
    in_group = same.copy()
    in_group[:-1] |= same[1:]
    has_component = pc.is_valid(ranked.column("component")).to_numpy()
    keepers = ranked.column("row").take(pa.array(np.where(in_group, group_first, np.arange(len(ranked)))))
    lines = ranked.select(["row", "id", "component", "component_size"]).append_column("partner", keepers)
    lines = lines.append_column("keeper", pc.if_else(pa.array(same), keepers, pa.scalar(None, pa.int64())))
    lines = lines.append_column("similarity", pc.if_else(pa.array(same), 1.0, pa.scalar(None, pa.float64())))
    lines = lines.filter(pa.array(in_group | has_component))
    return lines.take(pc.sort_indices(lines, sort_keys=[("row", "ascending")]))


def _decide(stage: Exact, table: pa.Table) -> pa.Table:
    how = "" if not stage.normalise else f" but for {' and '.join(stage.normalise)}"
    return decisions(table, stage.name, 1.0, f"equal {stage.on}{how}")
