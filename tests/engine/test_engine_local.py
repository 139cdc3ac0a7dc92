"""The local engine: every task is done or named, with any number of workers, and nothing is waited for in vain."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from engine_tasks import DoTask

from curator.engine.local import LocalEngine, default_workers
from curator.errors import CuratorError, PartialError, UsageError


def run(tasks: list[DoTask], workers: int) -> tuple[dict[int, Any], CuratorError | None, float]:
    """Results by number, the error at the end, and the sum of reports."""
    results: dict[int, Any] = {}
    reports: list[float] = []
    try:
        for task, result in LocalEngine(workers).run(tasks, reports.append):
            results[task.number] = result  # type: ignore[attr-defined]
    except CuratorError as error:
        return results, error, sum(reports)
    return results, None, sum(reports)


def tasks(folder: Path, count: int, **odd: str) -> list[DoTask]:
    return [DoTask(number, folder, odd.get(f"n{number}", "work")) for number in range(count)]


@pytest.mark.parametrize("workers", [1, 2])
def test_all_results_come_with_their_tasks(tmp_path: Path, workers: int) -> None:
    results, error, reported = run(tasks(tmp_path, 5), workers)
    assert results == {number: number * 10 for number in range(5)}
    assert error is None
    assert reported == 10.0


def test_no_tasks_no_work() -> None:
    assert run([], 2) == ({}, None, 0)


def test_one_worker_or_one_task_stays_in_this_process(tmp_path: Path) -> None:
    assert run(tasks(tmp_path, 2, n0="pid", n1="pid"), 1)[0] == {0: os.getpid(), 1: os.getpid()}
    assert run(tasks(tmp_path, 1, n0="pid"), 4)[0] == {0: os.getpid()}


def test_workers_are_processes_that_serve_several_tasks(tmp_path: Path) -> None:
    pids = set(run(tasks(tmp_path, 6, **{f"n{n}": "pid" for n in range(6)}), 2)[0].values())
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= 2


@pytest.mark.parametrize("workers", [1, 2])
def test_one_failure_lets_the_others_finish(tmp_path: Path, workers: int) -> None:
    results, error, _ = run(tasks(tmp_path, 5, n1="error"), workers)
    assert sorted(results) == [0, 2, 3, 4]
    assert isinstance(error, PartialError)
    assert error.exit_code == 3
    assert (error.message, error.hint) == ("shard 1: the shard is bad", "mend it")


@pytest.mark.parametrize("workers", [1, 2])
def test_when_all_fail_the_first_is_told_and_the_others_counted(
    tmp_path: Path, workers: int, capsys: pytest.CaptureFixture[str]
) -> None:
    results, error, _ = run(tasks(tmp_path, 3, n0="usage", n1="usage", n2="usage"), workers)
    assert results == {}
    assert type(error) is UsageError
    assert error.exit_code == 2
    assert error.message.endswith(": wrong setting (and 2 more failed)")
    assert capsys.readouterr().err.count("wrong setting") == 2


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("bug", "shard 1: KeyError: 'nothing'"),
        ("stubborn", "shard 1: StubbornError: stubborn"),
        ("memory", "shard 1: out of memory"),
        ("denied", "shard 1: {folder}/f: permission denied"),
    ],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_any_exception_is_named_with_its_task(tmp_path: Path, workers: int, what: str, message: str) -> None:
    results, error, _ = run(tasks(tmp_path, 3, n1=what), workers)
    assert sorted(results) == [0, 2]
    assert isinstance(error, PartialError)
    assert error.message == message.format(folder=tmp_path)
    assert error.hint


def test_a_bug_shows_where_it_is(tmp_path: Path) -> None:
    _, error, _ = run(tasks(tmp_path, 2, n1="bug"), 1)
    assert error is not None and error.hint is not None
    assert "engine_tasks.py" in error.hint and 'raise KeyError("nothing")' in error.hint


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_ends_the_work_at_once(tmp_path: Path, workers: int) -> None:
    results, error, _ = run(tasks(tmp_path, 30, **{f"n{index}": "disk" for index in range(30)}), workers)
    assert results == {}
    assert error is not None
    # Tasks that were running then may still meet it; none is begun after it.
    message = f"{tmp_path}/f: no space left on the disk"
    assert error.message in (message, *(f"{message} (and {more} more failed)" for more in range(1, workers)))


@pytest.mark.parametrize(
    ("what", "how"),
    [("kill", "was killed (signal 9)"), ("abort", "died of SIGABRT"), ("exit", "ended with exit code 7")],
)
def test_a_dead_worker_is_named_within_seconds_and_the_others_go_on(tmp_path: Path, what: str, how: str) -> None:
    started = time.monotonic()
    results, error, _ = run(tasks(tmp_path, 6, n3=what), 2)
    assert time.monotonic() - started < 30
    assert sorted(results) == [0, 1, 2, 4, 5]
    assert isinstance(error, PartialError)
    assert error.message == f"the worker on shard 3 {how}"
    assert error.hint is not None and "finished shards are kept" in error.hint


def test_when_every_worker_dies_every_task_is_named(tmp_path: Path) -> None:
    results, error, _ = run(tasks(tmp_path, 3, n0="kill", n1="kill", n2="kill"), 2)
    assert results == {}
    assert error is not None and error.exit_code == 1
    assert error.message.endswith("was killed (signal 9) (and 2 more failed)")


def test_a_result_that_cannot_travel_is_named(tmp_path: Path) -> None:
    results, error, _ = run(tasks(tmp_path, 3, n1="unpicklable"), 2)
    assert sorted(results) == [0, 2]
    assert error is not None and "shard 1" in error.message


def test_workers_end_when_nobody_takes_the_results(tmp_path: Path) -> None:
    import multiprocessing

    generator = LocalEngine(2).run(tasks(tmp_path, 6), lambda amount: None)
    next(generator)
    assert multiprocessing.active_children()
    generator.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


def test_workers_must_be_at_least_one() -> None:
    with pytest.raises(UsageError, match="--workers 0"):
        LocalEngine(0)
    assert LocalEngine(None).workers == default_workers() >= 1
