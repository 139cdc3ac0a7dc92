"""Signatures against datasketch, bit for bit; the shape of bands; bands against signatures."""

import numpy as np
import pyarrow as pa
import pytest

from curator.kernels.characters import character_tables
from curator.kernels.minhash import band_keys, band_shape, permutations, signatures
from curator.kernels.shingles import shingle_sets
from curator.kernels.texts import text_buffers

TEXTS = [
    "the quick brown fox jumps over the lazy dog",
    "a b",
    "今天天气很好我们一起去公园散步",
    "x " * 300 + "y z",
    "",
    "one two three",
]


@pytest.mark.parametrize(("num_perm", "seed"), [(128, 1), (64, 42), (7, 0)])
def test_signatures_equal_datasketch_bit_for_bit(num_perm: int, seed: int) -> None:
    datasketch = pytest.importorskip("datasketch")
    settings = (*text_buffers(pa.array(TEXTS)), 3, True, *character_tables())
    hashes, offsets, _ = shingle_sets(*settings)
    ours, _, has_shingles = signatures(*settings, *permutations(num_perm, seed))
    assert has_shingles.tolist() == [len(text) > 0 for text in TEXTS]
    for number in range(len(TEXTS)):
        theirs = datasketch.MinHash(
            num_perm, seed=seed, hashfunc=lambda value: int(value) & 0xFFFFFFFF, scheme="affine32"
        )
        if not has_shingles[number]:
            continue
        theirs.update_batch(hashes[offsets[number] : offsets[number + 1]])
        assert ours[number].tolist() == theirs.hashvalues.tolist()
        lean = datasketch.LeanMinHash(seed=seed, hashvalues=ours[number], scheme="affine32")
        assert lean.jaccard(datasketch.LeanMinHash(theirs)) == 1.0


def test_bands_find_a_pair_at_the_threshold_with_the_recall_asked() -> None:
    assert band_shape(0.8, 128) == (21, 6)
    for threshold in (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0):
        for num_perm in (64, 128, 256):
            bands, rows = band_shape(threshold, num_perm)
            if rows == 0:
                assert 1 - (1 - threshold) ** num_perm < 0.995
                continue
            assert bands * rows <= num_perm
            assert 1 - (1 - threshold**rows) ** bands >= 0.995
            for more in range(rows + 1, num_perm + 1):
                assert 1 - (1 - threshold**more) ** (num_perm // more) < 0.995
    assert band_shape(0.01, 128)[1] == 0


def test_a_band_is_shared_exactly_when_its_places_are_equal() -> None:
    generator = np.random.default_rng(3)
    words = [f"w{number}" for number in range(40)]
    texts = [" ".join(generator.choice(words[:20], 30)) for _ in range(40)] + ["", "  "]
    settings = (*text_buffers(pa.array(texts)), 1, True, *character_tables(), *permutations(24, 1))
    whole, folds, has_shingles = signatures(*settings)
    keys = band_keys(whole, 8, 3)
    assert has_shingles.tolist() == [True] * 40 + [False] * 2
    places = whole.reshape(len(texts), 3, 8)
    shared = 0
    for one in range(40):
        for other in range(one):
            for band in range(8):
                equal = (places[one, :, band] == places[other, :, band]).all()
                assert (keys[band, one] == keys[band, other]) == equal
                shared += equal
            assert (folds[one] == folds[other]).all() == (texts[one] == texts[other])
    assert shared > 50
