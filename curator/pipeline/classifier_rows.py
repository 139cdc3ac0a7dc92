"""The rows that a classifier learns from: which ones, in which order, in which fold. All of it depends on ids alone."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from curator import log
from curator.errors import CuratorError
from curator.io.dataset import Dataset
from curator.schema.record import column_array
from curator.schema.selectors import select_text, selector_columns
from curator.stages.classify.model import UNKNOWN
from curator.stages.classify.text import label_lines

MIN_ROWS = 20
"""Rows that a class needs; below, its figures would be chance."""
_CHUNK = 2_000


@dataclass(frozen=True)
class Rows:
    """The rows in the order of training: by a hash of their ids. Their texts are on disk, mapped."""

    labels: list[str]
    """In alphabetical order; `classes` are numbers in it."""
    classes: np.ndarray
    groups: np.ndarray
    """uint64: a hash of the group; of the id where a row has none."""
    lengths: np.ndarray
    """Characters of each prepared line."""
    left_out: dict[str, int]
    """Rows that are not among these, by reason."""
    sources: list[dict[str, Any]]
    """Source, licence, and how many rows of each."""
    _lines: pa.ChunkedArray
    _places: np.ndarray

    def chunks(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, pa.Array]]:
        """Rows by number, some at a time: their numbers and prepared lines."""
        for start in range(0, len(rows), _CHUNK):
            part = rows[start : start + _CHUNK]
            yield part, self._lines.take(pa.array(self._places[part])).combine_chunks().cast(pa.string())


def collect_rows(
    dataset: Dataset, label: str, on: str, group_by: str | None, max_rows: int, seed: int, scratch: Path
) -> Rows:
    """Rows with a label, at most `max_rows` of each; of equal texts the first in order.

    Two passes: over ids and labels, then over the texts of the chosen, which go to a file in `scratch`. Memory holds a
    few numbers for each row. Raises CuratorError when a class has fewer than `MIN_ROWS`, or there are not two.
    """
    labels, classes, keys = _read_labels(dataset, label, seed)
    _require_rows(labels, classes[classes >= 0], label)
    chosen = _sample(classes, keys, max_rows)
    left_out = {"no_label": int((classes < 0).sum()), "over_max_rows": int((classes >= 0).sum()) - len(chosen)}
    if left_out["over_max_rows"]:
        log.info(f"{left_out['over_max_rows']:,} rows are over {max_rows:,} of their class and left out, by id")
    lines, groups, sources = _read_lines(dataset, on, group_by, chosen, scratch)
    if group_by is not None and not groups.any():
        raise CuratorError(f"no row with a label has {group_by}", hint="name a column that is filled, or leave it out")

    order = np.argsort(keys[chosen], kind="stable")
    lengths = pc.utf8_length(lines).to_numpy()
    is_empty = lengths[order] == 0
    _, first = np.unique(_hash_texts(lines)[order], return_index=True)
    is_first = np.zeros(len(order), bool)
    is_first[first] = True
    left_out |= {"no_text": int(is_empty.sum()), "equal_text": int((~is_first & ~is_empty).sum())}
    order = order[is_first & ~is_empty]
    _require_rows(labels, classes[chosen][order], label)
    counts = Counter(sources[place] for place in order.tolist())
    return Rows(
        labels,
        classes[chosen][order],
        np.where(groups[order] == 0, keys[chosen][order], groups[order]),
        lengths[order],
        {reason: count for reason, count in left_out.items() if count},
        [
            {"source": source, "license": license_name, "rows": count}
            for (source, license_name), count in sorted(counts.items(), key=lambda item: str(item[0]))
        ],
        lines,
        order,
    )


def _read_labels(dataset: Dataset, label: str, seed: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Labels in order; class (-1: none) and key of every row, int64 and uint64 [num_rows]."""
    names: dict[str, int] = {}
    codes, keys = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for batch in dataset.batches(["id", label]):
        column = column_array(batch, label)
        found = pc.if_else(pc.not_equal(column, UNKNOWN), column, None).dictionary_encode()
        numbers = [names.setdefault(name, len(names)) for name in found.dictionary.to_pylist()]
        codes.append(np.array([*numbers, -1])[pc.fill_null(found.indices, len(numbers)).to_numpy()])
        keys.append(_hash_ids(batch.column("id").to_pylist(), seed))
    labels = sorted(names)
    rank = {name: number for number, name in enumerate(labels)}
    ranks = np.array([*(rank[name] for name in names), -1])
    return labels, ranks[np.concatenate(codes)], np.concatenate(keys)


def _hash_ids(ids: list[str], seed: int) -> np.ndarray:
    """Where each id stands in the order of training: uint64, the same wherever the row lies."""
    digest = xxhash.xxh3_64_intdigest
    return np.fromiter((digest(text.encode(), seed) for text in ids), np.uint64, len(ids))


