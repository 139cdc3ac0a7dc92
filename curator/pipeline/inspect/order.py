"""The records at any position of a mixture's order, before, during and after training."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from curator.errors import UsageError
from curator.io.dataset import Dataset
from curator.mixture.sampler import Order
from curator.schema.selectors import select_text

_PROMPT_CHARS = 60


def order_lines(folder: Path, at: int, count: int) -> list[dict[str, Any]]:
    """Positions [at, at + count): `position`, `phase`, `slice`, `epoch`, `id` and the beginning of the prompt."""
    order = Order.open(folder)
    if not 0 <= at < max(order.num_positions, 1):
        raise UsageError(
            f"--at {at}: the order has {order.num_positions:,} positions", hint=f"from 0 to {order.num_positions - 1:,}"
        )
    if count < 1:
        raise UsageError(f"--show {count}", hint="at least 1")
    table = order.read(at, at + count)
    texts = _rows(Dataset.open(folder), table.column("row").to_numpy())
    return [
        {
            "position": at + index,
            "phase": order.phases[line["phase"]].name,
            "slice": order.slices[line["slice"]],
            "epoch": line["epoch"],
            "id": texts[line["row"]][0],
            "prompt": texts[line["row"]][1],
        }
        for index, line in enumerate(table.to_pylist())
    ]


def _rows(dataset: Dataset, rows: np.ndarray) -> dict[int, tuple[str, str]]:
    """Id and beginning of the prompt of the wanted rows; only the shards that hold one are read."""
    wanted = np.unique(rows)
    found: dict[int, tuple[str, str]] = {}
    for shard in dataset.shards:
        first = shard.first_row
        if not ((wanted >= first) & (wanted < first + shard.num_rows)).any():
            continue
        for batch in shard.batches(dataset.schema, ["id", "messages"]):
            here = wanted[(wanted >= first) & (wanted < first + batch.num_rows)]
            if len(here):
                part = batch.take(pa.array(here - first))
                prompts = [" ".join(text.split())[:_PROMPT_CHARS] for text in select_text(part, "prompt").to_pylist()]
                found |= dict(zip(here.tolist(), zip(part.column("id").to_pylist(), prompts, strict=True), strict=True))
            first += batch.num_rows
    return found
