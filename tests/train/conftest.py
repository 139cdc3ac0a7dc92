"""Folders to train on, and worlds to train in."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from train_samples import make_mixture, make_model, sample_records
from two_ranks import SETTINGS

from curator.errors import CuratorError
from curator.train.launch import train
from curator.train.parallel import World


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a run was killed inside its third checkpoint, and then `two_ranks.py` has run."""
    root = tmp_path_factory.mktemp("worlds")
    make_model(root / "model")
    make_mixture(root / "mix", sample_records(80, num_validation=6))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(CuratorError) as error:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("CURATOR_FAULT", "inside_dcp_save:3")
        train(root / "mix", {"model": str(root / "model"), **SETTINGS}, root / "killed", nproc=1)
    (root / "killed.txt").write_text(str(error.value))
    shutil.copytree(root / "killed", root / "as-killed")
    script = Path(__file__).with_name("two_ranks.py")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    subprocess.run([sys.executable, *launcher, str(script), str(root)], check=True, env=environment, timeout=170)
    return root


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder of 30,000 parameters without weights."""
    return make_model(tmp_path / "model")


@pytest.fixture
def mixture(tmp_path: Path) -> Path:
    """A mixture of 40 records, 4 of them held out."""
    return make_mixture(tmp_path / "mix", sample_records(40, num_validation=4))


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """A world of one rank: this process."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield World(0, 1, torch.device("cpu"), init_device_mesh("cpu", (1,), mesh_dim_names=("dp",)))
    dist.destroy_process_group()
