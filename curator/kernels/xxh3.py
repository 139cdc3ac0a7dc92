"""XXH3, 128 bits, of many byte strings in one buffer: the same digests as the xxhash package, which tests compare.

The algorithm and its constants are those of the xxHash specification (XXH3, seed 0, default secret).
"""

import numpy as np
from numba import njit

from curator.kernels.words import load64, multiply64

_SECRET = np.frombuffer(
    bytes.fromhex(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
        "e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d"
        "8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc"
        "8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
    ),
    np.uint8,
).copy()
_P32_1, _P32_2, _P32_3 = np.uint64(0x9E3779B1), np.uint64(0x85EBCA77), np.uint64(0xC2B2AE3D)
_P64_1, _P64_2, _P64_3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_P64_4, _P64_5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)
_MIX_1, _MIX_2 = np.uint64(0x165667919E3779F9), np.uint64(0x9FB21C651E98DF25)
_LOW_32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@njit(cache=True, nogil=True)
def _read32(data: np.ndarray, at: int) -> np.uint64:
    return (
        np.uint64(data[at])
        | np.uint64(data[at + 1]) << np.uint64(8)
        | np.uint64(data[at + 2]) << np.uint64(16)
        | np.uint64(data[at + 3]) << np.uint64(24)
    )


@njit(cache=True, nogil=True)
def _fold(left: np.uint64, right: np.uint64) -> np.uint64:
    low, high = multiply64(left, right)
    return low ^ high


@njit(cache=True, nogil=True)
def _avalanche(value: np.uint64) -> np.uint64:
    value ^= value >> np.uint64(37)
    value *= _MIX_1
    return value ^ value >> _32


@njit(cache=True, nogil=True)
def _avalanche64(value: np.uint64) -> np.uint64:
    value ^= value >> np.uint64(33)
    value *= _P64_2
    value ^= value >> np.uint64(29)
    value *= _P64_3
    return value ^ value >> _32


@njit(cache=True, nogil=True)
def _swap32(value: np.uint64) -> np.uint64:
    return (
        (value & np.uint64(0xFF)) << np.uint64(24)
        | (value & np.uint64(0xFF00)) << np.uint64(8)
        | value >> np.uint64(8) & np.uint64(0xFF00)
        | value >> np.uint64(24) & np.uint64(0xFF)
    )


@njit(cache=True, nogil=True)
def _swap64(value: np.uint64) -> np.uint64:
    return _swap32(value & _LOW_32) << _32 | _swap32(value >> _32)


@njit(cache=True, nogil=True)
def _mix16(data: np.ndarray, at: int, secret: int) -> np.uint64:
    return _fold(load64(data, at) ^ load64(_SECRET, secret), load64(data, at + 8) ^ load64(_SECRET, secret + 8))


@njit(cache=True, nogil=True)
def _mix32(
    low: np.uint64, high: np.uint64, data: np.ndarray, first: int, second: int, secret: int
) -> tuple[np.uint64, np.uint64]:
    low += _mix16(data, first, secret)
    low ^= load64(data, second) + load64(data, second + 8)
    high += _mix16(data, second, secret + 16)
    high ^= load64(data, first) + load64(data, first + 8)
    return low, high


@njit(cache=True, nogil=True)
def _short(data: np.ndarray, at: int, size: int) -> tuple[np.uint64, np.uint64]:
    """Up to 16 bytes."""
    length = np.uint64(size)
    if size > 8:
        first, last = load64(data, at), load64(data, at + size - 8)
        flip_low = load64(_SECRET, 32) ^ load64(_SECRET, 40)
        flip_high = load64(_SECRET, 48) ^ load64(_SECRET, 56)
        low, high = multiply64(first ^ last ^ flip_low, _P64_1)
        low += (length - np.uint64(1)) << np.uint64(54)
        last ^= flip_high
        high += last + (last & _LOW_32) * (_P32_2 - np.uint64(1))
        low ^= _swap64(high)
        result, top = multiply64(low, _P64_2)
        return _avalanche(result), _avalanche(top + high * _P64_2)
    if size >= 4:
        both = _read32(data, at) + (_read32(data, at + size - 4) << _32)
        keyed = both ^ (load64(_SECRET, 16) ^ load64(_SECRET, 24))
        low, high = multiply64(keyed, _P64_1 + (length << np.uint64(2)))
        high += low << np.uint64(1)
        low ^= high >> np.uint64(3)
        low ^= low >> np.uint64(35)
        low *= _MIX_2
        low ^= low >> np.uint64(28)
        return low, _avalanche(high)
    if size:
        combined = (
            np.uint64(data[at]) << np.uint64(16)
            | np.uint64(data[at + (size >> 1)]) << np.uint64(24)
            | np.uint64(data[at + size - 1])
            | length << np.uint64(8)
        )
        swapped = _swap32(combined)
        turned = (swapped << np.uint64(13) | swapped >> np.uint64(19)) & _LOW_32
        low = combined ^ (_read32(_SECRET, 0) ^ _read32(_SECRET, 4))
        high = turned ^ (_read32(_SECRET, 8) ^ _read32(_SECRET, 12))
        return _avalanche64(low), _avalanche64(high)
    return (
        _avalanche64(load64(_SECRET, 64) ^ load64(_SECRET, 72)),
        _avalanche64(load64(_SECRET, 80) ^ load64(_SECRET, 88)),
    )


