"""MinHash signatures as datasketch 2 computes them (scheme affine32), and the keys of their bands."""

import numpy as np
from numba import njit

from curator.kernels.shingles import buffers, fold_units, mix64, power, shingle_text


def permutations(num_perm: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Factors and summands, uint32 [num_perm] each, that datasketch draws for a seed: h -> factor * h + summand.

    Source: datasketch 2.0, `MinHash(num_perm, seed, scheme="affine32")`.
    """
    generator = np.random.RandomState(seed)
    factors = generator.randint(0, 1 << 31, num_perm, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    return factors, generator.randint(0, 1 << 32, num_perm, dtype=np.uint32)


def band_shape(threshold: float, num_perm: int, recall: float = 0.995) -> tuple[int, int]:
    """Bands and rows a band: the most rows with which a pair at the threshold still meets with probability `recall`;
    0 rows if there is no such number.

    A pair of Jaccard similarity t shares one of b bands of r rows with probability 1 - (1 - t**r)**b (Indyk and
    Motwani, 1998). (21, 6) for 0.8 and 128.
    """
    rows = 0
    for candidate in range(1, num_perm + 1):
        if 1 - (1 - threshold**candidate) ** (num_perm // candidate) >= recall:
            rows = candidate
    return num_perm // max(rows, 1), rows


@njit(cache=True, nogil=True)
def _lower(signature: np.ndarray, shingles: np.ndarray, count: int, factors: np.ndarray, summands: np.ndarray) -> None:
    """Fill `signature` (uint32) with the smallest permuted value of the shingles' low 32 bits, place by place."""
    size = signature.shape[0]
    signature[:] = np.uint32(0xFFFFFFFF)
    for index in range(count):
        value = np.uint32(shingles[index])
        value ^= value >> np.uint32(16)
        value = np.uint32(value * np.uint32(0x85EBCA6B))
        value ^= value >> np.uint32(13)
        value = np.uint32(value * np.uint32(0xC2B2AE35))
        value ^= value >> np.uint32(16)
        for place in range(size):
            permuted = np.uint32(np.uint32(factors[place] * value) + summands[place])
            signature[place] = min(signature[place], permuted)


@njit(cache=True, nogil=True)
def signatures(
    data: np.ndarray,
    offsets: np.ndarray,
    size: int,
    by_word: bool,
    classes: np.ndarray,
    lower: np.ndarray,
    factors: np.ndarray,
    summands: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The signature of each text, uint32 [num_texts, num_perm]; a 128-bit hash of its sequence of words or characters,
    uint64 [num_texts, 2]; and whether it has any shingle, bool [num_texts] (its signature means nothing if not).

    `data` is uint8, `offsets` (int64 [num_texts + 1]) say where each text begins in it.
    """
    num_texts = offsets.shape[0] - 1
    out = np.empty((num_texts, factors.shape[0]), np.uint32)
    folds = np.zeros((num_texts, 2), np.uint64)
    has_shingles = np.zeros(num_texts, np.bool_)
    units, shingles = buffers(offsets)
    drop_factor = power(size)
    for text in range(num_texts):
        num_units, count = shingle_text(
            data, offsets[text], offsets[text + 1], size, by_word, drop_factor, classes, lower, units, shingles
        )
        folds[text, 0], folds[text, 1] = fold_units(units, num_units)
        has_shingles[text] = count > 0
        _lower(out[text], shingles, count, factors, summands)
    return out, folds, has_shingles


@njit(cache=True, nogil=True)
def band_keys(signature: np.ndarray, num_bands: int, rows_per_band: int) -> np.ndarray:
    """The key of every band, uint32 [num_bands, num_texts], of signatures uint32 [num_texts, num_perm].

    A band is every num_bands-th place, so that its sums run over neighbours, which the compiler turns into vectors.
    """
    num_texts = signature.shape[0]
    # The padding keeps the bands of one text out of the same set of the cache when num_texts is a power of two.
    keys = np.empty((num_bands, num_texts + 16), np.uint32)
    sums = np.empty(num_bands, np.uint64)
    for text in range(num_texts):
        sums[:] = np.uint64(0)
        for row in range(rows_per_band):
            multiplier = mix64(np.uint64(row + 1)) | np.uint64(1)
            for band in range(num_bands):
                sums[band] += np.uint64(signature[text, row * num_bands + band]) * multiplier
        for band in range(num_bands):
            keys[band, text] = np.uint32(mix64(sums[band]))
    return keys[:, :num_texts]
