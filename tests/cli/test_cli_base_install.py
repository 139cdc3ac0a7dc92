"""Without torch every command but train works, and train says which extra to install; the trainer imports little."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import SLOW, commands, examples

# Put first on the path: this interpreter then finds no module of these names, as if they were not installed.
SITE = """
import importlib.machinery, os
blocked = set(os.environ["BLOCKED"].split(","))
find = importlib.machinery.PathFinder.find_spec
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in blocked else find(name, path, target)
importlib.machinery.PathFinder.find_spec = staticmethod(find_spec)
"""


def environment(folder: Path, *blocked: str) -> dict[str, str]:
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SITE)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PYTHONPATH": str(folder), "BLOCKED": ",".join(blocked), "PATH": path}


@pytest.mark.slow
def test_every_command_but_train_runs_without_torch(workplace: Path, tmp_path: Path) -> None:
    for name in ("sample_data", "recipes"):
        (tmp_path / name).symlink_to(workplace / name)
    env = environment(tmp_path / "site", "torch", "transformers", "safetensors")

    def run(line: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(["bash", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True)

    assert "No module named 'torch'" in run("python -c 'import torch'").stderr
    for name, command in commands():
        (line,) = examples(command)
        done = run(line)
        if name in SLOW:
            assert done.returncode == 1
            assert done.stderr.splitlines() == [
                "error: this needs torch, which is not installed",
                "hint: pip install 'sft-curator[train]'",
            ]
        else:
            assert done.returncode == 0, done.stderr
    done = run("curator run recipes/quickstart.yaml --out work/other --set 'train={model: sample_data/tiny-model}'")
    assert done.returncode == 1 and "sft-curator[train]" in done.stderr
    assert not (tmp_path / "work/other").exists(), "found before any work"


def test_trainer_imports_only_what_it_needs(tmp_path: Path) -> None:
    code = """
import json, sys
import numpy, pyarrow.compute, pyarrow.parquet, safetensors, torch, transformers, xxhash
import torch.distributed.checkpoint, torch.distributed.fsdp
def names():
    return {name.partition(".")[0] for name in sys.modules}
before = names()
import curator.train.loop
print(json.dumps(sorted(names() - before - set(sys.stdlib_module_names))))
"""
    rest = (
        "msgspec",
        "rich",
        "typer",
        "click",
        "numba",
        "duckdb",
        "polars",
        "tokenizers",
        "minijinja",
        "scipy",
        "requests",
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, env=environment(tmp_path / "site", *rest), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [name for name in json.loads(done.stdout) if not name.startswith("_")] == ["curator"]
