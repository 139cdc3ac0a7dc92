"""Tasks on this machine: spawned workers, watched one by one, so that a dead one is named and never waited for."""

import contextlib
import gc
import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from curator import log
from curator.engine.base import Engine, Report, Task
from curator.errors import CuratorError, PartialError, UsageError

_STOP_SECONDS = 5.0
_SHOWN_FAILURES = 5


def default_workers() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def relax_gc() -> None:
    """Batches hold many thousand small objects without cycles; collecting at the default rate costs a third of
    ingest."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


def engine_for(workers: int | None, amount: float, worth: float, in_kernels: bool = False) -> Engine:
    """As many workers as asked; when nobody asked, one for work below `worth`: two spawned processes take a second.

    Threads where the work is in kernels.
    """
    engine = LocalEngine(1 if workers is None and amount < worth else workers)
    if in_kernels and engine.workers > 1:
        from curator.engine.threads import ThreadEngine

        return ThreadEngine(engine.workers)
    return engine


class LocalEngine:
    """Runs tasks in `workers` processes, or in this one when one worker (or one task) is enough."""

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise UsageError(f"--workers {workers}", hint="at least 1")
        self.workers = workers or default_workers()

    def run(self, tasks: Sequence[Task], report: Report) -> Iterator[tuple[Task, Any]]:
        if min(self.workers, len(tasks)) <= 1:
            relax_gc()
            yield from _run_here(tasks, report)
        else:
            yield from _run_in_processes(tasks, report, min(self.workers, len(tasks)))


def _run_here(tasks: Sequence[Task], report: Report) -> Iterator[tuple[Task, Any]]:
    failures: list[tuple[Task, CuratorError]] = []
    done = 0
    for task in tasks:
        kind, value = attempt(task, report)
        if kind == "error":
            failures.append((task, value))
            if is_disk_full(value):
                break
        else:
            done += 1
            yield task, value
    if failures:
        raise failure(failures, done)


def attempt(task: Task, report: Report) -> tuple[str, Any]:
    """("result", value), or ("error", what a person can do about it)."""
    try:
        return "result", task.run(report)
    except CuratorError as error:
        return "error", error
    except MemoryError:
        return "error", CuratorError("out of memory", hint="try --workers 1; finished shards are kept")
    except OSError as error:
        return "error", disk_error(error)
    except Exception as error:
        detail = traceback.format_exc(limit=-3)
        return "error", CuratorError(f"{type(error).__name__}: {error}", hint=f"a bug; where:\n{detail}")


class _Worker:
    """One spawned process and the task it has."""

    def __init__(self, context: multiprocessing.context.SpawnContext) -> None:
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        # Ctrl-C goes to the whole group, but the parent ends the workers itself: they inherit a blocked signal. The
        # tracker, which would unblock it, is started before.
        resource_tracker.ensure_running()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        theirs.close()
        self.task: Task | None = None
        self.surroundings = _surroundings()

    def give(self, task: Task) -> None:
        self.task = task
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has died: its sentinel tells
            self.connection.send(task)

    def stop(self) -> None:
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(_STOP_SECONDS)
            if self.process.is_alive():
                self.process.kill()
        self.process.join()
        self.connection.close()


def _surroundings() -> tuple[str, dict[str, str]]:
    """What a spawned process inherits and a task may depend on."""
    return os.getcwd(), dict(os.environ)


_spare: list[_Worker] = []
"""Idle workers of an earlier run in this process: a recipe has many passes, and a start costs a second of two cores."""


def _hire(context: multiprocessing.context.SpawnContext) -> _Worker:
    """A spare worker that is alive and was started in the same surroundings, or a new one."""
    while _spare:
        worker = _spare.pop()
        if worker.process.is_alive() and worker.surroundings == _surroundings():
            return worker
        worker.stop()
    return _Worker(context)


def _run_in_processes(tasks: Sequence[Task], report: Report, workers: int) -> Iterator[tuple[Task, Any]]:
    context = multiprocessing.get_context("spawn")
    waiting = deque(tasks)
    failures: list[tuple[Task, CuratorError]] = []
    done = 0
    pool = [_hire(context) for _ in range(workers)]
    try:
        for worker in pool:
            worker.give(waiting.popleft())
        while any(worker.task for worker in pool):
            # A process that dies closes its pipe, so waiting on pipes and sentinels together can never hang.
            busy = [worker for worker in pool if worker.task]
            ready = set(wait([item for worker in busy for item in (worker.connection, worker.process.sentinel)]))
            for worker in busy:
                if worker.connection not in ready and worker.process.sentinel not in ready:
                    continue
                assert worker.task is not None
                try:
                    kind, value = worker.connection.recv()
                except (EOFError, OSError):
                    worker.process.join()
                    failures.append((worker.task, _death(worker)))
                    worker.task = None
                    if waiting:
                        pool[pool.index(worker)] = fresh = _Worker(context)
                        fresh.give(waiting.popleft())
                    worker.stop()
                    continue
                if kind == "progress":
                    report(value)
                    continue
                task, worker.task = worker.task, None
                if kind == "error":
                    failures.append((task, value))
                    if is_disk_full(value):
                        waiting.clear()
                elif kind == "result":
                    done += 1
                    yield task, value
                if waiting:
                    worker.give(waiting.popleft())
        _spare.extend(pool)
        pool = []
    finally:
        # Not empty after an interruption, or when nobody took the results.
        for worker in pool:
            worker.stop()
    if failures:
        raise failure(failures, done)


def _death(worker: _Worker) -> CuratorError:
    code = worker.process.exitcode or 0
    if code == -signal.SIGKILL:
        how, hint = (
            "was killed (signal 9)",
            "often the system is out of memory: try --workers 1; finished shards are kept",
        )
    elif code < 0:
        how, hint = f"died of {signal.Signals(-code).name}", "finished shards are kept; run the same command to go on"
    else:
        how, hint = f"ended with exit code {code}", "finished shards are kept; run the same command to go on"
    assert worker.task is not None
    return CuratorError(f"the worker on {worker.task.label} {how}", hint=hint)


def failure(failures: list[tuple[Task, CuratorError]], done: int) -> CuratorError:
    task, first = failures[0]
    message = first.message
    if task.label not in message and not isinstance(first, _DiskFullError):
        message = f"{task.label}: {message}"
    if len(failures) > 1:
        for other, error in failures[1 : 1 + _SHOWN_FAILURES]:
            log.warn(f"{other.label}: {error.message}")
        message += f" (and {len(failures) - 1} more failed)"
    kind = PartialError if done else type(first)
    return kind(message, first.hint or "finished shards are kept; run the same command to go on")


def _work(connection: Connection) -> None:
    """The life of a worker: tasks come through the pipe until it closes."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    relax_gc()

    def report(amount: float) -> None:
        connection.send(("progress", amount))

    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        message = attempt(task, report)
        try:
            connection.send(message)
        except (BrokenPipeError, OSError):
            return


def _end_with_parent() -> None:
    """A worker whose parent was killed must not go on writing beside the next run."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


class _DiskFullError(CuratorError):
    """Every other task would meet it too."""


def is_disk_full(error: CuratorError) -> bool:
    return isinstance(error, _DiskFullError)


def disk_error(error: OSError) -> CuratorError:
    """An operating-system error as a person can act on it."""
    import errno

    place = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _DiskFullError(
            f"{place}no space left on the disk", hint="make room and run the same command; finished shards are kept"
        )
    if error.errno == errno.EROFS:
        return CuratorError(f"{place}the file system is read-only", hint="choose another --out")
    if error.errno in (errno.EACCES, errno.EPERM):
        return CuratorError(f"{place}permission denied", hint="check who owns the folder")
    if error.errno == errno.ENOENT:
        return CuratorError(f"{place}no such file or folder", hint=f"looked in {os.getcwd()}")
    return CuratorError(f"{place}{error.strerror or error}", hint="an error of the operating system")
