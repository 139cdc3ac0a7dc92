"""The loss of a step: weighted token losses, summed over all ranks, divided by the step's global weight."""

import inspect
from typing import Any

import torch
from torch.nn import functional

_FUSED: Any = getattr(functional, "linear_cross_entropy", None)
HAS_FUSED = _FUSED is not None and "options" in inspect.signature(_FUSED).parameters

CPU_LOGITS_LIMIT = 1 << 27
"""On a CPU the fused form of torch 2.13 took 2 to 11 times as long (one Zen 4 core, 200 to 4,000 labels, vocabularies
of 2,048 and 49,152), so it is used only where the logits would be larger than this many numbers."""


def linear_cross_entropy(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross entropy [n] of `labels` [n] under the logits `hidden` [n, width] x `weight` [ids, width]."""
    is_small = hidden.device.type == "cpu" and len(hidden) * len(weight) <= CPU_LOGITS_LIMIT
    return plain_loss(hidden, weight, labels) if is_small or not HAS_FUSED else fused_loss(hidden, weight, labels)


def fused_loss(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The logits exist only in chunks, and are computed again on the way back."""
    return _FUSED(hidden, weight, labels, reduction="none", options=torch.nn.LinearCrossEntropyOptions())


def plain_loss(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The logits exist whole."""
    logits = functional.linear(hidden, weight)
    # Sums of exponentials over a whole vocabulary need more than 16 bits.
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return functional.cross_entropy(logits, labels, reduction="none")


class LossSums:
    """What a step adds up over its micro-batches: losses and weights, overall and by group."""

    def __init__(self, num_groups: int, device: torch.device) -> None:
        # One vector, so that one reduction brings all of it: loss by group, weight by group, four counts.
        self._sums = torch.zeros(2 * num_groups + 3, dtype=torch.float64, device=device)
        self._num_groups = num_groups

    def add(
        self,
        losses: torch.Tensor,
        weights: torch.Tensor,
        groups: torch.Tensor,
        num_tokens: int = 0,
        num_supervised: int = 0,
        num_places: int = 0,
    ) -> None:
        """Add token `losses` [n] with their `weights` [n] to their `groups` [n], and what the micro-batch held."""
        weights = weights.double()
        self._sums.index_add_(0, groups, losses.detach().double() * weights)
        self._sums.index_add_(0, groups + self._num_groups, weights)
        self._sums[-3:] += self._sums.new_tensor([num_tokens, num_supervised, num_places])

    def reduce(self) -> "StepSums":
        """The sums over all ranks, equal on each."""
        torch.distributed.all_reduce(self._sums)
        loss, weight = self._sums[: self._num_groups], self._sums[self._num_groups : 2 * self._num_groups]
        num_tokens, num_supervised, num_places = (int(count) for count in self._sums[-3:].tolist())
        return StepSums(loss.tolist(), weight.tolist(), num_tokens, num_supervised, num_places)


class StepSums:
    """Losses and weights of a step over all ranks: `loss` and `weight` are lists by group."""

    def __init__(
        self, loss: list[float], weight: list[float], num_tokens: int, num_supervised: int, num_places: int
    ) -> None:
        self.loss, self.weight = loss, weight
        self.num_tokens, self.num_supervised, self.num_places = num_tokens, num_supervised, num_places

    def mean(self) -> float:
        """The weighted mean loss of the step."""
        return sum(self.loss) / sum(self.weight)

    def means(self) -> dict[int, float]:
        """The weighted mean loss of each group that had any weight."""
        return {
            group: loss / weight
            for group, (loss, weight) in enumerate(zip(self.loss, self.weight, strict=True))
            if weight > 0
        }
