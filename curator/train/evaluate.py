"""Loss on held-out rows, overall and by slice: the same at any batch size, packing and world size."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from curator.io.manifest import write_atomic
from curator.train.config import TrainConfig
from curator.train.inputs import Inputs
from curator.train.loader import VALIDATION, PackLoader, slice_values
from curator.train.model import SupervisedModel
from curator.train.packing import pack_rows
from curator.train.parallel import World

EVAL_FORMAT = "curator.eval"


@dataclass(frozen=True)
class EvalResult:
    """Held-out losses: `loss` and `tokens` float64 and int64 [num_records], in the order of the validation rows."""

    loss: np.ndarray
    """Sum over the supervised tokens of each record."""
    tokens: np.ndarray
    """Supervised tokens of each record."""

    def mean(self) -> float:
        """Loss of a supervised token. Weights of records and messages are for training and do not count here."""
        return float(self.loss.sum() / self.tokens.sum())


class Evaluator:
    """The validation rows of a mixture, packed once."""

    def __init__(self, inputs: Inputs, config: TrainConfig) -> None:
        tokens = inputs.tokens
        rows = tokens.rows_of(VALIDATION)
        self._rows = rows[tokens.lengths[rows] > 0]
        self._packs = pack_rows(self._rows, tokens.lengths, config.max_tokens)
        self._loader = PackLoader(tokens, self._packs, inputs.chat.pad_id)
        self._dataset, self._fields = inputs.dataset, inputs.order.mixture["slice_fields"]

    @property
    def num_records(self) -> int:
        return len(self._rows)

    @torch.no_grad()
    def run(self, model: SupervisedModel, world: World, micro_batch_packs: int) -> EvalResult:
        """Loss of each record; every rank calls it and gets all of it."""
        sums = torch.zeros(2, self.num_records, dtype=torch.float64, device=world.device)
        num_packs = self._packs.num_packs
        for batch in self._loader.micro_batches(0, num_packs, num_packs, world.rank, world.size, micro_batch_packs):
            arrays = (batch.ids, batch.positions, batch.chosen, batch.labels, batch.groups)
            ids, positions, chosen, labels, groups = (torch.from_numpy(array).to(world.device) for array in arrays)
            counted = torch.from_numpy(batch.weights > 0).to(world.device).double()
            losses = model(ids, positions, chosen, labels).double()
            sums[0].index_add_(0, groups, losses * counted)
            sums[1].index_add_(0, groups, counted)
        dist.all_reduce(sums)
        loss, count = sums.cpu().numpy()
        return EvalResult(loss, count.astype(np.int64))

    def report(self, result: EvalResult, step: int) -> dict[str, Any]:
        """The content of eval.json: loss overall and for each value of each slice field."""
        slices = []
        for name, values in slice_values(self._dataset, self._fields, self._rows).items():
            texts = np.array(values, dtype=object)
            for value in sorted(set(values)):
                part = EvalResult(result.loss[texts == value], result.tokens[texts == value])
                slices.append({"field": name, "value": value, **_measures(part)})
        return {"format": EVAL_FORMAT, "step": step, "split": VALIDATION, **_measures(result), "slices": slices}

    def write(self, path: Path, result: EvalResult, step: int) -> None:
        write_atomic(path, (json.dumps(self.report(result, step), indent=1, ensure_ascii=False) + "\n").encode())


def _measures(result: EvalResult) -> dict[str, Any]:
    return {"loss": result.mean(), "tokens": int(result.tokens.sum()), "records": len(result.tokens)}
