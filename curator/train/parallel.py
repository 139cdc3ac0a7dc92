"""Ranks and sharding: one process a device, parameters sharded a decoder layer at a time (FSDP2)."""

import os
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from curator.train.config import TrainConfig
from curator.train.model import SupervisedModel

PREPARE_TIMEOUT = timedelta(hours=6)
"""The other ranks wait this long for rank 0 to tokenise. A rank that dies ends them at once, through the launcher."""


@dataclass(frozen=True)
class World:
    """This process among the others."""

    rank: int
    size: int
    device: torch.device
    mesh: DeviceMesh

    @property
    def is_first(self) -> bool:
        return self.rank == 0


def join_world() -> World:
    """Meet the other ranks that torchrun started: NCCL where there are GPUs (gloo beside it for objects), else gloo."""
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("cpu:gloo,cuda:nccl", timeout=PREPARE_TIMEOUT)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo", timeout=PREPARE_TIMEOUT)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),), mesh_dim_names=("dp",))
    return World(dist.get_rank(), dist.get_world_size(), device, mesh)


def shard_model(model: SupervisedModel, world: World, config: TrainConfig) -> SupervisedModel:
    """Shard each decoder layer, then the rest (embedding and head together, so that tied ones stay one parameter).

    Gradients are summed over ranks, not averaged: the loss is already divided by the weight of the whole step.
    """
    policy = MixedPrecisionPolicy()
    if config.dtype == "bfloat16":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model.to(world.device)
    for layer in model.layers():
        fully_shard(layer, mesh=world.mesh, mp_policy=policy)
    fully_shard(model, mesh=world.mesh, mp_policy=policy)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            # Neither call reaches the modules inside: a layer left out would train at another scale, silently.
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    return model


def sum_over_ranks(value: float, world: World) -> float:
    """The sum of one number over all ranks, in float64, equal on each."""
    total = torch.tensor(value, dtype=torch.float64, device=world.device)
    dist.all_reduce(total)
    return float(total.item())
