"""What the tests of interruption share: commands in processes that may be killed, folders compared byte for byte."""

import contextlib
import io
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curator.cli.app import run_app

# Every shard is a task of its own, however small; in the command line's own words there is no such setting.
_PROGRAM = "import curator.io.dataset as d; d.GROUP_BYTES = 1; from curator.cli.app import main; main()"


@dataclass(frozen=True)
class Small:
    """Command lines without --out, and the folders that they make."""

    root: Path
    lines: dict[str, tuple[object, ...]]

    def reference(self, name: str) -> Path:
        return self.root / name


def _as_from_a_terminal() -> None:
    """A test run in the background of a shell ignores Ctrl-C, one under nohup hang-ups; its children would, too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def start(*arguments: object, fault: str | None = None, **options: Any) -> "subprocess.Popen[str]":
    """Start a command in a process group of its own, ready for Ctrl-C, stopping at a named fault point if asked."""
    environment = {key: value for key, value in os.environ.items() if key != "CURATOR_FAULT"}
    if fault is not None:
        environment["CURATOR_FAULT"] = fault
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *(str(argument) for argument in arguments)],
        env=environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_as_from_a_terminal,
        **options,
    )


def finish(process: "subprocess.Popen[str]", timeout: float = 120) -> tuple[int, str]:
    """Wait for a process; returns its exit code and what it told people."""
    _, err = process.communicate(timeout=timeout)
    return process.returncode, err


def run(*arguments: object) -> None:
    """Run a command in this process; it must succeed."""
    err = io.StringIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(err):
        code = run_app([str(argument) for argument in arguments])
    assert code == 0, err.getvalue()


def check_fails(folder: Path) -> bool:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return run_app(["check", str(folder)]) == 1


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but what may differ between equal runs."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "timing.json"
    }


def times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "data").iterdir()}


def write_rows(path: Path, size: int) -> None:
    """A JSON-lines file of at least `size` bytes: alpaca rows of seeded words, one in twenty a copy."""
    rng = random.Random(7)
    words = [f"w{number:x}" for number in range(2000)]
    written, number = 0, 0
    line = ""
    with path.open("w") as file:
        while written < size:
            if number % 20 != 19:
                prompt, answer = (" ".join(rng.choices(words, k=rng.randrange(5, 120))) for _ in range(2))
                line = f'{{"instruction": "{prompt}", "input": "", "output": "{answer}"}}\n'
            file.write(line)
            written += len(line)
            number += 1
