"""Packing loses nothing, overflows nothing, and depends on order and lengths alone."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from train_samples import make_mixture, sample_records

from curator.mixture.sampler import Order
from curator.train.packing import WINDOW, Packs, best_fit_decreasing, pack_order, pack_rows


@given(st.lists(st.integers(1, 50), max_size=200))
@settings(max_examples=50, deadline=None)
def test_bins_hold_every_item_and_never_overflow(lengths: list[int]) -> None:
    bins = best_fit_decreasing(np.array(lengths, dtype=np.int64), 50)
    assert len(bins) == len(lengths)
    assert all(total <= 50 for total in np.bincount(bins, weights=lengths)) if lengths else True
    # Numbered by their first item: each new number is one above the largest before it.
    highest = -1
    for number in bins.tolist():
        assert number <= highest + 1
        highest = max(highest, number)


def test_real_lengths_fill_their_packs() -> None:
    lengths = np.minimum(np.random.default_rng(0).lognormal(6, 1, WINDOW).astype(np.int64) + 1, 4096)
    bins = best_fit_decreasing(lengths, 4096)
    assert lengths.sum() / (4096 * (bins.max() + 1)) > 0.99


def test_the_multiset_of_records_is_conserved(tmp_path: Path) -> None:
    order_rows = [3, 1, 0, 2, 3, 4, 5, 0, 1]
    mixture = make_mixture(tmp_path / "mix", sample_records(6), order_rows, phases=[("a", 4), ("b", 9)])
    lengths = np.array([5, 0, 7, 9, 2, 10], dtype=np.int32)
    order = Order.open(mixture)
    packs = pack_order(order, lengths, 12)
    entries = packs.entries(0, packs.num_packs)
    packed = sorted(zip(entries.row.tolist(), entries.tokens.tolist(), strict=True))
    assert packed == sorted((row, int(lengths[row])) for row in order_rows if lengths[row])
    assert sorted(packs.table.column("position").to_pylist()) == [p for p, row in enumerate(order_rows) if lengths[row]]
    for pack in range(packs.num_packs):
        one = packs.entries(pack, pack + 1)
        assert one.tokens.sum() <= 12
    phase_of_pack = {
        pack: {
            position >= 4
            for position in packs.table.filter(packs.table.column("pack").to_numpy() == pack)["position"].to_pylist()
        }
        for pack in range(packs.num_packs)
    }
    assert all(len(phases) == 1 for phases in phase_of_pack.values())


def test_packs_are_read_back_only_when_whole_and_asked_for(tmp_path: Path) -> None:
    packs = pack_rows(np.arange(5), np.array([4, 4, 3, 2, 6]), 8)
    path = tmp_path / "packs.parquet"
    packs.write(path, {"order": "a"})
    again = Packs.read(path, {"order": "a"})
    assert again is not None and again.digest == packs.digest and again.num_packs == packs.num_packs
    assert Packs.read(path, {"order": "b"}) is None
    assert Packs.read(tmp_path / "none.parquet", {}) is None
    table = pq.read_table(path)
    pq.write_table(table.slice(1).replace_schema_metadata(table.schema.metadata), path)
    assert Packs.read(path, {"order": "a"}) is None
    path.write_bytes(path.read_bytes()[:-10])
    assert Packs.read(path, {"order": "a"}) is None


def test_no_rows_make_no_packs() -> None:
    assert pack_rows(np.arange(0), np.zeros(0, np.int32), 8).num_packs == 0
