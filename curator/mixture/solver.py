"""From asked shares to counts: how often each unit is drawn, under the budget and the cap on repetition."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Allotment:
    """Draws for each unit, and what stood in the way."""

    counts: np.ndarray
    """int64 [num_units]: rows to draw."""
    amounts: np.ndarray
    """float64 [num_units]: what those rows are worth on average, in units of the budget."""
    shares: np.ndarray
    """float64 [num_units]: the share that was asked, in units of the budget; sums to 1."""
    capped: np.ndarray
    """bool [num_units]: the cap on epochs bound here."""


def allot(
    sizes: np.ndarray, weights: np.ndarray, capacity: np.ndarray, row_size: np.ndarray, budget: float | None
) -> Allotment:
    """Share a budget over units in proportion to `sizes * weights`, none beyond its capacity.

    All arrays are [num_units]: `sizes` the natural amount in units of the budget, `weights` the asked factors,
    `capacity` the rows that may still be drawn, `row_size` the mean amount of a row (1 for a budget in rows).
    What a capped unit cannot take goes to the others in proportion (water-filling), so shares among the uncapped stay
    as asked. Without a budget, the largest amount at which every asked share holds exactly.
    """
    asked = sizes * weights
    total = asked.sum()
    shares = asked / total if total > 0 else np.zeros_like(asked)
    capacity_amount = np.where(shares > 0, capacity * row_size, 0.0)
    active = shares > 0
    if not active.any():
        nothing = np.zeros(len(sizes))
        return Allotment(nothing.astype(np.int64), nothing, shares, nothing.astype(bool))
    if budget is None:
        budget = float(np.min(capacity_amount[active] / shares[active]))
    amounts = np.zeros(len(sizes))
    capped = np.zeros(len(sizes), dtype=bool)
    left = min(budget, float(capacity_amount.sum()))
    all_capped = active & (budget > left)
    while True:
        open_units = active & ~capped
        if not open_units.any():
            break
        given = left * shares / shares[open_units].sum()
        over = open_units & (given > capacity_amount * (1 + 1e-12))
        if not over.any():
            amounts[open_units] = given[open_units]
            break
        amounts[over] = capacity_amount[over]
        capped |= over
        left -= float(capacity_amount[over].sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = np.where(row_size > 0, amounts / row_size, 0.0)
    return Allotment(_round(rows, np.where(active, capacity, 0)), amounts, shares, capped | all_capped)


def _round(rows: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """Whole numbers with the rounded sum of `rows`, each within one of it (largest remainder), none above capacity."""
    counts = np.minimum(np.floor(rows + 1e-9).astype(np.int64), capacity.astype(np.int64))
    missing = int(round(float(rows.sum()))) - int(counts.sum())
    remainders = np.where(counts < capacity, rows - counts, -1.0)
    for unit in np.argsort(-remainders, kind="stable")[: max(missing, 0)]:
        if remainders[unit] > 1e-9:
            counts[unit] += 1
    return counts
