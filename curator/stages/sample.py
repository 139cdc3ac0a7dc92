"""sample: a fixed number of records, chosen by a seeded hash of their ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from curator.errors import UsageError
from curator.schema.record import DROP_TYPE, drop_array
from curator.stages.base import DatasetStage, Reduce, Scan


@dataclass(frozen=True)
class Sample(DatasetStage):
    """The same records for the same ids and seed, however they are ordered or sharded; order is kept."""

    name: ClassVar[str] = "sample"
    decides: ClassVar[bool] = True
    stores_rejects: ClassVar[bool] = False

    rows: int
    """How many to keep; all when there are fewer."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rows < 0:
            raise UsageError(f"sample: {self.rows} rows", hint="0 or more")

    def reads(self, schema: pa.Schema) -> Sequence[str]:
        return ["id"]

    def writes(self, schema: pa.Schema) -> Mapping[str, pa.DataType]:
        return {"drop": DROP_TYPE}

    def rounds(self, schema: pa.Schema) -> Sequence[Scan | Reduce]:
        return [Scan(_scan, ["id"]), Reduce(_decide, by=None)]


def _scan(stage: Sample, batch: pa.RecordBatch, first_row: int) -> pa.Table:
    digest = xxhash.xxh3_64_intdigest
    hashes = [digest(text.encode(), stage.seed) for text in batch.column("id").to_pylist()]
    rows = np.arange(first_row, first_row + batch.num_rows)
    return pa.table({"row": pa.array(rows, pa.int64()), "hash": pa.array(hashes, pa.uint64())})


def _decide(stage: Sample, table: pa.Table) -> pa.Table:
    order = pc.sort_indices(table, sort_keys=[("hash", "ascending"), ("row", "ascending")])
    chosen = np.zeros(len(table), dtype=bool)
    chosen[order.to_numpy()[: stage.rows]] = True
    rest = table.filter(pa.array(~chosen))
    drop = drop_array(
        pa.repeat(True, len(rest)), stage.name, "not_sampled", detail=f"{stage.rows} rows, seed {stage.seed}"
    )
    return pa.table({"row": rest.column("row"), "drop": drop})
