"""dedup.near: of records whose texts share most of their shingles, keep one.

The rounds: sign every text; fold texts that are equal; for each band, bucket the texts that share its key; join buckets
to groups; scan the texts of the groups again for their true shingle sets; go down the keep order in each group.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator import log
from curator.errors import CuratorError, UsageError
from curator.kernels.buckets import equal_folds, lists_of_rows, pack, shared_keys
from curator.kernels.characters import character_tables
from curator.kernels.components import connect
from curator.kernels.jaccard import choose_keepers
from curator.kernels.minhash import band_keys, band_shape, permutations, signatures
from curator.kernels.shingles import shingle_sets
from curator.kernels.texts import text_buffers
from curator.schema.check import did_you_mean
from curator.schema.record import HASH_TYPE, column_array
from curator.schema.selectors import select_text, selector_columns
from curator.stages.base import Reduce, Scan
from curator.stages.dedup.components import decisions
from curator.stages.dedup.keep import KeepBest, keep_columns, sorted_by_keep

_UNITS = ("words", "characters")
MAX_BUCKET = 10_000
"""Different texts that are compared with one another because they share one band."""
_NO_TEXT = -1
_RECALL = 0.995


@dataclass(frozen=True)
class Near(KeepBest):
    """Similar text, by true Jaccard similarity of shingle sets; MinHash only finds the pairs to compare.

    Going down the keep order, a record is dropped if and only if one that is already kept shares a band with it and is
    at least `threshold` similar. Bands are shaped so that a pair at the threshold meets with probability 0.995 or more.
    """

    name: ClassVar[str] = "dedup.near"

    on: str = "turns"
    """Selector whose text is compared."""
    threshold: float = 0.8
    """Jaccard similarity from which two texts are duplicates, above 0 and at most 1 (equal shingle sets)."""
    unit: str = "words"
    """What shingles are made of: `words` (without case and punctuation; a character each in scripts without spaces) or
    `characters` (without case; runs of white space as one blank)."""
    size: int = 3
    """Words or characters in a shingle. A shorter text is one shingle."""
    keep: str = "id"
    """Who stays, as columns in order of preference: `scores.quality.value desc, id`; nulls last, id breaks ties."""
    num_perm: int = 128
    """Places of a MinHash signature; more places allow longer bands, which compare fewer pairs in vain."""
    seed: int = 1
    """Of the permutations, as in datasketch."""
    allow_capped: bool = False
    """Go on when more than 10,000 different texts share a band: those behind them in the keep order are then not
    compared because of it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unit not in _UNITS:
            raise UsageError(f"dedup.near: unit {self.unit!r}", hint=did_you_mean(self.unit, _UNITS))
        if not (math.isfinite(self.threshold) and 0 < self.threshold <= 1):
            raise UsageError(
                f"dedup.near: threshold {self.threshold:g} is not above 0 and at most 1",
                hint="0.8 is a common choice; 1 drops only texts with equal shingle sets",
            )
        if not 1 <= self.size <= 100:
            raise UsageError(f"dedup.near: size {self.size} is not between 1 and 100")
        if not 1 <= self.num_perm <= 4096:
            raise UsageError(f"dedup.near: num_perm {self.num_perm} is not between 1 and 4096")
        if not 0 <= self.seed < 2**32:
            raise UsageError(f"dedup.near: seed {self.seed} is not between 0 and 2**32 - 1")
        if self.bands[1] == 0:
            raise UsageError(
                f"dedup.near: {self.num_perm} places are too few for threshold {self.threshold:g}",
                hint="raise num_perm or the threshold",
            )

    @cached_property
    def bands(self) -> tuple[int, int]:
        """How many, and places in each."""
        return band_shape(self.threshold, self.num_perm, _RECALL)

    def rounds(self, schema: pa.Schema) -> Sequence[Scan | Reduce]:
        texts = list(selector_columns(self.on))
        return [
            Scan(_sign, [*texts, "dedup"]),
            Reduce(_fold),
            Reduce(_bucket, of=(_sign, _fold), each=self._key_columns()),
            Reduce(_group, of=(_bucket, _fold)),
            Scan(_shingle, self.reads(schema), rows=_group),
            Reduce(_choose, by="group"),
            Reduce(_decide),
        ]

    def _key_columns(self) -> list[str]:
        return [f"key{band:03d}" for band in range(self.bands[0])]

    def warm(self) -> None:
        self._sign_texts(pa.array(["a"]))
        self._sets_of(pa.array(["a"]))
        hashes, rows = np.ones(2, np.uint64), np.arange(2)
        pack(_fixed(np.ones(2, np.uint32)), np.ones(2, np.bool_), hashes)
        equal_folds(hashes, _fixed(np.ones((2, 2), np.uint64)))
        shared_keys(hashes)
        lists_of_rows(_fixed(rows), _fixed(rows), 2)
        connect(rows, rows, 2)
        choose_keepers(rows, rows, _fixed(rows), rows, rows, _fixed(hashes), 0.5, 2)

    def _sign_texts(self, texts: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Keys by band and text, hashes of whole texts, and which texts have shingles."""
        signature, folds, has_shingles = signatures(
            *text_buffers(texts),
            self.size,
            self.unit == "words",
            *character_tables(),
            *permutations(self.num_perm, self.seed),
        )
        return band_keys(signature, *self.bands), folds, has_shingles

    def _sets_of(self, texts: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return shingle_sets(*text_buffers(texts), self.size, self.unit == "words", *character_tables())


def _fixed(values: np.ndarray | pa.ChunkedArray) -> np.ndarray:
    """As an array that cannot be written to: kernels are compiled for such, wherever the values come from."""
    array = values if isinstance(values, np.ndarray) else values.to_numpy()
    view = array.view()
    view.flags.writeable = False
    return view


def _sign(stage: Near, batch: pa.RecordBatch, first_row: int) -> pa.Table:
    """For every record: the hash of its text (null without one), and its key in every band."""
    keys, folds, has_shingles = stage._sign_texts(select_text(batch, stage.on))
    fold = pa.FixedSizeBinaryArray.from_buffers(HASH_TYPE, len(folds), [None, pa.py_buffer(folds)])
    columns = {
        "row": pa.array(np.arange(first_row, first_row + batch.num_rows), pa.int64()),
        "fold": pc.if_else(pa.array(has_shingles), fold, pa.scalar(None, HASH_TYPE)),
        "has_component": column_array(batch, "dedup.component").is_valid(),
    }
    return pa.table({**columns, **dict(zip(stage._key_columns(), map(pa.array, keys), strict=True))})


def _fold(stage: Near, signed: pa.Table) -> pa.Table:
    """Records that no band has to compare: `same_as` is the first row with the same text, -1 without any. Also those
    that stand for such a text, and those that have a component already, which a union may rename."""
    column = signed.column("fold").combine_chunks()
    has_text = column.is_valid().to_numpy(zero_copy_only=False)
    folds = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset : 2 * (column.offset + len(column))]
    folds = _fixed(folds.reshape(-1, 2))
    same_as = np.where(has_text, np.arange(len(folds)), _NO_TEXT)
    listed = ~has_text | signed.column("has_component").to_numpy()
    rows, firsts = equal_folds(_sorted_pairs((folds[:, 0] >> np.uint64(32)).astype(np.uint32), has_text), folds)
    same_as[rows] = firsts
    listed[rows] = True
    chosen = np.flatnonzero(listed)
    return pa.table(
        {
            "row": pa.array(chosen),
            "same_as": pa.array(same_as[chosen]),
            "has_component": signed.column("has_component").combine_chunks().take(pa.array(chosen)),
        }
    )


def _sorted_pairs(keys: np.ndarray, is_chosen: np.ndarray) -> np.ndarray:
    # Allocated here and not by the kernel: numpy asks for huge pages, which saves most of the page faults.
    pairs = np.empty(len(keys), np.uint64)
    pairs = pairs[: pack(_fixed(keys), is_chosen, pairs)]
    pairs.sort()
    return pairs


def _bucket(stage: Near, keys: pa.Table, folded: pa.Table) -> pa.Table:
    """Of one band, the records that share its key with another, bucket by bucket; its first row names a bucket."""
    is_compared = np.ones(len(keys), np.bool_)
    rows = folded.column("row").to_numpy()
    is_compared[rows[folded.column("same_as").to_numpy() != rows]] = False
    members, firsts = shared_keys(_sorted_pairs(keys.column(0).to_numpy(), is_compared))
    band = int(keys.column_names[0].removeprefix("key"))
    return pa.table({"row": pa.array(members), "bucket": pa.array(firsts * stage.bands[0] + band)})


def _group(stage: Near, bucketed: pa.Table, folded: pa.Table) -> pa.Table:
    """The records that may be duplicates, with their buckets and the group that these and equal texts make."""
    rows, buckets = _fixed(bucketed.column("row")), _fixed(bucketed.column("bucket"))
    folded_rows, same_as = folded.column("row").to_numpy(), folded.column("same_as").to_numpy()
    is_same = same_as != _NO_TEXT
    left = np.concatenate([buckets // stage.bands[0], same_as[is_same]])
    right = np.concatenate([rows, folded_rows[is_same]])
    num_rows = int(max(rows.max(initial=-1), folded_rows.max(initial=-1))) + 1
    groups = connect(left, right, num_rows)
    first_of_text = np.arange(num_rows)
    first_of_text[folded_rows] = same_as
    is_asked = np.zeros(num_rows, np.bool_)
    is_asked[right] = True
    is_asked[folded_rows[~is_same]] = False
    is_asked[folded_rows] |= folded.column("has_component").to_numpy()
    asked = np.flatnonzero(is_asked)
    lists, offsets = lists_of_rows(rows, buckets, num_rows)
    # Rows that were not asked for have no buckets, so that lists follow one another without gaps.
    ends = np.append(offsets[asked], len(lists))
    return pa.table(
        {
            "row": pa.array(asked),
            "group": pa.array(groups[asked]),
            "same_as": pa.array(first_of_text[asked]),
            "buckets": pa.LargeListArray.from_arrays(pa.array(ends), pa.array(lists)),
        }
    )


def _shingle(stage: Near, batch: pa.RecordBatch, asked: pa.Table) -> pa.Table:
    """What the choice needs of these records: shingle sets where a text is first, ids, keep columns, components."""
    is_first = pc.equal(asked.column("row"), asked.column("same_as")).combine_chunks()
    texts = pc.if_else(is_first, select_text(batch, stage.on), "")
    hashes, offsets, digests = stage._sets_of(texts)
    columns = {
        "set": pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(hashes)),
        "set_digest": pa.array(digests),
        "component": column_array(batch, "dedup.component"),
        "component_size": column_array(batch, "dedup.component_size"),
        **keep_columns(batch, stage.keep),
    }
    for name in asked.column_names:
        columns[name] = asked.column(name).combine_chunks()
    return pa.table(columns)


def _choose(stage: Near, table: pa.Table) -> pa.Table:
    """Whole groups: for each record its keeper, or none, and a partner in its component."""
    rows, same_as = table.column("row").to_numpy(), table.column("same_as").to_numpy()
    order = sorted_by_keep(table, stage.keep, first=["group"]).to_numpy()
    first_of_text = np.searchsorted(rows, np.where(same_as == _NO_TEXT, rows, same_as))
    # The first record in the keep order stands for all that have its shingle set.
    digests = table.column("set_digest").to_numpy()[first_of_text]
    digests = np.where(same_as == _NO_TEXT, rows.astype(np.uint64), digests)
    _, first_places, set_of_place = np.unique(digests[order], return_index=True, return_inverse=True)
    stand_ins = np.sort(first_places)
    rank_of_set = np.empty(len(stand_ins), np.int64)
    rank_of_set[set_of_place[stand_ins]] = np.arange(len(stand_ins))
    stand_in_of_place = rank_of_set[set_of_place]

    texts = first_of_text[order[stand_ins]]
    sets, set_starts, set_ends = _lists(table, "set", texts)
    buckets, bucket_starts, bucket_ends = _lists(table, "buckets", texts)
    keeper, similarity, component, full, came = choose_keepers(
        bucket_starts, bucket_ends, buckets, set_starts, set_ends, sets, stage.threshold, MAX_BUCKET
    )
    if len(full) and not stage.allow_capped:
        raise CuratorError(
            f"dedup.near: {came.max():,} different texts share a band, over {MAX_BUCKET:,}, such as that of row "
            f"{int(full[came.argmax()]) // stage.bands[0]:,}",
            hint="texts with a long part in common? choose another --on, a longer --size; or --allow-capped",
        )

    # From stand-ins back to all records of their sets.
    places = np.empty(len(rows), np.int64)
    places[order] = np.arange(len(rows))
    stand_in = stand_in_of_place[places]
    stand_in_line = order[stand_ins]
    is_itself = stand_in_line[stand_in] == np.arange(len(rows))
    is_kept = keeper < 0
    keeper_line = np.where(is_kept, stand_in_line, stand_in_line[keeper])[stand_in]
    value = np.where(is_kept, 1.0, similarity)[stand_in]
    is_dropped = ~(is_itself & is_kept[stand_in])
    partner_line = stand_in_line[component[stand_in]]
    num_partners = np.bincount(partner_line, minlength=len(rows))
    matters = (num_partners[partner_line] > 1) | table.column("component").is_valid().to_numpy()
    capped = np.zeros(len(rows), np.int64)
    capped[np.searchsorted(rows, full // stage.bands[0])] = came
    matters |= capped > 0
    lines = pa.table(
        {
            "row": table.column("row"),
            "id": table.column("id"),
            "component": table.column("component"),
            "component_size": table.column("component_size"),
            "partner": pa.array(rows[partner_line]),
            "keeper": pa.array(rows[keeper_line], mask=~is_dropped),
            "similarity": pa.array(value, mask=~is_dropped),
            "capped": pa.array(capped),
        }
    )
    return lines.filter(pa.array(matters))


def _lists(table: pa.Table, name: str, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The values behind a list column without copying them, and where those of `lines` begin and end."""
    column = table.column(name).combine_chunks()
    offsets = column.offsets.to_numpy()
    return _fixed(column.values.to_numpy()), offsets[lines], offsets[lines + 1]


def _decide(stage: Near, table: pa.Table) -> pa.Table:
    detail = f"{stage.on}, Jaccard of {stage.size}-{stage.unit[:-1]} shingles"
    decided = decisions(table, stage.name, stage.threshold, detail)
    sizes = decided.column("dedup").combine_chunks().field("component_size")
    capped = table.filter(pc.greater(table.column("capped"), 0))
    if len(capped):
        log.warn(
            f"dedup.near: {len(capped):,} bands were too full, such as that of {capped.column('id')[0]}: of "
            f"{pc.max(capped.column('capped')).as_py():,} different texts only {MAX_BUCKET:,} were compared"
        )
    notes = {
        "bands": stage.bands[0],
        "rows_per_band": stage.bands[1],
        "largest_component": pc.max(sizes).as_py() or 0,
        "capped_buckets": [
            {"id": record_id, "texts": texts}
            for record_id, texts in zip(
                capped.column("id").to_pylist(), capped.column("capped").to_pylist(), strict=True
            )
        ],
    }
    return decided.replace_schema_metadata({"notes": json.dumps(notes)})
