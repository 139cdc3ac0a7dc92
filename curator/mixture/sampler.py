"""The order in which training sees records: computed once, stored as a table, read by position.

The one class that both `curator order` and the trainer use is `Order`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curator.errors import CuratorError
from curator.io.manifest import digest_file

ORDER = "order.parquet"
MIXTURE = "mixture.json"
FORMAT = "curator.mixture"
MAX_STRATA = 64
ORDER_SCHEMA = pa.schema([("row", pa.int64()), ("epoch", pa.int32()), ("phase", pa.int32()), ("slice", pa.int32())])
_ROW_GROUP = 1 << 20


@dataclass(frozen=True)
class PhaseRange:
    """Positions [first, last) of the order that belong to a phase."""

    name: str
    first: int
    last: int


class Order:
    """The stored order of a mixture folder."""

    def __init__(self, folder: Path, mixture: dict[str, Any]) -> None:
        self.path = folder / ORDER
        self.mixture = mixture
        self.num_positions: int = mixture["order"]["positions"]
        self.digest: str = mixture["order"]["xxh3"]
        self.phases = [PhaseRange(**phase) for phase in mixture["phases"]]
        self.slices: list[str] = mixture["slices"]
        self._file = pq.ParquetFile(self.path)

    @classmethod
    def open(cls, folder: str | Path) -> "Order":
        """Open the order of a mixture folder. Raises CuratorError when it is not one, or the order is damaged."""
        folder = Path(folder)
        try:
            mixture = json.loads((folder / MIXTURE).read_bytes())
        except FileNotFoundError:
            raise CuratorError(
                f"{folder} is not a mixture: it has no {MIXTURE}", hint="curator mix makes one"
            ) from None
        if not (folder / ORDER).exists() or digest_file(folder / ORDER) != mixture["order"]["xxh3"]:
            raise CuratorError(
                f"{folder / ORDER} is missing or not the order that {MIXTURE} names", hint="run curator mix again"
            )
        return cls(folder, mixture)

    def read(self, start: int, stop: int) -> pa.Table:
        """Positions [start, stop) as a table of `row` (int64, counted through the mixture's shards), `epoch` (from 0),
        `phase` and `slice` (indices into `phases` and `slices`)."""
        start, stop = max(start, 0), min(stop, self.num_positions)
        if start >= stop:
            return ORDER_SCHEMA.empty_table()
        groups = range(start // _ROW_GROUP, (stop - 1) // _ROW_GROUP + 1)
        table = self._file.read_row_groups(list(groups))
        return table.slice(start - groups[0] * _ROW_GROUP, stop - start)


def write_order(path: Path, columns: dict[str, np.ndarray]) -> str:
    """Write the order table; returns the xxh3 digest of the file, which the same columns always give."""
    table = pa.table({field.name: pa.array(columns[field.name], field.type) for field in ORDER_SCHEMA})
    with pq.ParquetWriter(path, ORDER_SCHEMA, compression="zstd", compression_level=1, use_dictionary=False) as writer:
        for first in range(0, max(len(table), 1), _ROW_GROUP):
            writer.write_table(table.slice(first, _ROW_GROUP).combine_chunks(), row_group_size=_ROW_GROUP)
    return digest_file(path)


def cut_strata(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row weights in at most `MAX_STRATA` strata: stratum of each row (int64 [num_rows]) and mean weight of each.

    Up to 64 distinct values are kept exactly; beyond that rows are cut at equal counts of the sorted weights, equal
    weights staying together. Weight 0 always has a stratum of its own, so it is never drawn.
    """
    values, inverse = np.unique(weights, return_inverse=True)
    if len(values) <= MAX_STRATA:
        return inverse, values
    counts = np.bincount(inverse)
    ranks = np.cumsum(counts) - counts / 2
    strata_of_values = np.minimum((ranks / len(weights) * (MAX_STRATA - 1)).astype(np.int64), MAX_STRATA - 2) + 1
    if values[0] == 0:
        strata_of_values[0] = 0
    _, strata_of_values = np.unique(strata_of_values, return_inverse=True)
    strata = strata_of_values[inverse]
    means = np.bincount(strata, weights=weights) / np.bincount(strata)
    return strata, means


class UnitRows:
    """The rows of each unit as an endless sequence: all of them in a seeded order, then again in another."""

    def __init__(self, unit_of_row: np.ndarray, num_units: int, seed: int) -> None:
        """`unit_of_row` is int64 [num_rows], -1 for rows that take no part."""
        rows = np.argsort(unit_of_row, kind="stable")
        self._rows = rows[np.searchsorted(unit_of_row[rows], 0) :]
        self._sizes = np.bincount(unit_of_row[self._rows], minlength=num_units)
        self._firsts = np.concatenate([[0], np.cumsum(self._sizes)[:-1]])
        self._seed = seed

    def draw(self, unit: int, start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Draws start .. start + count of a unit's sequence: row numbers (int64) and epochs (int32)."""
        size = int(self._sizes[unit])
        members = self._rows[self._firsts[unit] : self._firsts[unit] + size]
        rows = np.empty(count, dtype=np.int64)
        epochs = np.empty(count, dtype=np.int32)
        done = 0
        while done < count:
            epoch, offset = divmod(start + done, size)
            take = min(size - offset, count - done)
            order = seeded_permutation(size, self._seed, unit, epoch)
            rows[done : done + take] = members[order[offset : offset + take]]
            epochs[done : done + take] = epoch
            done += take
        return rows, epochs

    def draws_for(self, unit: int, start: int, amount: float, row_sizes: np.ndarray, limit: int) -> int:
        """How many draws from `start` on bring the sum of `row_sizes` (float64 [num_rows]) nearest to `amount`; at
        most `limit`. Rows differ in size, so a share of tokens cannot be reached by counting rows."""
        if amount <= 0 or limit <= 0:
            return 0
        count = min(limit, 64)
        while True:
            sums = np.cumsum(row_sizes[self.draw(unit, start, count)[0]])
            if sums[-1] >= amount or count == limit:
                break
            count = min(limit, max(2 * count, int(1.1 * count * amount / max(sums[-1], 1.0))))
        reached = int(np.searchsorted(sums, amount))
        if reached == count:
            return count
        before = float(sums[reached - 1]) if reached else 0.0
        return reached + 1 if float(sums[reached]) - amount <= amount - before else reached


def draw_order(
    unit_of_row: np.ndarray, num_units: int, counts_by_phase: Sequence[np.ndarray], seed: int
) -> dict[str, np.ndarray]:
    """The order: for each phase, units interleaved by their counts, rows inside a unit by a seeded permutation.

    `unit_of_row` is int64 [num_rows], -1 for rows that take no part; each entry of `counts_by_phase` is int64
    [num_units]. A unit goes through all its rows before any comes again, across phases too; every epoch has its own
    permutation. Returns `row` (int64), `epoch` (int32), `phase` (int32) and `unit` (int32), one entry a position.
    """
    from curator.kernels.interleave import interleave

    unit_rows = UnitRows(unit_of_row, num_units, seed)
    drawn = np.zeros(num_units, dtype=np.int64)
    parts: dict[str, list[np.ndarray]] = {"row": [], "epoch": [], "phase": [], "unit": []}
    for phase, counts in enumerate(counts_by_phase):
        units = interleave(np.ascontiguousarray(counts, dtype=np.int64))
        rows = np.empty(len(units), dtype=np.int64)
        epochs = np.empty(len(units), dtype=np.int32)
        by_unit = np.argsort(units, kind="stable")
        first = 0
        for unit in np.flatnonzero(counts):
            count = int(counts[unit])
            places = by_unit[first : first + count]
            rows[places], epochs[places] = unit_rows.draw(int(unit), int(drawn[unit]), count)
            drawn[unit] += count
            first += count
        parts["row"].append(rows)
        parts["epoch"].append(epochs)
        parts["phase"].append(np.full(len(units), phase, dtype=np.int32))
        parts["unit"].append(units)
    types = {"row": np.int64, "epoch": np.int32, "phase": np.int32, "unit": np.int32}
    return {name: np.concatenate([np.empty(0, types[name]), *columns]) for name, columns in parts.items()}


def seeded_permutation(size: int, *seeds: int) -> np.ndarray:
    """A permutation of range(size) that depends on the integers alone, not on a library's generator or version.

    Indices are sorted by the SplitMix64 finaliser of (index, seeds) (Steele, Lea and Flood, 2014).
    """
    key = 0
    for seed in seeds:
        key = _mix_int(key ^ (seed & _MASK))
    keys = np.arange(size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    keys ^= keys >> np.uint64(31)
    return np.argsort(keys, kind="stable")


_MASK = (1 << 64) - 1


def _mix_int(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
