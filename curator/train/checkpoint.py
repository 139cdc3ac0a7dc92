"""Checkpoints that are whole or not there: temporary folder, COMPLETED marker, rename; resume at any world size."""

import json
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from curator.faults import fault_point
from curator.io.manifest import write_atomic

COMPLETED = "COMPLETED"
"""The marker; it holds the run's progress as JSON."""

# Flat optimizer state can be cut again for another number of ranks.
_OPTIONS = StateDictOptions(flatten_optimizer_state_dict=True)


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    step: int
    """Optimizer steps done."""
    packs: int
    """Packs consumed."""
    fingerprint: str
    """Digest of everything the run depends on; another run's checkpoint is not resumed."""


def save_checkpoint(folder: Path, progress: Progress, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write `folder/step-N`; called by every rank. A kill at any moment leaves the checkpoint before it."""
    name = f"step-{progress.step}"
    temporary = folder / f"{name}.tmp"
    is_first = dist.get_rank() == 0
    if is_first:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
    dist.barrier()
    save(_state(model, optimizer), checkpoint_id=temporary)
    fault_point("inside_dcp_save")
    dist.barrier()
    if is_first:
        write_atomic(temporary / COMPLETED, json.dumps(asdict(progress)).encode())
        shutil.rmtree(folder / name, ignore_errors=True)
        temporary.rename(folder / name)
    dist.barrier()


def load_checkpoint(folder: Path, progress: Progress, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Read `folder/step-N` into the sharded model and optimizer, whatever world size wrote it."""
    state = _state(model, optimizer)
    load(state, checkpoint_id=folder / f"step-{progress.step}")
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
        options=_OPTIONS,
    )


def find_checkpoints(folder: Path, fingerprint: str) -> list[Progress]:
    """The complete checkpoints of this run, oldest first."""
    found = []
    for path in folder.glob("step-*"):
        if re.fullmatch(r"step-\d+", path.name) and (path / COMPLETED).is_file():
            progress = Progress(**json.loads((path / COMPLETED).read_bytes()))
            if progress.fingerprint == fingerprint:
                found.append(progress)
    return sorted(found, key=lambda progress: progress.step)


def remove_old_checkpoints(folder: Path, fingerprint: str, keep: int) -> None:
    """Keep the newest `keep` checkpoints, and nothing half-written."""
    kept = {f"step-{progress.step}" for progress in find_checkpoints(folder, fingerprint)[-keep:]}
    for path in folder.glob("step-*"):
        if path.name not in kept:
            shutil.rmtree(path)


def full_model_state(model: nn.Module) -> dict[str, Any]:
    """All weights, gathered to the memory of rank 0 (empty on the others); called by every rank."""
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))


def _state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    model_state, optimizer_state = get_state_dict(model, optimizer, options=_OPTIONS)
    return {"model": model_state, "optimizer": optimizer_state}
