"""A rank among processes: one run a folder, no orphans, and failures that arrive as a line."""

import contextlib
import fcntl
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from curator.errors import CuratorError

ERRORS_VARIABLE = "CURATOR_ERRORS"
"""Environment variable: the folder where ranks leave how they failed."""
PARENT_VARIABLE = "CURATOR_PARENT"
"""Environment variable: the process that started this one, without which it must not go on. Whoever starts `curator
train` as a part of something larger may set it too."""

LOCK = ".lock"
_LOCK_PATIENCE_SECONDS = 15.0


@contextlib.contextmanager
def hold_lock(out: Path) -> Iterator[None]:
    """Hold the run folder. Raises CuratorError when another process keeps holding it.

    Waits a while first: ranks of a run whose launcher was killed need a moment to notice.
    """
    out.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(out / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + _LOCK_PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise CuratorError(
                    f"{out} is being trained into by another process",
                    hint="wait for it to end, or choose another --out",
                ) from None
            time.sleep(0.2)
    try:
        yield
    finally:
        os.close(descriptor)


def watch_parent() -> None:
    """End this process soon after the one that started it is gone, so that a killed launcher leaves no ranks."""
    parent = int(os.environ.get(PARENT_VARIABLE, os.getppid()))

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        # SIGTERM, because torchrun's agent then ends its own ranks; a rank has nothing to tidy.
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def report_failures() -> Iterator[None]:
    """Leave how this rank failed where the launcher finds it, and end the process at once.

    At once, because an orderly end would wait for ranks that are waiting for this one.
    """
    try:
        yield
    except Exception as error:
        _write_failure(error)
        if ERRORS_VARIABLE not in os.environ:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _write_failure(error: Exception) -> None:
    folder = os.environ.get(ERRORS_VARIABLE)
    if folder is None:
        return
    failure: dict[str, Any]
    if isinstance(error, CuratorError):
        failure = {"message": error.message, "hint": error.hint, "expected": True}
    else:
        failure = {
            "message": f"{type(error).__name__}: {error}".splitlines()[0],
            "hint": None,
            "expected": False,
            "traceback": traceback.format_exc(),
        }
    failure["time"] = time.time()
    rank = os.environ.get("RANK", "0")
    temporary = Path(folder) / f".tmp-rank-{rank}.json"
    temporary.write_text(json.dumps(failure))
    temporary.rename(Path(folder) / f"rank-{rank}.json")
