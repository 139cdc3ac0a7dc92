"""AdamW on the sharded weights, and the global norm of their gradients."""

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from curator.train.config import TrainConfig


def build_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW; only matrices decay. The rate is set anew before each step."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=config.learning_rate, betas=config.betas
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def clip_gradients(model: nn.Module, max_norm: float) -> float:
    """Scale gradients down to a global norm of `max_norm`; returns the norm before, over all ranks, equal on each."""
    parameters = [parameter for parameter in model.parameters() if parameter.grad is not None]
    total = get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
    if isinstance(total, DTensor):
        # The norm of sharded gradients is a partial sum on each rank until it is asked for in full.
        total = total.full_tensor()
    clip_grads_with_norm_(parameters, max_norm, total)
    return float(total.item())
