"""Tasks that succeed, fail and die, importable by spawned workers."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curator.engine.base import Report
from curator.errors import CuratorError, UsageError


class StubbornError(Exception):
    """Cannot be pickled: it holds a lock and wants two arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__("stubborn")
        self.one, self.two = one, (lambda: two)


@dataclass(frozen=True)
class DoTask:
    """Does one thing by name, and leaves a file named for itself first."""

    number: int
    folder: Path
    what: str = "work"

    @property
    def name(self) -> str:
        return f"{self.number:05d}"

    @property
    def label(self) -> str:
        return f"shard {self.number}"

    def run(self, report: Report) -> Any:
        (self.folder / self.name).write_text(str(os.getpid()))
        report(1.5)
        match self.what:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "abort":
                os.kill(os.getpid(), signal.SIGABRT)
            case "exit":
                os._exit(7)
            case "error":
                raise CuratorError("the shard is bad", hint="mend it")
            case "usage":
                raise UsageError("wrong setting")
            case "bug":
                raise KeyError("nothing")
            case "stubborn":
                raise StubbornError(1, 2)
            case "memory":
                raise MemoryError
            case "disk":
                raise OSError(28, "No space left on device", str(self.folder / "f"))
            case "denied":
                raise PermissionError(13, "Permission denied", str(self.folder / "f"))
            case "unpicklable":
                return lambda: None
            case "pid":
                return os.getpid()
        report(0.5)
        return self.number * 10
