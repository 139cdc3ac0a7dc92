"""Which records share a row of training tokens: a function of record order and token lengths alone."""

import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from curator.mixture.sampler import Order

WINDOW = 1024
"""Records of the order that are packed together: fill .996 for real lengths, and no record moves further than this."""

PACK_SCHEMA = pa.schema(
    [
        ("pack", pa.int32()),
        ("position", pa.int64()),
        ("row", pa.int64()),
        ("epoch", pa.int32()),
        ("slice", pa.int32()),
        ("tokens", pa.int32()),
    ]
)
"""One line for each record in a pack; lines of a pack stand together, in the order of their positions."""


@dataclass(frozen=True)
class Entries:
    """The records of some packs, column by column; `pack` counts from the first pack of the order."""

    pack: np.ndarray
    row: np.ndarray
    epoch: np.ndarray
    slice: np.ndarray
    tokens: np.ndarray


class Packs:
    """The pack table: which rows are in pack k, for every k."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.combine_chunks()
        self._columns = {name: self.table.column(name).to_numpy() for name in PACK_SCHEMA.names}
        pack = self._columns["pack"]
        self.num_packs = int(pack[-1]) + 1 if len(pack) else 0
        self._starts = np.searchsorted(pack, np.arange(self.num_packs + 1))

    @property
    def digest(self) -> str:
        """Hex xxh3 over the columns."""
        hasher = xxhash.xxh3_128()
        for name in PACK_SCHEMA.names:
            hasher.update(np.ascontiguousarray(self._columns[name]).data)
        return hasher.hexdigest()

    def entries(self, first: int, stop: int) -> Entries:
        """The records of packs [first, stop)."""
        span = slice(self._starts[first], self._starts[stop])
        return Entries(*(self._columns[name][span] for name in ("pack", "row", "epoch", "slice", "tokens")))

    def write(self, path: Path, notes: Mapping[str, str]) -> None:
        """Store the table as Parquet, `notes` and the digest in its metadata. The name appears when it is complete."""
        metadata = {**notes, "digest": self.digest}
        temporary = path.with_name(f".tmp-{path.name}")
        pq.write_table(self.table.replace_schema_metadata(metadata), temporary, compression="zstd")
        temporary.rename(path)

    @classmethod
    def read(cls, path: Path, notes: Mapping[str, str]) -> "Packs | None":
        """The stored table, or None when there is none, it was made from other `notes`, or it is damaged."""
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowInvalid):
            return None
        found = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        packs = cls(table.replace_schema_metadata(None))
        return packs if found == {**notes, "digest": packs.digest} else None


def pack_order(order: Order, lengths: np.ndarray, max_tokens: int) -> Packs:
    """Pack the records of an order.

    `lengths` int32 [num_rows] holds the tokens of each row, 0 for rows that were dropped. Best fit in decreasing
    length inside windows of `WINDOW` positions, none of which crosses a phase; packs come in the order of their
    first record.
    """
    return _concat(_pack_window(window, lengths, max_tokens) for window in _windows(order))


def pack_rows(rows: np.ndarray, lengths: np.ndarray, max_tokens: int) -> Packs:
    """Pack rows outside an order (validation); the slice of each is its index in `rows`."""
    indices = np.arange(len(rows))
    tables = []
    for first in range(0, len(rows), WINDOW):
        span = indices[first : first + WINDOW]
        columns = {"position": span, "row": rows[span], "epoch": span * 0, "slice": span}
        tables.append(_pack_window(columns, lengths, max_tokens))
    return _concat(iter(tables))


def best_fit_decreasing(lengths: np.ndarray, capacity: int) -> np.ndarray:
    """Bin of each item: the longest items first, each into the fullest bin that still holds it.

    Bins are numbered by their first item. No item may be longer than `capacity`.
    """
    bin_of_item = np.empty(len(lengths), dtype=np.int64)
    spaces: list[tuple[int, int]] = []  # free space and bin, sorted
    num_bins = 0
    for item in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[item])
        place = bisect.bisect_left(spaces, (length, 0))
        if place < len(spaces):
            free, chosen = spaces.pop(place)
        else:
            free, chosen = capacity, num_bins
            num_bins += 1
        bin_of_item[item] = chosen
        bisect.insort(spaces, (free - length, chosen))
    _, first_items, bins = np.unique(bin_of_item, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first_items))[bins]


def _windows(order: Order) -> Iterator[dict[str, np.ndarray]]:
    """The order in stretches of at most `WINDOW` positions of one phase, each as columns with `position`."""
    block = WINDOW * 64
    for phase in order.phases:
        for start in range(phase.first, phase.last, block):
            table = order.read(start, min(start + block, phase.last))
            columns = {name: table.column(name).to_numpy() for name in ("row", "epoch", "slice")}
            columns["position"] = np.arange(start, start + len(table))
            for first in range(0, len(table), WINDOW):
                yield {name: column[first : first + WINDOW] for name, column in columns.items()}


def _pack_window(columns: Mapping[str, np.ndarray], lengths: np.ndarray, max_tokens: int) -> pa.Table:
    """The pack table of one window; packs count from 0. Rows of length 0 stay out."""
    tokens = lengths[columns["row"]]
    kept = np.flatnonzero(tokens)
    bins = best_fit_decreasing(tokens[kept], max_tokens)
    ordered = kept[np.argsort(bins, kind="stable")]
    values: dict[str, Any] = {name: column[ordered] for name, column in columns.items()}
    values |= {"pack": np.sort(bins), "tokens": tokens[ordered]}
    return pa.table({field.name: pa.array(values[field.name], field.type) for field in PACK_SCHEMA})


def _concat(tables: Iterator[pa.Table]) -> Packs:
    """Tables of windows as one, packs counted on."""
    parts, num_packs = [PACK_SCHEMA.empty_table()], 0
    for table in tables:
        pack = table.column("pack").to_numpy() + num_packs
        parts.append(table.set_column(0, PACK_SCHEMA.field("pack"), pa.array(pack, pa.int32())))
        num_packs = int(pack[-1]) + 1 if len(pack) else num_packs
    return Packs(pa.concat_tables(parts))
