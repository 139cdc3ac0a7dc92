"""Which rows are held out: whole groups, chosen by a seeded hash of their key, so the choice is the same anywhere."""

import numpy as np
import xxhash


def assign_validation(keys: list[str], fraction: float, seed: int) -> np.ndarray:
    """Which rows go to validation, bool of shape [num_rows].

    `keys` has one entry a row; rows with equal keys stay together. Groups are taken in the order of a seeded 64-bit
    hash of their key until `fraction` of the rows is reached, so the share is exact up to one group, does not depend
    on the order of rows, and mostly stays as it is when rows are added. Groups above the share are passed over; at
    least one group is held out when `fraction` is above 0 and there are two or more.
    """
    held_out = np.zeros(len(keys), dtype=bool)
    if fraction <= 0 or not keys:
        return held_out
    hashes = np.fromiter(
        (xxhash.xxh3_64_intdigest(key.encode(), seed) for key in keys), dtype=np.uint64, count=len(keys)
    )
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    # Ends of the runs of equal hashes: the groups, in ascending order of hash.
    ends = np.flatnonzero(np.concatenate([ordered[1:] != ordered[:-1], [True]])) + 1
    if len(ends) < 2:
        return held_out
    wanted = fraction * len(keys)
    sizes = np.diff(ends, prepend=0)
    # A group that alone is more than the share asked stays in training, unless there are no others.
    groups = np.flatnonzero(sizes <= max(wanted, sizes.min()))
    num_groups = max(1, int(np.searchsorted(np.cumsum(sizes[groups]), wanted, side="right")))
    chosen = np.zeros(len(ends), dtype=bool)
    chosen[groups[:num_groups]] = True
    held_out[order[np.repeat(chosen, sizes)]] = True
    return held_out
