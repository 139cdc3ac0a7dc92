"""The classifiers that ship are what recipes/classifiers.mk makes of the public sets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_recipe_makes_the_models_that_ship(real_data: Path, tmp_path: Path) -> None:
    places = {"CURATOR_REAL_DATA": real_data, "OUT": tmp_path / "work", "MODELS": tmp_path / "models"}
    programs = {"PYTHON": sys.executable, "CURATOR": Path(sys.executable).parent / "curator"}
    settings = [f"{name}={value}" for name, value in (places | programs).items()]
    command = ["make", "-f", "recipes/classifiers.mk", *settings]
    environment = {**os.environ, "PYTHONHASHSEED": "11"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    for name in ("domain", "difficulty"):
        for file in ("model.bin", "card.json", "README.md"):
            made, ships = tmp_path / "models" / name / file, ROOT / "curator/data" / name / file
            assert made.read_bytes() == ships.read_bytes(), f"{name}/{file}"
