"""What people read: everything here goes to stderr, never to stdout."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Protocol


def info(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    print(f"warning: {printable(text)}", file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """Text of the data on one line: control characters are shown, never sent to the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


class Progress(Protocol):
    """A long part as it goes on."""

    def advance(self, amount: float = 1) -> None: ...


class _Lines:
    """Progress where there is no terminal: one line at the start, at each tenth (ten seconds apart), at the end."""

    def __init__(self, total: float, label: str, unit: str) -> None:
        self.total, self.label, self.unit = total, label, unit
        self.done = 0.0
        self.last_time = time.monotonic()

    def advance(self, amount: float = 1) -> None:
        self.done += amount
        now = time.monotonic()
        if now - self.last_time >= 10 and self.done < self.total:
            info(f"{self.label}: {self.done:,.0f} of {self.total:,.0f} {self.unit}")
            self.last_time = now


@contextmanager
def progress(total: float, label: str, unit: str) -> Iterator[Progress]:
    """Show a bar on a terminal, sparse lines elsewhere. `total` counts `unit`s (rows, bytes, steps)."""
    if not sys.stderr.isatty() or find_spec("rich") is None:
        yield _Lines(total, label, unit)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task(label, total=total)

        class _Bar:
            def advance(self, amount: float = 1) -> None:
                bar.advance(task, amount)

        yield _Bar()
