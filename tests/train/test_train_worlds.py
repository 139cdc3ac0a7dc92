"""World size, accumulation and interruption change neither losses, gradients nor the records of any step."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from curator.train.ledger import read_ledger


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def ids_by_step(folder: Path) -> dict[int, list[str]]:
    steps: dict[int, list[str]] = {}
    for line in read_ledger(folder).select(["step", "id"]).to_pylist():
        steps.setdefault(line["step"], []).append(line["id"])
    return steps


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-5)])
def test_two_ranks_equal_one(worlds: Path, dtype: str, tolerance: float) -> None:
    one, two = metrics(worlds / f"{dtype}-1"), metrics(worlds / f"{dtype}-2")
    assert len(one) == len(two) == 20
    for left, right in zip(one, two, strict=True):
        assert left["loss"] == pytest.approx(right["loss"], rel=tolerance, abs=tolerance)
        assert left["grad_norm"] == pytest.approx(right["grad_norm"], rel=tolerance, abs=tolerance)
        assert left["slices"] == pytest.approx(right["slices"], rel=tolerance, abs=tolerance)
        exact = ("step", "tokens", "supervised_tokens", "learning_rate")
        assert [left[name] for name in exact] == [right[name] for name in exact]
    assert one[-1]["validation_loss"] == pytest.approx(two[-1]["validation_loss"], rel=tolerance)
    assert_same_gradients(worlds, f"{dtype}-1", f"{dtype}-2", tolerance)
    assert ids_by_step(worlds / f"{dtype}-1") == ids_by_step(worlds / f"{dtype}-2")


def test_accumulation_changes_nothing(worlds: Path) -> None:
    assert_same_gradients(worlds, "float64-1", "accumulated", 1e-9)


def assert_same_gradients(worlds: Path, left: str, right: str, tolerance: float) -> None:
    one, two = np.load(worlds / f"{left}-gradients.npz"), np.load(worlds / f"{right}-gradients.npz")
    shared = set(one) & set(two)
    assert len(shared) == min(len(one), len(two)) > 2 * 10
    for name in shared:
        np.testing.assert_allclose(one[name], two[name], rtol=tolerance, atol=tolerance, err_msg=name)


def test_training_learns(worlds: Path) -> None:
    lines = metrics(worlds / "float32-2")
    assert lines[-1]["loss"] < lines[0]["loss"] - 0.5


def test_a_kill_inside_a_checkpoint_leaves_the_one_before(worlds: Path) -> None:
    message, _, hint = (worlds / "killed.txt").read_text().partition("\n")
    assert message == "rank 0 was killed by SIGKILL" and "goes on" in hint
    names = sorted(path.name for path in (worlds / "as-killed" / "checkpoints").iterdir())
    assert names == ["step-10", "step-15.tmp", "step-5"]
    assert not (worlds / "as-killed" / "checkpoints" / "step-15.tmp" / "COMPLETED").exists()
    assert not (worlds / "as-killed" / "manifest.json").exists()


def test_a_killed_run_is_resumed_to_the_same_bytes(worlds: Path) -> None:
    """It goes on at step 11, after five more steps were written that no checkpoint holds."""
    straight, killed = worlds / "float32-1", worlds / "killed"
    assert len(metrics(worlds / "as-killed")) == 15
    files = ["metrics.jsonl", "eval.json", "packs.parquet", "model/model.safetensors", "manifest.json"]
    files += [f"ledger/{path.name}" for path in (straight / "ledger").iterdir()]
    for name in files:
        assert (straight / name).read_bytes() == (killed / name).read_bytes(), name


def test_two_one_two_ranks_see_the_same_records(worlds: Path) -> None:
    assert ids_by_step(worlds / "elastic") == ids_by_step(worlds / "float32-2")
    left = [line["loss"] for line in metrics(worlds / "elastic")]
    assert left == pytest.approx([line["loss"] for line in metrics(worlds / "float32-2")], rel=1e-4)


def test_every_record_is_seen_as_often_as_the_order_says(worlds: Path) -> None:
    """20 steps of 3 packs go through the order more than once; each pass holds each record once."""
    num_packs = pq.read_table(worlds / "float32-2" / "packs.parquet").column("pack").to_numpy().max() + 1
    ledger = read_ledger(worlds / "float32-2")
    first_pass = [line["id"] for line in ledger.to_pylist() if line["pack"] < num_packs]
    assert len(first_pass) == len(set(first_pass)) == 74
    assert ledger.column("epoch").to_numpy().max() == (20 * 3 - 1) // num_packs


def test_only_the_newest_checkpoints_stay(worlds: Path) -> None:
    names = sorted(path.name for path in (worlds / "accumulated" / "checkpoints").iterdir())
    assert names == ["step-5"]
    names = sorted(path.name for path in (worlds / "float32-1" / "checkpoints").iterdir())
    assert names == ["step-10", "step-15", "step-20", "step-5"]
