"""Ctrl-C and a polite kill: whole shards stay, exit code 130, no worker is left, the same command goes on."""

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from kill_helpers import Small, contents, finish, run, start, write_rows


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough rows for some seconds of work, and what an undisturbed ingest makes of them."""
    root = tmp_path_factory.mktemp("interrupts")
    write_rows(root / "raw.jsonl", 12_000_000)
    run("ingest", root / "raw.jsonl", "--shard-bytes", 500_000, "--out", root / "reference", "--workers", 1)
    return root


def wait_for_shards(out: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(list(out.glob(".partial/task-*.json"))) < count:
        assert time.monotonic() < deadline, "no shard was finished"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "workers", "whole_group"),
    [(signal.SIGINT, 1, True), (signal.SIGINT, 2, True), (signal.SIGTERM, 2, False), (signal.SIGHUP, 1, False)],
)
def test_interrupted_run_keeps_whole_shards(
    number: signal.Signals, workers: int, whole_group: bool, raw: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    line = ("ingest", raw / "raw.jsonl", "--shard-bytes", 500_000, "--out", out)
    process = start(*line, "--workers", workers)
    wait_for_shards(out, 2)
    workers_of_it = psutil.Process(process.pid).children(recursive=True)
    started = time.monotonic()
    (os.killpg if whole_group else os.kill)(process.pid, number)
    code, err = finish(process)
    assert code == 130
    assert time.monotonic() - started < 10
    assert err.endswith("interrupted: what was finished is kept; the same command goes on from there\n")
    assert "Traceback" not in err
    _, alive = psutil.wait_procs(workers_of_it, timeout=5)
    assert not alive
    assert not (out / "manifest.json").exists()
    kept = {path.name: path.read_bytes() for path in (out / "data").iterdir()}
    assert len(kept) >= 2
    for name, data in kept.items():
        assert data == (raw / "reference/data" / name).read_bytes()
    before = {name: (out / "data" / name).stat().st_mtime_ns for name in kept}
    run(*line, "--workers", 1)
    assert contents(out) == contents(raw / "reference")
    recorded = len([name for name in before if (out / "data" / name).stat().st_mtime_ns == before[name]])
    assert recorded >= 2, "finished shards were written again"


@pytest.mark.slow
def test_second_ctrl_c_ends_at_once(raw: Path, tmp_path: Path) -> None:
    line = ("ingest", raw / "raw.jsonl", "--shard-bytes", 500_000, "--out", tmp_path / "out")
    process = start(*line, "--workers", 2)
    wait_for_shards(tmp_path / "out", 1)
    for _ in range(2):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.02)
    started = time.monotonic()
    code, _ = finish(process)
    assert code in (130, -signal.SIGINT)
    assert time.monotonic() - started < 5
    run(*line, "--workers", 1)
    assert contents(tmp_path / "out") == contents(raw / "reference")


def test_two_processes_on_one_folder(small: Small, tmp_path: Path) -> None:
    line = (*small.lines["tag"], "--out", tmp_path / "out", "--workers", 1)
    both = [start(*line), start(*line)]
    ends = [finish(process) for process in both]
    # Whoever comes second finds the folder locked, or complete.
    assert 0 in [code for code, _ in ends]
    for code, err in ends:
        assert code == 0 or (code == 1 and "is being written by another process" in err and "hint: " in err)
    assert contents(tmp_path / "out") == contents(small.reference("tag"))
