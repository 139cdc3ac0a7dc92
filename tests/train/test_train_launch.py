"""torchrun as a child: failures arrive as a line, kills are resumed to the same bytes, nothing lingers."""

import ast
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from curator.errors import CuratorError, UsageError
from curator.train.config import TrainConfig
from curator.train.guard import hold_lock, report_failures
from curator.train.launch import _failure, train

ROOT = Path(__file__).parents[2]


def config_of(worlds: Path) -> TrainConfig:
    """The settings of `float32-2` in `two_ranks.py`."""
    settings = json.loads((worlds / "float32-2" / "fingerprint.json").read_text())["train"]
    return TrainConfig.from_json({**settings, "model": str(worlds / "model")})


@pytest.mark.slow
def test_a_finished_run_is_not_done_again(worlds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, straight = worlds / "launched", worlds / "float32-2"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    summary = train(worlds / "mix", config_of(worlds), out, nproc=2)
    assert summary["steps"] == 20 and summary["loss_last"] < summary["loss_first"]
    assert (out / "metrics.jsonl").read_bytes() == (straight / "metrics.jsonl").read_bytes()
    stamp = (out / "manifest.json").stat().st_mtime_ns
    started = time.monotonic()
    assert train(worlds / "mix", config_of(worlds), out, nproc=1) == summary
    assert time.monotonic() - started < 2 and (out / "manifest.json").stat().st_mtime_ns == stamp


@pytest.mark.slow
def test_ctrl_c_ends_every_rank(mixture: Path, model: Path, tmp_path: Path) -> None:
    settings = {"model": str(model), "max_tokens": 128, "packs_per_step": 2, "steps": 10_000}
    out = tmp_path / "out"
    code = f"from curator.train.launch import train; train({str(mixture)!r}, {settings!r}, {str(out)!r}, nproc=2)"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    wait_for(partial(has_passed, out, 0), 60)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) != 0
    assert_nobody_holds(out)


@pytest.mark.slow
def test_a_killed_launcher_leaves_no_ranks(mixture: Path, model: Path, tmp_path: Path) -> None:
    settings = {"model": str(model), "max_tokens": 128, "packs_per_step": 2, "steps": 10_000}
    out = tmp_path / "out"
    code = f"from curator.train.launch import train; train({str(mixture)!r}, {settings!r}, {str(out)!r}, nproc=2)"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    wait_for(partial(has_passed, out, 0), 60)
    process.kill()
    process.wait(10)
    assert_nobody_holds(out)


@pytest.mark.slow
def test_a_failing_rank_is_one_line(mixture: Path, model: Path, tmp_path: Path) -> None:
    settings = {"model": str(model), "max_tokens": 128, "learning_rate": 1e30, "warmup_steps": 0, "steps": 5}
    with pytest.raises(CuratorError, match="step 2: loss") as error:
        train(mixture, settings, tmp_path / "out", nproc=2)
    assert "\n" not in error.value.message and error.value.hint


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kills_at_any_moment_change_nothing(worlds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL to the launcher while its ranks are at different steps; the last attempt is left alone."""
    out, straight = worlds / "hunted", worlds / "float32-2"
    config = json.dumps(config_of(worlds).to_json())
    code = (
        "import json, sys; from curator.train.launch import train; from curator.train.config import TrainConfig; "
        f"train({str(worlds / 'mix')!r}, TrainConfig.from_json(json.loads(sys.argv[1])), {str(out)!r}, nproc=2)"
    )
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for step in (0, 3, 8, 13):
        process = subprocess.Popen([sys.executable, "-c", code, config])
        wait_for(partial(has_passed, out, step), 60)
        process.kill()
        process.wait()
    subprocess.run([sys.executable, "-c", code, config], check=True)
    assert (out / "metrics.jsonl").read_bytes() == (straight / "metrics.jsonl").read_bytes()
    for path in (straight / "ledger").iterdir():
        assert path.read_bytes() == (out / "ledger" / path.name).read_bytes()


def has_passed(out: Path, step: int) -> bool:
    return num_lines(out) > step


def num_lines(out: Path) -> int:
    path = out / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for(is_true: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def assert_nobody_holds(out: Path) -> None:
    with hold_lock(out):
        pass


def test_two_runs_do_not_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curator.train.guard._LOCK_PATIENCE_SECONDS", 0.3)
    with hold_lock(tmp_path), pytest.raises(CuratorError, match="another process"), hold_lock(tmp_path):
        pass
    with hold_lock(tmp_path):
        pass


def test_the_first_cause_is_told(tmp_path: Path) -> None:
    def report(rank: int, **fields: object) -> None:
        failure = {"message": "m", "hint": None, "expected": False, "traceback": "T", "time": 0.0, **fields}
        (tmp_path / f"rank-{rank}.json").write_text(json.dumps(failure))

    report(0, message="RuntimeError: connection closed", time=1.0)
    assert _failure(tmp_path, tmp_path / "out", 1).message == "rank 0 failed: RuntimeError: connection closed"
    assert (tmp_path / "out" / "errors" / "rank-0.txt").read_text() == "T"
    report(1, message="step 3: loss nan", hint="lower it", expected=True, time=2.0)
    error = _failure(tmp_path, tmp_path / "out", 1)
    assert (error.message, error.hint) == ("step 3: loss nan", "lower it")
    ranks = [{"rank": 1, "exit_code": -9}, {"rank": 0, "exit_code": 1}]
    (tmp_path / "ranks.json").write_text(json.dumps(ranks))
    assert _failure(tmp_path, tmp_path / "out", 1).message == "rank 1 was killed by SIGKILL"


def test_a_rank_reports_and_ends_at_once(tmp_path: Path) -> None:
    code = (
        "from curator.train.guard import report_failures\n"
        "with report_failures():\n    raise ValueError('first line\\nsecond')"
    )
    environment = {**os.environ, "CURATOR_ERRORS": str(tmp_path), "RANK": "3"}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 1
    report = json.loads((tmp_path / "rank-3.json").read_text())
    assert report["message"] == "ValueError: first line" and "second" in report["traceback"]
    with report_failures():
        pass


def test_wrong_settings_never_start_a_process(mixture: Path, model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nproc"):
        train(mixture, {"model": str(model)}, tmp_path / "out", nproc=0)
    with pytest.raises(UsageError, match="unknown key"):
        train(mixture, {"model": str(model), "stepz": 3}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_importing_the_loop_needs_only_the_few() -> None:
    """Every module of ours that comes with the loop imports at its top only what a GPU machine is sure to have."""
    allowed = {"torch", "transformers", "pyarrow", "numpy", "xxhash"} | set(sys.stdlib_module_names)
    waiting, seen = ["curator.train.loop"], set()
    while waiting:
        module = waiting.pop()
        path = ROOT / Path(*module.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        key = path.relative_to(ROOT).as_posix()
        for name in top_imports(path) if key not in seen else ():
            if name.startswith("curator"):
                waiting.append(name)
            else:
                assert name.split(".")[0] in allowed, f"{path} imports {name}"
        seen.add(key)
    assert {"curator/chat/tokenizer.py", "curator/io/dataset.py", "curator/mixture/sampler.py"} <= seen
    assert not [path for path in seen if path.split("/")[1] in ("stages", "engine", "pipeline", "cli")]


def top_imports(path: Path) -> list[str]:
    names = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            own = [name for name in submodules if (ROOT / Path(*name.split("."))).with_suffix(".py").exists()]
            names += own or [node.module]
    return names
