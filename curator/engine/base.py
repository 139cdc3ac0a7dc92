"""What runs work: a list of independent tasks goes in, results come out as they finish."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

Report = Callable[[float], None]
"""Called by a task with the amount of work done since the last call, in the unit of the pass (bytes or rows)."""


class Task(Protocol):
    """A piece of work that can be pickled, run anywhere and run again: it must write only files of its own name."""

    @property
    def name(self) -> str: ...

    @property
    def label(self) -> str:
        """What it works on, for messages to people."""
        ...

    def run(self, report: Report) -> Any: ...


class Engine(Protocol):
    """Runs tasks; yields `(task, result)` in the order they finish.

    When tasks fail the others are still finished, then a CuratorError names what failed.
    """

    def run(self, tasks: Sequence[Task], report: Report) -> Iterator[tuple[Task, Any]]: ...
