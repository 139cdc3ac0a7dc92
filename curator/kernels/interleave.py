"""Interleaving of slices so that every stretch of the sequence holds each slice in its share."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def interleave(counts: np.ndarray) -> np.ndarray:
    """A sequence in which unit `u` occurs `counts[u]` times, spread evenly.

    `counts` is int64 of shape [num_units]; the result is int32 of shape [counts.sum()]. The j-th occurrence (from 0)
    of a unit with share r = count / total is released at position floor(j / r) and due at ceil((j + 1) / r) - 1;
    positions take the released occurrence that is due first. Such a schedule always exists (Tijdeman, "The chairman
    assignment problem", 1980; Steiner and Yeomans, 1993), so in every prefix each unit is within one of its share,
    and in every window within two. Integers only: no drift at any length. O(total log num_units).
    """
    num_units = counts.shape[0]
    total = np.int64(0)
    for unit in range(num_units):
        total += counts[unit]
    sequence = np.empty(total, dtype=np.int32)

    # Units that wait for their next release, as a linked list for each position (each unit waits at most once).
    first_waiting = np.full(total + 1, -1, dtype=np.int32)
    next_waiting = np.full(num_units, -1, dtype=np.int32)
    taken = np.zeros(num_units, dtype=np.int64)

    # Binary heap of released units by (due, unit).
    heap_due = np.empty(num_units + 1, dtype=np.int64)
    heap_unit = np.empty(num_units + 1, dtype=np.int32)
    heap_size = 0

    for reverse in range(num_units):
        unit = num_units - 1 - reverse
        if counts[unit] > 0:
            next_waiting[unit] = first_waiting[0]
            first_waiting[0] = unit

    for position in range(total):
        unit = first_waiting[position]
        while unit >= 0:
            following = next_waiting[unit]
            due = ((taken[unit] + 1) * total + counts[unit] - 1) // counts[unit] - 1
            slot = heap_size
            heap_size += 1
            while slot > 0:
                parent = (slot - 1) // 2
                if heap_due[parent] < due or (heap_due[parent] == due and heap_unit[parent] < unit):
                    break
                heap_due[slot] = heap_due[parent]
                heap_unit[slot] = heap_unit[parent]
                slot = parent
            heap_due[slot] = due
            heap_unit[slot] = unit
            unit = following

        chosen = heap_unit[0]
        heap_size -= 1
        due = heap_due[heap_size]
        unit = heap_unit[heap_size]
        slot = 0
        while True:
            child = 2 * slot + 1
            if child >= heap_size:
                break
            right = child + 1
            if right < heap_size and (
                heap_due[right] < heap_due[child]
                or (heap_due[right] == heap_due[child] and heap_unit[right] < heap_unit[child])
            ):
                child = right
            if due < heap_due[child] or (due == heap_due[child] and unit < heap_unit[child]):
                break
            heap_due[slot] = heap_due[child]
            heap_unit[slot] = heap_unit[child]
            slot = child
        heap_due[slot] = due
        heap_unit[slot] = unit

        sequence[position] = chosen
        taken[chosen] += 1
        if taken[chosen] < counts[chosen]:
            release = taken[chosen] * total // counts[chosen]
            if release <= position:
                release = position + 1
            next_waiting[chosen] = first_waiting[release]
            first_waiting[release] = chosen
    return sequence
