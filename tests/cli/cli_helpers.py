"""What the tests of the command line share: running commands, finding them and their examples, comparing folders."""

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer.main

from curator.cli.app import app, run_app

SLOW = {"curator train"}
"""Not among the examples that are run for everybody: it starts three processes that import torch."""


@dataclass
class Done:
    """One command line that has ended."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The line that begins with `error: `; there must be one, and no traceback."""
        assert "Traceback" not in self.err, self.err
        return self._line("error: ")

    @property
    def hint(self) -> str:
        return self._line("hint: ")

    def _line(self, mark: str) -> str:
        lines = [line for line in self.err.splitlines() if line.startswith(mark)]
        assert len(lines) == 1, self.err
        return lines[0].removeprefix(mark)


def curator(*arguments: object) -> Done:
    """Run a command line in this process."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run_app([str(argument) for argument in arguments])
        out.flush()
    return Done(code, out.buffer.getvalue().decode(errors="replace"), err.getvalue())


def curator_line(line: str) -> Done:
    """Run a command line as it would be pasted, in this process."""
    program, *arguments = shlex.split(line)
    assert program == "curator"
    return curator(*arguments)


def bash(script: str, cwd: Path) -> Done:
    """Run a script with `curator` on its PATH and pipefail set."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["bash", "-c", f"set -o pipefail\n{script}"]
    done = subprocess.run(command, cwd=cwd, env={**os.environ, "PATH": path}, capture_output=True)
    return Done(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode())


def commands() -> list[tuple[str, Any]]:
    """Every command by its full name, in the order of the help."""

    def below(name: str, command: Any) -> list[tuple[str, Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            return [(name, command)]
        return [leaf for key, child in inner.items() for leaf in below(f"{name} {key}", child)]

    return below("curator", typer.main.get_command(app))


def examples(command: Any) -> list[str]:
    """The command lines that its help offers for pasting."""
    return re.findall(r"^\s*Example: (curator .+)$", command.help or "", re.MULTILINE)


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder with its time of change and bytes."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
