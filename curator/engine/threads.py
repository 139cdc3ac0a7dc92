"""Tasks in threads of this process: for work inside kernels and Arrow, which release the interpreter."""

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from curator.engine.base import Report, Task
from curator.engine.local import attempt, failure, is_disk_full, relax_gc
from curator.errors import CuratorError


class _StoppedError(BaseException):
    """Ends a task from within: nobody waits for its result any more."""


class ThreadEngine:
    """Runs tasks in `workers` threads, in the order given. There is nothing to start, and a task's memory is shared."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, tasks: Sequence[Task], report: Report) -> Iterator[tuple[Task, Any]]:
        relax_gc()
        waiting = queue.SimpleQueue[Task]()
        for task in tasks:
            waiting.put(task)
        progress = queue.SimpleQueue[tuple[Task | None, str, Any]]()
        stop = threading.Event()

        def advance(amount: float) -> None:
            if stop.is_set():
                raise _StoppedError
            progress.put((None, "progress", amount))

        def work() -> None:
            while not stop.is_set():
                try:
                    task = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    kind, value = attempt(task, advance)
                except _StoppedError:
                    return
                except BaseException as error:  # whatever it is, somebody waits for an answer
                    kind, value = "error", CuratorError(f"{type(error).__name__}: {error}", hint="a bug")
                progress.put((task, kind, value))

        threads = [threading.Thread(target=work, daemon=True) for _ in range(min(self.workers, len(tasks)))]
        failures: list[tuple[Task, CuratorError]] = []
        done = 0
        try:
            for thread in threads:
                thread.start()
            while done + len(failures) < len(tasks):
                finished, kind, value = progress.get()
                if finished is None:
                    report(value)
                elif kind == "error":
                    failures.append((finished, value))
                    if is_disk_full(value):
                        break
                else:
                    done += 1
                    yield finished, value
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        if failures:
            raise failure(failures, done)
