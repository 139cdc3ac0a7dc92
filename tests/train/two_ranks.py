"""Run by torchrun with two ranks: the same trainings in worlds of one and two. `test_train_worlds.py` compares them.

One process pair does all of it, because starting torch takes longer than these trainings.
"""

import contextlib
import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from curator.train import loop
from curator.train.config import TrainConfig
from curator.train.inputs import prepare
from curator.train.parallel import World

SETTINGS: dict[str, Any] = {
    "max_tokens": 96,
    "packs_per_step": 3,
    "micro_batch_packs": 2,
    "learning_rate": 5e-3,
    "steps": 20,
    "save_every": 5,
    "keep_checkpoints": 4,
}
# The only argument when torchrun starts this; when a test imports the settings it is nothing that is used.
ROOT = Path(sys.argv[-1])
RANK = int(os.environ.get("RANK", 0))


class Stop(Exception):
    """Stands for a kill right after a checkpoint."""


@contextlib.contextmanager
def world_of(size: int, name: str) -> Iterator[World]:
    """This process in a world of both ranks, or alone."""
    rank = RANK if size == 2 else 0
    dist.init_process_group("gloo", init_method=f"file://{ROOT}/meet-{name}", rank=rank, world_size=size)
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("dp",))
    yield World(rank, size, torch.device("cpu"), mesh)
    dist.destroy_process_group()


def run(name: str, size: int, stop_after: int | None = None, **settings: Any) -> None:
    """Train in `ROOT/name`, up to a checkpoint when `stop_after` names its step; gradients go to `name-gradients`."""
    config = TrainConfig(model=str(ROOT / "model"), **settings)
    out = ROOT / name
    with world_of(size, f"{name}-{size}-{stop_after}") as world:
        if world.is_first:
            prepare(ROOT / "mix", config, out)
        dist.barrier()
        step = loop.train_step
        save = loop.save_checkpoint
        gradients: dict[str, np.ndarray] = {}
        steps = itertools.count(1)

        def recording(model: Any, *rest: Any) -> Any:
            result = step(model, *rest)
            number = next(steps)
            if number in (1, 5, 20):
                for key, parameter in model.named_parameters():
                    gradients[f"{number} {key}"] = parameter.grad.full_tensor().numpy().copy()
            return result

        def stopping(folder: Path, progress: Any, *rest: Any) -> None:
            save(folder, progress, *rest)
            if progress.step == stop_after:
                raise Stop

        loop.train_step, loop.save_checkpoint = recording, stopping
        with contextlib.suppress(Stop):
            loop.train(ROOT / "mix", config, out, world)
        loop.train_step, loop.save_checkpoint = step, save
        if world.is_first:
            np.savez(ROOT / f"{name}-gradients", **gradients)


def copy_until(source: str, name: str, step: int) -> None:
    """A run folder as a kill right after the checkpoint of `step` would have left it, later lines included."""
    shutil.copytree(ROOT / source, ROOT / name)
    (ROOT / name / "manifest.json").unlink()
    for path in (ROOT / name / "checkpoints").iterdir():
        if int(path.name.removeprefix("step-")) > step:
            shutil.rmtree(path)


def main() -> None:
    # Each rank alone, side by side.
    if RANK == 0:
        run("float64-1", 1, **{**SETTINGS, "dtype": "float64"})
        run("accumulated", 1, 5, **{**SETTINGS, "dtype": "float64", "micro_batch_packs": 1})
    else:
        run("float32-1", 1, **SETTINGS)
        run("killed", 1, **SETTINGS)
    # Both together.
    run("float64-2", 2, **{**SETTINGS, "dtype": "float64"})
    run("float32-2", 2, **SETTINGS)
    if RANK == 0:
        copy_until("float32-2", "elastic", 5)
        run("elastic", 1, 10, **SETTINGS)
    run("elastic", 2, **SETTINGS)


if __name__ == "__main__":
    main()
