"""recipes/Makefile: a second make does nothing, one touched raw file rebuilds only what hangs on it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@pytest.fixture
def build(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "sample_data", tmp_path / "sample_data")
    return tmp_path


def make(folder: Path) -> list[str]:
    """Run the build; returns the commands that it ran."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    command = ["make", "-f", str(ROOT / "recipes/Makefile"), "OUT=build"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if line.startswith("curator ")]


def manifests(folder: Path) -> dict[str, int]:
    return {path.parent.name: path.stat().st_mtime_ns for path in folder.glob("build/*/manifest.json")}


def test_build_runs_only_what_is_stale(build: Path) -> None:
    assert len(make(build)) == 6
    first = manifests(build)
    assert set(first) == {"tutor", "agents", "tutor-counted", "agents-counted", "exact", "mix"}
    rows = json.loads((build / "build/mix/manifest.json").read_bytes())["rows"]

    assert make(build) == []
    assert manifests(build) == first

    raw = build / "sample_data/alpaca.json"
    records = json.loads(raw.read_text())
    raw.write_text(json.dumps([*records, {"instruction": "Say hi.", "input": "", "output": "Hi there, friend."}]))
    commands = make(build)
    assert [" ".join(command.split()[:3]) for command in commands] == [
        "curator ingest sample_data/alpaca.json",
        "curator tag tokens",
        "curator dedup exact",
        "curator mix build/exact",
    ]
    after = manifests(build)
    assert after["agents"] == first["agents"] and after["agents-counted"] == first["agents-counted"]
    assert json.loads((build / "build/mix/manifest.json").read_bytes())["rows"] == rows + 1

    os.utime(raw)
    assert len(make(build)) == 4
    assert make(build) == []
