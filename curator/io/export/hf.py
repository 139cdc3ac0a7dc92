"""A folder that `datasets.load_dataset` reads: Parquet by kind and split, and a card that says what is in it.

One config a kind, because the kinds have different columns; one set of files a split. A column is there when any
record of the folder fills it, so nothing is a column of nulls. JSON that a record keeps as text (`tools`,
`tool_calls`, `extra`, the payload of a verifier) stays text: typed columns would fill every object with the keys of
all others.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curator import log
from curator.errors import CuratorError
from curator.io.dataset import BATCH_ROWS, Dataset
from curator.io.export.card import CARD, Contents, card_text
from curator.io.export.preference import border
from curator.io.manifest import placing
from curator.schema.record import KINDS, column_array, filter_batch, row_bytes

GROUP_BYTES = 16 << 20
"""A row group ends at this much text, or at `BATCH_ROWS` rows."""
FILE_BYTES = 1 << 30
"""A file ends at the row group that reaches this much text."""

# Message fields in the order they are written, and the names other tools give them.
_MESSAGE_FIELDS = {
    "role": "role",
    "content": "content",
    "reasoning": "reasoning_content",
    "tool_calls": "tool_calls",
    "tool_call_id": "tool_call_id",
    "name": "name",
    "weight": "weight",
    "wrap": "wrap",
    "images": "images",
}
_ALWAYS = {"role", "content"}
_PLAIN = ("tools", "verifier", "group", "loss_weight", "metadata", "scores", "extra")
_LIST = {"preference": ("messages", "rejected")}


@dataclass
class HubFolder:
    """What was written: the account for tables and `--json`."""

    out: str
    rows: int = 0
    by_kind_and_split: dict[str, dict[str, int]] = field(default_factory=dict)
    url: str | None = None
    """Where it was pushed to."""

    def counts(self) -> list[tuple[str, int]]:
        """Rows of a table: records by kind and split."""
        return [
            (f"{kind} {split}", rows)
            for kind, splits in self.by_kind_and_split.items()
            for split, rows in splits.items()
        ]

    def to_json(self) -> dict[str, Any]:
        return {"out": self.out, "target": "hf", "read": self.rows, "rows": self.by_kind_and_split, "url": self.url}


def write_hf(dataset: Dataset, out: Path, name: str | None = None, overwrite: bool = False) -> HubFolder:
    """Write the kept records of a folder, batch by batch, and the card. `name` stands above the card.

    Raises CuratorError when `out` holds anything but such a folder, or when it does and is not to be replaced.
    """
    if not dataset.num_rows:
        raise CuratorError(f"{dataset.path} holds no record", hint="datasets cannot load an empty set")
    _require_place(out, overwrite)
    temporary = out.with_name(f".tmp-{out.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with placing(out):
            contents = _write(dataset, temporary)
            (temporary / CARD).write_text(card_text(dataset, contents, name or out.name), encoding="utf-8")
            if out.exists():
                shutil.rmtree(out)
            temporary.rename(out)
    finally:
        with suppress(OSError):
            shutil.rmtree(temporary)
    splits: dict[str, dict[str, int]] = {}
    for (kind, split), rows in contents.rows.items():
        splits.setdefault(kind, {})[split] = rows
    return HubFolder(str(out), dataset.num_rows, splits)


def _require_place(out: Path, overwrite: bool) -> None:
    if out.is_file():
        raise CuratorError(f"--out {out} is a file", hint="--to hf writes a folder")
    there = sorted(entry.name for entry in out.iterdir()) if out.exists() else []
    if strays := [entry for entry in there if entry not in ("data", CARD)]:
        raise CuratorError(f"--out {out} holds {strays[0]}, which is no part of an export", hint="choose another --out")
    if there and not overwrite:
        raise CuratorError(f"--out {out} exists", hint="--overwrite replaces it")
    out.parent.mkdir(parents=True, exist_ok=True)


def _write(dataset: Dataset, folder: Path) -> Contents:
    filled = {name for manifest in dataset.manifests for task in manifest.tasks for name in task.filled}
    kinds = _kinds(dataset)
    contents = Contents(kinds)
    writers: dict[tuple[str, str], _SplitWriter] = {}
    with log.progress(dataset.num_rows, "export", "rows") as bar:
        for batch in dataset.batches():
            contents.count(batch)
            for kind, split, part in _parts(batch):
                key = (kind, split)
                if key not in writers:
                    place = folder / "data" / kind if len(kinds) > 1 else folder / "data"
                    writers[key] = _SplitWriter(place, split, _schema(kind, part.schema, filled))
                writers[key].write(_columns(kind, part, writers[key].schema), int(row_bytes(part).sum()))
                contents.rows[key] = contents.rows.get(key, 0) + part.num_rows
            bar.advance(batch.num_rows)
    for writer in writers.values():
        writer.close()
    return contents


def _kinds(dataset: Dataset) -> list[str]:
    found: set[str] = set()
    for batch in dataset.batches(["kind"]):
        found.update(batch.column("kind").unique().to_pylist())
    return [kind for kind in KINDS if kind in found]


def _parts(batch: pa.RecordBatch) -> Iterator[tuple[str, str, pa.RecordBatch]]:
    """The rows of a batch by kind and split, each part in order."""
    kinds = batch.column("kind")
    splits = column_array(batch, "metadata.split")
    for kind in KINDS:
        of_kind = pc.equal(kinds, kind)
        if not of_kind.true_count:
            continue
        for split in splits.filter(of_kind).unique().to_pylist():
            rows = pc.and_(
                of_kind, pc.is_null(splits) if split is None else pc.fill_null(pc.equal(splits, split), False)
            )
            yield kind, split_name(split), filter_batch(batch, rows)


def split_name(split: str | None) -> str:
    """The name of a split as `datasets` takes it: word characters and dots; `train` for none."""
    return re.sub(r"\W+", "_", split or "", flags=re.ASCII).strip("_") or "train"


# --- columns ------------------------------------------------------------------------------------------------------


def _schema(kind: str, schema: pa.Schema, filled: set[str]) -> pa.Schema:
    sources = _LIST.get(kind, ("messages",))
    fields = []
    for field_ in schema.field("messages").type.value_type:
        paths = [f"{source}.{field_.name}" for source in sources]
        if field_.name in _ALWAYS or any(_is_filled(path, filled) for path in paths):
            fields.append(field_)
    order = list(_MESSAGE_FIELDS)
    fields.sort(key=lambda field_: order.index(field_.name))
    turns = pa.list_(pa.struct([(_MESSAGE_FIELDS[field_.name], field_.type) for field_ in fields]))
    names = ("prompt", "chosen", "rejected") if kind == "preference" else ("messages",)
    columns = [("id", pa.string()), *((name, turns) for name in names)]
    for name in _PLAIN:
        index = schema.get_field_index(name)
        type_ = _filled_type(name, schema.field(index).type, filled) if index >= 0 else None
        if type_ is not None:
            columns.append((name, type_))
    return pa.schema(columns)


def _is_filled(path: str, filled: set[str]) -> bool:
    return any(name == path or name.startswith(f"{path}.") for name in filled)


def _filled_type(path: str, type_: pa.DataType, filled: set[str]) -> pa.DataType | None:
    """The type with only the fields that are filled somewhere; None when none is."""
    if not pa.types.is_struct(type_):
        return type_ if _is_filled(path, filled) else None
    children = [(child.name, _filled_type(f"{path}.{child.name}", child.type, filled)) for child in type_]
    kept = [(name, child) for name, child in children if child is not None]
    return pa.struct(kept) if kept else None


def _columns(kind: str, batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    arrays = []
    for field_ in schema:
        if field_.name == "messages":
            arrays.append(_turns(batch.column("messages"), field_.type))
        elif field_.name in ("prompt", "chosen"):
            arrays.append(_turns(_side(batch, field_.name), field_.type))
        elif field_.name == "rejected":
            arrays.append(_turns(batch.column("rejected"), field_.type))
        else:
            arrays.append(_pruned(batch.column(field_.name), field_.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _pruned(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The array with only the fields of `type_`; null structs stay null."""
    if not pa.types.is_struct(type_):
        return array
    children = dict(zip((field_.name for field_ in array.type), array.flatten(), strict=True))
    return pa.StructArray.from_arrays(
        [_pruned(children[field_.name], field_.type) for field_ in type_], fields=list(type_), mask=array.is_null()
    )


