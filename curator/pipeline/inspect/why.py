"""The fate of one record, step by step, from what the folders hold."""

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from curator import log
from curator.errors import CuratorError
from curator.io.dataset import Dataset, Shard, naming_damage, open_shard
from curator.io.manifest import FileEntry
from curator.mixture.sampler import MIXTURE, Order
from curator.pipeline.inspect.folders import Folder, find_folders
from curator.pipeline.inspect.show import drop_text


def fate(record_id: str, root: Path) -> list[dict[str, Any]]:
    """One entry for each folder that the record reached: `folder`, `steps`, `fate`, `detail`.

    Raises CuratorError when no folder below `root` knows the id.
    """
    folders, _ = find_folders(root)
    if not folders:
        raise CuratorError(f"{root} holds no finished folder", hint="name a folder made by curator, or one above it")
    entries = []
    for folder in folders:
        if folder.problem is not None:
            log.warn(f"{folder.path} is left out: {folder.problem}")
            continue
        found = _in_dataset(record_id, folder) if folder.manifest is not None else _in_run(record_id, folder)
        if found is not None:
            entries.append({"folder": str(folder.path), **found})
    if not entries:
        raise CuratorError(
            f"no folder below {root} knows {record_id}", hint="ids look like source/file#row; curator show prints them"
        )
    return entries


def _in_dataset(record_id: str, folder: Folder) -> dict[str, Any] | None:
    assert folder.manifest is not None
    steps = " + ".join(folder.manifest.steps())
    for task in folder.manifest.tasks:
        for entry in task.shards:
            row = _find(folder.path, entry, record_id)
            if row is not None:
                return {"steps": steps, "fate": "kept", "detail": _kept_detail(folder, entry, row)}
        for entry in task.rejects:
            row = _find(folder.path, entry, record_id)
            if row is not None:
                return {"steps": steps, "fate": "dropped", "detail": drop_text(row["drop"])}
        for entry in task.quarantine:
            row = _find(folder.path, entry, record_id)
            if row is not None:
                place = f"{row['file']}, row {row['row']}, byte {row['byte_offset']:,}"
                return {"steps": steps, "fate": "quarantined", "detail": f"{row['reason']} ({place})"}
    return None


def _find(folder: Path, entry: FileEntry, record_id: str) -> dict[str, Any] | None:
    """The row with this id, without its text; `row_in_shard` counts from 0."""
    row_in_shard = 0
    with naming_damage(folder / entry.path), open_shard(folder / entry.path) as file:
        schema = file.schema_arrow
        wanted = [
            name
            for name in ("id", "metadata", "dedup", "drop", "reason", "file", "row", "byte_offset")
            if name in schema.names
        ]
        for index in range(file.num_row_groups):
            ids = file.read_row_group(index, columns=["id"]).column("id")
            place = pc.index(ids, record_id).as_py()
            if place >= 0:
                row = file.read_row_group(index, columns=wanted).slice(place, 1).to_pylist()[0]
                return {**row, "row_in_shard": row_in_shard + place}
            row_in_shard += len(ids)
    return None


def _kept_detail(folder: Folder, entry: FileEntry, row: dict[str, Any]) -> str:
    parts = []
    dedup = row.get("dedup")
    if dedup and dedup["component"]:
        parts.append(f"in a component of {dedup['component_size']} duplicates")
    if (folder.path / MIXTURE).exists():
        split = row["metadata"]["split"]
        parts.append(f"split {split}")
        if split == "train":
            parts.append(_places(folder.path, entry, row["row_in_shard"]))
    return ", ".join(parts)


def _places(mixture: Path, entry: FileEntry, row_in_shard: int) -> str:
    """At which positions of the order the record stands."""
    shard: Shard = next(shard for shard in Dataset.open(mixture).shards if shard.path == mixture / entry.path)
    wanted = shard.first_row + row_in_shard
    order = Order.open(mixture)
    positions: list[int] = []
    step = 1 << 20
    for start in range(0, order.num_positions, step):
        rows = order.read(start, start + step).column("row")
        positions += (pc.indices_nonzero(pc.equal(rows, wanted)).to_numpy() + start).tolist()
    shown = ", ".join(f"{position:,}" for position in positions[:5]) + (", ..." if len(positions) > 5 else "")
    return f"{len(positions)} times in the order, at {shown}" if positions else "never in the order"


def _in_run(record_id: str, folder: Folder) -> dict[str, Any] | None:
    steps: list[int] = []
    for path in sorted((folder.path / "ledger").glob("*.parquet")):
        table = pq.read_table(path, columns=["step", "id"])
        steps += table.filter(pc.equal(table.column("id"), record_id)).column("step").to_pylist()
    if not steps:
        return None
    shown = ", ".join(map(str, steps[:5])) + (", ..." if len(steps) > 5 else "")
    return {"steps": "train", "fate": "trained on", "detail": f"{len(steps)} times, in step {shown}"}