def _hash_texts(lines: pa.ChunkedArray) -> np.ndarray:
    digest = xxhash.xxh3_64_intdigest
    return np.fromiter((digest(line.as_buffer()) for line in lines), np.uint64, len(lines))


def _sample(classes: np.ndarray, keys: np.ndarray, max_rows: int) -> np.ndarray:
    """Numbers of the labelled rows, of each class those with the smallest keys; ascending."""
    parts = [np.empty(0, np.int64)]
    for number in range(int(classes.max(initial=-1)) + 1):
        rows = np.flatnonzero(classes == number)
        parts.append(rows[np.argsort(keys[rows], kind="stable")[:max_rows]])
    return np.sort(np.concatenate(parts))


def _require_rows(labels: list[str], classes: np.ndarray, label: str) -> None:
    counts = np.bincount(classes, minlength=len(labels))
    if len(labels) < 2:
        found = f"only {labels[0]}" if labels else "none"
        raise CuratorError(f"{label} has {found}: there is nothing to tell apart", hint="at least two labels")
    few = [f"{name} {count}" for name, count in zip(labels, counts.tolist(), strict=True) if count < MIN_ROWS]
    if few:
        more = f" and {len(few) - 8:,} more" if len(few) > 8 else ""
        raise CuratorError(
            f"too few rows with text of {label}: {', '.join(few[:8])}{more}; each needs {MIN_ROWS}",
            hint="label more, or join labels with curator tag metadata --set",
        )


def _read_lines(
    dataset: Dataset, on: str, group_by: str | None, chosen: np.ndarray, scratch: Path
) -> tuple[pa.ChunkedArray, np.ndarray, list[tuple[str | None, str | None]]]:
    """Prepared line, group hash (0: none), and source with licence of the chosen rows."""
    path = scratch / "lines.arrow"
    schema = pa.schema([("line", pa.large_string())])
    groups = [np.empty(0, np.uint64)]
    sources: list[tuple[str | None, str | None]] = []
    columns = [*selector_columns(on), "metadata.source", "metadata.license", *([group_by] if group_by else [])]
    row = 0
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for batch in dataset.batches(list(dict.fromkeys(columns))):
            first, row = row, row + batch.num_rows
            picked = batch.take(pa.array(chosen[slice(*np.searchsorted(chosen, [first, row]))] - first))
            lines = label_lines(select_text(picked, on)).cast(pa.large_string())
            writer.write_batch(pa.record_batch([lines], schema=schema))
            names = (column_array(picked, f"metadata.{name}").to_pylist() for name in ("source", "license"))
            sources.extend(zip(*names, strict=True))
            groups.append(_hash_groups(picked, group_by))
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    return table.column("line"), np.concatenate(groups), sources


def _hash_groups(batch: pa.RecordBatch, group_by: str | None) -> np.ndarray:
    """uint64: the hash of each row's group, 0 where it has none."""
    if group_by is None:
        return np.zeros(batch.num_rows, np.uint64)
    found = column_array(batch, group_by).cast(pa.string()).dictionary_encode()
    hashes = [xxhash.xxh3_64_intdigest(text.encode()) or 1 for text in found.dictionary.to_pylist()]
    return np.array([*hashes, 0], np.uint64)[pc.fill_null(found.indices, len(hashes)).to_numpy()]


def assign_folds(rows: Rows, num_folds: int, group_by: str | None) -> np.ndarray:
    """The fold of each row, int64 [num_rows]; rows of a group share one. Each class is spread over the folds as evenly
    as its groups allow: largest group first, to the fold that has the fewest rows of that class.

    Raises CuratorError when a class lies in a single group: folds by group would train without it.
    """
    folds = np.empty(len(rows.classes), np.int64)
    if group_by is None:
        for number in range(len(rows.labels)):
            places = np.flatnonzero(rows.classes == number)
            folds[places] = np.arange(len(places)) % num_folds
        return folds
    _, group, sizes = np.unique(rows.groups, return_inverse=True, return_counts=True)
    counts = np.zeros((len(sizes), len(rows.labels)), np.int64)
    np.add.at(counts, (group, rows.classes), 1)
    single = [rows.labels[number] for number in np.flatnonzero((counts > 0).sum(axis=0) < 2)]
    if single:
        raise CuratorError(
            f"all rows of {', '.join(single)} have the same {group_by}: no fold could be judged without having seen it",
            hint="add rows from elsewhere, or leave out --group-by",
        )
    main = counts.argmax(axis=1)
    chosen = np.empty(len(sizes), np.int64)
    taken = np.zeros((num_folds, len(rows.labels)), np.int64)
    for place in np.lexsort((np.arange(len(sizes)), -sizes, main)):
        keys = taken[:, main[place]], taken.sum(axis=1)
        fold = int(np.lexsort((np.arange(num_folds), keys[1], keys[0]))[0])
        chosen[place] = fold
        taken[fold] += counts[place]
    return chosen[group]