@njit(cache=True, nogil=True)
def _middle(data: np.ndarray, at: int, size: int) -> tuple[np.uint64, np.uint64]:
    """17 to 240 bytes."""
    length = np.uint64(size)
    low, high = length * _P64_1, np.uint64(0)
    if size <= 128:
        for step in range((size - 1) // 32, -1, -1):
            low, high = _mix32(low, high, data, at + 16 * step, at + size - 16 * (step + 1), 32 * step)
    else:
        for step in range(4):
            low, high = _mix32(low, high, data, at + 32 * step, at + 32 * step + 16, 32 * step)
        low, high = _avalanche(low), _avalanche(high)
        for step in range(4, size // 32):
            low, high = _mix32(low, high, data, at + 32 * step, at + 32 * step + 16, 3 + 32 * (step - 4))
        low, high = _mix32(low, high, data, at + size - 16, at + size - 32, 103)
    return _avalanche(low + high), np.uint64(0) - _avalanche(low * _P64_1 + high * _P64_4 + length * _P64_2)


@njit(cache=True, nogil=True)
def _accumulate(lanes: np.ndarray, data: np.ndarray, at: int, secret: int) -> None:
    for lane in range(8):
        value = load64(data, at + 8 * lane)
        key = value ^ load64(_SECRET, secret + 8 * lane)
        lanes[lane ^ 1] += value
        lanes[lane] += (key & _LOW_32) * (key >> _32)


@njit(cache=True, nogil=True)
def _merge(lanes: np.ndarray, secret: int, start: np.uint64) -> np.uint64:
    for pair in range(4):
        start += _fold(
            lanes[2 * pair] ^ load64(_SECRET, secret + 16 * pair),
            lanes[2 * pair + 1] ^ load64(_SECRET, secret + 16 * pair + 8),
        )
    return _avalanche(start)


@njit(cache=True, nogil=True)
def _long(data: np.ndarray, at: int, size: int, lanes: np.ndarray) -> tuple[np.uint64, np.uint64]:
    """More than 240 bytes, in stripes of 64 and blocks of 16 stripes."""
    lanes[0], lanes[1], lanes[2], lanes[3] = _P32_3, _P64_1, _P64_2, _P64_3
    lanes[4], lanes[5], lanes[6], lanes[7] = _P64_4, _P32_2, _P64_5, _P32_1
    for stripe in range((size - 1) // 64):
        if stripe and stripe % 16 == 0:
            for lane in range(8):
                value = lanes[lane]
                lanes[lane] = (value ^ value >> np.uint64(47) ^ load64(_SECRET, 128 + 8 * lane)) * _P32_1
        _accumulate(lanes, data, at + 64 * stripe, 8 * (stripe % 16))
    if (size - 1) // 64 and (size - 1) // 64 % 16 == 0:
        for lane in range(8):
            value = lanes[lane]
            lanes[lane] = (value ^ value >> np.uint64(47) ^ load64(_SECRET, 128 + 8 * lane)) * _P32_1
    _accumulate(lanes, data, at + size - 64, 121)
    length = np.uint64(size)
    return _merge(lanes, 11, length * _P64_1), _merge(lanes, 117, ~(length * _P64_2))


@njit(cache=True, nogil=True)
def xxh3_128(data: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Digests of `data[starts[i]:starts[i + 1]]` (uint8, int64 [num + 1]): high and low half, uint64 [num, 2]."""
    num = starts.shape[0] - 1
    digests = np.empty((num, 2), np.uint64)
    lanes = np.empty(8, np.uint64)
    for index in range(num):
        at, size = starts[index], starts[index + 1] - starts[index]
        if size <= 16:
            low, high = _short(data, at, size)
        elif size <= 240:
            low, high = _middle(data, at, size)
        else:
            low, high = _long(data, at, size, lanes)
        digests[index, 0] = high
        digests[index, 1] = low
    return digests
