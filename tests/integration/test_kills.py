"""Kill -9 at named points and at random moments, then the same command: the bytes of an undisturbed run."""

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from kill_helpers import Small, check_fails, contents, finish, run, start, write_rows

POINTS = ["after_temporary_write:3", "after_rename:2", "before_manifest"]


def assert_unfinished(out: Path) -> None:
    assert not (out / "manifest.json").exists()
    assert check_fails(out)


def every_point() -> list[Any]:
    """Each command at each point; the second after a rename is for everybody where the commands differ most."""
    names = ("ingest", "tag", "dedup", "mix")
    later = {(name, "after_rename:2") for name in ("tag", "mix")}
    return [
        pytest.param(name, fault, marks=[pytest.mark.slow] if (name, fault) in later else [])
        for name in names
        for fault in POINTS
    ]


@pytest.mark.parametrize(("name", "fault"), every_point())
def test_killed_process_goes_on(name: str, fault: str, small: Small, tmp_path: Path) -> None:
    line = (*small.lines[name], "--out", tmp_path / "out", "--workers", 1)
    code, _ = finish(start(*line, fault=fault))
    assert code == -signal.SIGKILL
    assert_unfinished(tmp_path / "out")
    run(*line)
    assert contents(tmp_path / "out") == contents(small.reference(name))


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("ingest", POINTS[0]),
        ("tag", POINTS[1]),
        pytest.param("mix", POINTS[0], marks=pytest.mark.slow),
    ],
)
def test_killed_worker_is_named_and_goes_on(name: str, fault: str, small: Small, tmp_path: Path) -> None:
    line = (*small.lines[name], "--out", tmp_path / "out")
    started = time.monotonic()
    code, err = finish(start(*line, "--workers", 2, fault=fault))
    assert code in (1, 3), err
    assert time.monotonic() - started < 30
    assert "was killed (signal 9)" in err and err.count("error: ") == 1 and "hint: " in err
    assert "Traceback" not in err
    assert_unfinished(tmp_path / "out")
    run(*line, "--workers", 1)
    assert contents(tmp_path / "out") == contents(small.reference(name))


def test_killed_threads_go_on(small: Small, tmp_path: Path) -> None:
    """Dataset stages work in threads: there is no worker that could die alone."""
    line = (*small.lines["dedup"], "--out", tmp_path / "out")
    code, _ = finish(start(*line, "--workers", 2, fault=POINTS[1]))
    assert code == -signal.SIGKILL
    assert_unfinished(tmp_path / "out")
    run(*line, "--workers", 2)
    assert contents(tmp_path / "out") == contents(small.reference("dedup"))


def kill_at_random(line: tuple[object, ...], out: Path, kills: int, longest: float, seed: int) -> None:
    """Kill the whole run `kills` times, each after a random time, then let it end."""
    rng = random.Random(seed)
    for _ in range(kills):
        process = start(*line)
        time.sleep(rng.uniform(0.5, longest))
        # The parent alone: its workers must notice, and not write beside those of the next run.
        os.kill(process.pid, signal.SIGKILL)
        code, err = finish(process)
        assert code in (0, -signal.SIGKILL), err
        if code == 0:
            break
    code, err = finish(start(*line), timeout=600)
    assert code == 0, err
    assert not list(out.rglob(".tmp-*"))


@pytest.mark.parametrize(
    "command", [("dedup", "exact"), pytest.param(("tag", "signals"), marks=pytest.mark.slow)], ids=" ".join
)
def test_kills_at_random_moments(command: tuple[str, str], small: Small, tmp_path: Path) -> None:
    write_rows(tmp_path / "raw.jsonl", 6_000_000)
    run("ingest", tmp_path / "raw.jsonl", "--shard-bytes", 300_000, "--out", tmp_path / "raw", "--workers", 1)
    run(*command, tmp_path / "raw", "--out", tmp_path / "reference", "--workers", 1)
    line = (*command, tmp_path / "raw", "--out", tmp_path / "out", "--workers", 2)
    kill_at_random(line, tmp_path / "out", kills=2, longest=2.0, seed=1)
    assert contents(tmp_path / "out") == contents(tmp_path / "reference")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_kills_of_a_long_run(tmp_path: Path) -> None:
    write_rows(tmp_path / "raw.jsonl", 1_800_000_000)
    ingest = ("ingest", tmp_path / "raw.jsonl", "--shard-bytes", 8 << 20)
    started = time.monotonic()
    code, err = finish(start(*ingest, "--out", tmp_path / "reference", "--workers", 1), timeout=900)
    assert code == 0, err
    seconds = time.monotonic() - started
    assert seconds >= 30, "make the input larger: the kills are to fall into a run of half a minute"
    line = (*ingest, "--out", tmp_path / "out", "--workers", 2)
    kill_at_random(line, tmp_path / "out", kills=10, longest=seconds / 8, seed=2)
    assert contents(tmp_path / "out") == contents(tmp_path / "reference")


@pytest.mark.parametrize("fault", ["before_reopening", "after_temporary_write:1", "after_rename:2", "before_manifest"])
def test_killed_while_it_takes_in_new_files(fault: str, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    for name in "ab":
        write_rows(raw / f"{name}.jsonl", 20_000)
        with (raw / f"{name}.jsonl").open("a") as file:
            file.write(f'{{"instruction": "{name}", "output": "{name}"}}\n')
    line = ("ingest", raw, "--source", "s", "--workers", 1, "--out")
    for out in ("out", "reference"):
        run(*line, tmp_path / out)
    with (raw / "a.jsonl").open("a") as file:
        file.write('{"instruction": "more", "output": "more"}\n')
    write_rows(raw / "c.jsonl", 30_000)
    run(*line, tmp_path / "reference")
    code, _ = finish(start(*line, tmp_path / "out", fault=fault))
    assert code == -signal.SIGKILL
    # Until it is reopened it is the whole folder that it was.
    assert check_fails(tmp_path / "out") == (fault != "before_reopening")
    run(*line, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "reference")
