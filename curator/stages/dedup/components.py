"""Components of duplicates: which records ever belonged together, across every dedup step."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator.kernels.components import connect
from curator.schema.record import DEDUP_TYPE, drop_array


def unite(labels: pa.StringArray, sizes: np.ndarray, partners: np.ndarray) -> tuple[pa.StringArray, np.ndarray]:
    """Join the components of lines that are partners.

    A line's label names the component that its record has already, or is the id of a record that stands alone; lines
    of one label are one component, and its size (int64 [num_lines]) counts once. `partners` (int64 [num_lines]) names
    for each line another one that belongs with it, or itself. Returns for each line the name of its component, which
    is the smallest label in it, so that order does not matter, and the component's size.
    """
    encoded = labels.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    codes = rank[encoded.indices.to_numpy()]
    roots = connect(codes, codes[partners], len(order))
    label_sizes = np.zeros(len(order), np.int64)
    # The first line of a label tells its size.
    label_sizes[codes[::-1]] = sizes[::-1]
    totals = np.zeros(len(order), np.int64)
    np.add.at(totals, roots, label_sizes)
    of_line = roots[codes]
    return encoded.dictionary.take(pa.array(order[of_line])), totals[of_line]


def decisions(lines: pa.Table, step: str, threshold: float, detail: str) -> pa.Table:
    """The last round of a dedup stage: `dedup` and `drop` for every line.

    `lines` are sorted by `row` and hold `id`, `component` and `component_size` (null where the record stands alone),
    `partner` (the row of a line that belongs with it, or its own), and `keeper` and `similarity`: the row of the
    record that it duplicates, null where it stays.
    """
    rows = lines.column("row").to_numpy()
    ids = lines.column("id").combine_chunks()
    labels = pc.coalesce(lines.column("component").combine_chunks(), ids)
    sizes = pc.fill_null(lines.column("component_size"), 1).to_numpy()
    names, totals = unite(labels, sizes, np.searchsorted(rows, lines.column("partner").to_numpy()))
    is_duplicate = lines.column("keeper").is_valid().combine_chunks()
    places = np.searchsorted(rows, pc.fill_null(lines.column("keeper"), -1).to_numpy())
    keepers = pc.if_else(is_duplicate, ids.take(pa.array(places)), pa.scalar(None, pa.string()))
    similarity = lines.column("similarity").combine_chunks()
    dedup = pa.StructArray.from_arrays([keepers, similarity, names, pa.array(totals)], fields=list(DEDUP_TYPE))
    drop = drop_array(is_duplicate, step, "duplicate", similarity, threshold, keepers, detail)
    return pa.table({"row": lines.column("row"), "dedup": dedup, "drop": drop})
