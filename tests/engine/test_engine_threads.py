"""The thread engine keeps the promises of the local one, in this process."""

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from engine_tasks import DoTask

from curator.engine.base import Report
from curator.engine.local import LocalEngine, engine_for
from curator.engine.threads import ThreadEngine
from curator.errors import CuratorError, PartialError


def run(tasks: list[Any], workers: int = 2) -> tuple[dict[int, Any], CuratorError | None, float]:
    results: dict[int, Any] = {}
    reports: list[float] = []
    try:
        for task, result in ThreadEngine(workers).run(tasks, reports.append):
            results[task.number] = result  # type: ignore[attr-defined]
    except CuratorError as error:
        return results, error, sum(reports)
    return results, None, sum(reports)


def tasks(folder: Path, count: int, **odd: str) -> list[DoTask]:
    return [DoTask(number, folder, odd.get(f"n{number}", "work")) for number in range(count)]


def test_all_results_come_with_their_tasks(tmp_path: Path) -> None:
    assert run(tasks(tmp_path, 5)) == ({number: number * 10 for number in range(5)}, None, 10.0)
    assert run([]) == ({}, None, 0)
    assert run(tasks(tmp_path, 2, n0="pid", n1="pid"))[0] == {0: os.getpid(), 1: os.getpid()}


def test_one_failure_lets_the_others_finish(tmp_path: Path) -> None:
    results, error, _ = run(tasks(tmp_path, 5, n1="error"))
    assert sorted(results) == [0, 2, 3, 4]
    assert isinstance(error, PartialError)
    assert (error.message, error.hint) == ("shard 1: the shard is bad", "mend it")


def test_a_full_disk_ends_the_work_at_once(tmp_path: Path) -> None:
    _, error, _ = run(tasks(tmp_path, 50, n0="disk"), workers=1)
    assert error is not None and "no space left" in error.message
    assert len(list(tmp_path.iterdir())) < 50


@dataclass(frozen=True)
class Odd:
    """Waits for the end of the others, or raises what no task should."""

    number: int
    what: str
    started: threading.Event
    name: str = "odd"
    label: str = "shard odd"

    def run(self, report: Report) -> Any:
        if self.what == "panic":
            raise SystemExit("panic")
        self.started.set()
        while True:
            report(1)


def test_whatever_is_raised_is_named(tmp_path: Path) -> None:
    results, error, _ = run([Odd(0, "panic", threading.Event()), *tasks(tmp_path, 3)[1:]])
    assert sorted(results) == [1, 2]
    assert error is not None and "SystemExit: panic" in error.message


def test_threads_end_when_nobody_takes_the_results(tmp_path: Path) -> None:
    started, before = threading.Event(), threading.active_count()
    engine = ThreadEngine(2).run([*tasks(tmp_path, 1), Odd(1, "endless", started)], lambda _: None)
    next(engine)
    assert started.wait(10)
    engine.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_threads_are_for_kernels_and_more_than_one_worker() -> None:
    assert isinstance(engine_for(2, 10, 100, in_kernels=True), ThreadEngine)
    assert isinstance(engine_for(1, 10, 100, in_kernels=True), LocalEngine)
    assert isinstance(engine_for(None, 10, 100, in_kernels=True), LocalEngine)
    assert isinstance(engine_for(2, 10, 100), LocalEngine)


@pytest.mark.parametrize("workers", [1, 3])
def test_each_task_is_run_once(tmp_path: Path, workers: int) -> None:
    assert sorted(run(tasks(tmp_path, 40), workers)[0]) == list(range(40))
