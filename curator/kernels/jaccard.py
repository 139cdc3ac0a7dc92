"""True Jaccard similarity of shingle sets, and the choice of who stays among rows that may be duplicates."""

import math

import numpy as np
from numba import njit

from curator.kernels.components import find


@njit(cache=True, nogil=True)
def jaccard(sets: np.ndarray, first: int, first_end: int, second: int, second_end: int, threshold: float) -> float:
    """Jaccard similarity of two sorted sets, `sets[first:first_end]` and `sets[second:second_end]` (uint64).

    -1.0 when it is below `threshold`, which is often known before the end. Empty sets are similar to nothing.
    """
    total = first_end - first + second_end - second
    needed = max(math.ceil(threshold / (1.0 + threshold) * total - 1e-6), 1)
    if first_end - first < needed or second_end - second < needed:
        return -1.0
    shared = np.int64(0)
    left, right = np.uintp(first), np.uintp(second)
    left_end, right_end = np.uintp(first_end), np.uintp(second_end)
    # How many elements may still be missed on either side.
    left_spare = first_end - first - needed
    right_spare = second_end - second - needed
    while left < left_end and right < right_end:
        one, other = sets[left], sets[right]
        if one == other:
            shared += 1
            left += np.uintp(1)
            right += np.uintp(1)
        elif one < other:
            left += np.uintp(1)
            left_spare -= 1
            if left_spare < 0:
                return -1.0
        else:
            right += np.uintp(1)
            right_spare -= 1
            if right_spare < 0:
                return -1.0
    similarity = shared / (total - shared)
    return similarity if similarity >= threshold else -1.0


@njit(cache=True, nogil=True)
def choose_keepers(
    bucket_starts: np.ndarray,
    bucket_ends: np.ndarray,
    buckets: np.ndarray,
    set_starts: np.ndarray,
    set_ends: np.ndarray,
    sets: np.ndarray,
    threshold: float,
    max_bucket: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Go down the members in order; drop one if and only if a member already kept shares a bucket with it and their
    Jaccard similarity is at least `threshold`.

    Member i is in the buckets `buckets[bucket_starts[i]:bucket_ends[i]]` (int64, any numbers) and has the sorted set
    `sets[set_starts[i]:set_ends[i]]` (uint64), which no other member has. A bucket takes at most `max_bucket` members;
    those behind them do not meet in it.

    Returns, int64 [num_members] each but the similarities (float64): the member that each one duplicates most (the
    earlier of equals), or -1; the similarity to it; the smallest member of its component, where members are joined by
    every pair that shares a bucket and is similar, dropped ones included; and the buckets that were full, with the
    number of members that came to each.
    """
    num_members = bucket_starts.shape[0]
    keeper = np.full(num_members, -1, np.int64)
    similarity = np.zeros(num_members, np.float64)
    parent = np.arange(num_members)
    # Open addressing: a slot for each bucket, with the last entry that was put into it. An entry is one member in one
    # bucket; entries of a bucket are chained.
    num_entries = 0
    for member in range(num_members):
        num_entries += bucket_ends[member] - bucket_starts[member]
    capacity = 16
    while capacity < 2 * num_entries:
        capacity *= 2
    mask = np.uint64(capacity - 1)
    slot_bucket = np.full(capacity, -1, np.int64)
    slot_last = np.full(capacity, -1, np.int64)
    slot_size = np.zeros(capacity, np.int64)
    slot_came = np.zeros(capacity, np.int64)
    entry_before = np.empty(num_entries, np.int64)
    entry_member = np.empty(num_entries, np.int64)
    used = 0
    compared_with = np.full(num_members, -1, np.int64)
    slots = np.empty(1, np.int64)

    for member in range(num_members):
        first, last = bucket_starts[member], bucket_ends[member]
        if slots.shape[0] < last - first:
            slots = np.empty(2 * (last - first), np.int64)
        for index in range(first, last):
            bucket = buckets[index]
            place = np.uint64(bucket) * np.uint64(0x9E3779B97F4A7C15)
            place = (place ^ place >> np.uint64(29)) & mask
            while slot_bucket[place] != bucket and slot_bucket[place] != -1:
                place = (place + np.uint64(1)) & mask
            slot_bucket[place] = bucket
            slot_came[place] += 1
            slots[index - first] = np.int64(place)
            # A full bucket compares its first members with one another; who comes later passes by.
            entry = slot_last[place] if slot_size[place] < max_bucket else -1
            while entry >= 0:
                other = entry_member[entry]
                entry = entry_before[entry]
                if compared_with[other] == member:
                    continue
                compared_with[other] = member
                is_kept = keeper[other] < 0
                if not is_kept and find(parent, other) == find(parent, member):
                    continue
                found = jaccard(
                    sets, set_starts[member], set_ends[member], set_starts[other], set_ends[other], threshold
                )
                if found < 0.0:
                    continue
                one, two = find(parent, member), find(parent, other)
                parent[max(one, two)] = min(one, two)
                if is_kept and (found > similarity[member] or (found == similarity[member] and other < keeper[member])):
                    similarity[member] = found
                    keeper[member] = other
        for slot in slots[: last - first]:
            if slot_size[slot] < max_bucket:
                slot_size[slot] += 1
                entry_member[used] = member
                entry_before[used] = slot_last[slot]
                slot_last[slot] = used
                used += 1

    for member in range(num_members):
        parent[member] = find(parent, member)
    is_full = slot_came > max_bucket
    return keeper, similarity, parent, slot_bucket[is_full], slot_came[is_full]