def _turns(array: pa.ListArray, type_: pa.ListType) -> pa.ListArray:
    values = array.flatten()
    children = dict(zip((_MESSAGE_FIELDS[field_.name] for field_ in values.type), values.flatten(), strict=True))
    struct = type_.value_type
    turns = pa.StructArray.from_arrays([children[field_.name] for field_ in struct], fields=list(struct))
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, turns, type=type_, mask=array.is_null() if array.null_count else None)


def _side(batch: pa.RecordBatch, name: str) -> pa.ListArray:
    """Of a preference: the turns before the chosen continuation, or those of it."""
    array = batch.column("messages")
    values = array.flatten()
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    begins = np.concatenate([[0], np.cumsum(lengths)[:-1]]) if len(lengths) else lengths
    borders = _borders(batch, values, begins, lengths)
    starts, stops = (begins, begins + borders) if name == "prompt" else (begins + borders, begins + lengths)
    rows = [np.arange(start, stop) for start, stop in zip(starts, stops, strict=True)]
    taken = values.take(pa.array(np.concatenate([np.empty(0, np.int64), *rows])))
    offsets = pa.array(np.concatenate([[0], np.cumsum(stops - starts)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, taken)


def _borders(batch: pa.RecordBatch, values: pa.StructArray, begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """In each row the number of turns before the chosen continuation, shape [num_rows] int64."""
    roles = values.flatten()[values.type.get_field_index("role")].to_pylist()
    provenance = batch.column("provenance").to_pylist()
    borders = np.zeros(batch.num_rows, np.int64)
    for row, (begin, length, origin) in enumerate(zip(begins.tolist(), lengths.tolist(), provenance, strict=True)):
        messages = [{"role": role} for role in roles[begin : begin + length]]
        borders[row] = max(0, border({"messages": messages, "provenance": origin}))
    return borders


class _SplitWriter:
    """The files of one split; row groups and files are cut by rows and text, so the same rows give the same bytes."""

    def __init__(self, folder: Path, split: str, schema: pa.Schema) -> None:
        self._folder, self._split, self.schema = folder, split, schema
        self._writer: pq.ParquetWriter | None = None
        self._number = self._file_bytes = self._pending_rows = self._pending_bytes = 0
        self._pending: list[pa.Table] = []

    def write(self, table: pa.Table, text_bytes: int) -> None:
        """Append rows that hold this much text."""
        if self._writer is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{self._split}-{self._number:05d}.parquet"
            self._writer = pq.ParquetWriter(path, self.schema, compression="zstd", write_page_checksum=True)
        if self._pending_rows + table.num_rows > BATCH_ROWS:
            self._flush()
        self._pending.append(table)
        self._pending_rows += table.num_rows
        self._pending_bytes += text_bytes
        if self._pending_rows >= BATCH_ROWS or self._pending_bytes >= GROUP_BYTES:
            self._flush()
        if self._file_bytes >= FILE_BYTES:
            self.close()
            self._number += 1
            self._file_bytes = 0

    def _flush(self) -> None:
        if self._pending_rows and self._writer is not None:
            self._writer.write_table(pa.concat_tables(self._pending).combine_chunks())
        self._file_bytes += self._pending_bytes
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def close(self) -> None:
        self._flush()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
