"""Digests of many texts at once are those of the xxhash package."""

import numpy as np
import xxhash

from curator.kernels.xxh3 import xxh3_128


def _digests(texts: list[bytes]) -> list[bytes]:
    data = np.frombuffer(b"".join(texts), np.uint8)
    starts = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    starts.flags.writeable = False
    whole = xxh3_128(data, starts).astype(">u8").tobytes()
    return [whole[16 * index : 16 * index + 16] for index in range(len(texts))]


def test_every_length_up_to_several_blocks() -> None:
    noise = np.random.default_rng(5).integers(0, 256, 6000).astype(np.uint8).tobytes()
    sizes = [*range(700), 1023, 1024, 1025, 1087, 1088, 1089, 2047, 2048, 2049, 3000, 4096, 4097]
    texts = [noise[size % 7 : size % 7 + size] for size in sizes]
    assert _digests(texts) == [xxhash.xxh3_128_digest(text) for text in texts]


def test_texts_that_differ_in_one_bit_or_in_length() -> None:
    texts = [b"\0" * size for size in range(1, 40)] + [bytes([bit]) for bit in (1, 2, 128, 255)]
    assert _digests(texts) == [xxhash.xxh3_128_digest(text) for text in texts]
    assert len(set(_digests(texts))) == len(texts)
