"""The two shapes of a stage, and what a stage may do: add columns, or mark rows to drop. It never removes rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import pyarrow as pa

Columns = Mapping[str, pa.Array]
"""New columns of a batch by dotted path (`scores.num_turns`, `metadata.domain`, `drop`), as long as the batch."""
RowFunction = Callable[[pa.RecordBatch], Columns]
RoundFunction = Callable[..., pa.Table]


@dataclass(frozen=True)
class Stage:
    """What both shapes share. A stage is a frozen dataclass of its settings; subclasses name themselves."""

    name: ClassVar[str]
    """As in a recipe: `tag.signals`."""
    version: ClassVar[str] = "1"
    """Raised whenever the same input would give another output."""
    decides: ClassVar[bool] = False
    """Whether it sets `drop`. Steps that decide and steps that score never share a pass."""
    in_kernels: ClassVar[bool] = False
    """Whether its work is in kernels and Arrow, which release the interpreter: threads then do instead of processes."""
    stores_rejects: ClassVar[bool] = True
    """False only where dropped rows carry no information (a sample): they are counted, not written."""

    def settings(self) -> dict[str, Any]:
        """What its output depends on besides the rows, as plain JSON; part of the folder's fingerprint."""
        return asdict(self)

    def describe(self) -> dict[str, Any]:
        return {"step": self.name, "version": self.version, "settings": self.settings()}

    def reads(self, schema: pa.Schema) -> Sequence[str]:
        """Dotted paths of the columns it looks at."""
        raise NotImplementedError(self.name)

    def writes(self, schema: pa.Schema) -> Mapping[str, pa.DataType]:
        """Dotted paths of the columns it adds or replaces, with their types; `drop` may be among them."""
        raise NotImplementedError(self.name)

    def prepare(self, schema: pa.Schema) -> None:
        """Check settings against the input's schema before any work. Raises CuratorError."""


@dataclass(frozen=True)
class RowStage(Stage):
    """Looks at each batch on its own."""

    costly: ClassVar[bool] = False
    """Worth memoising under `--memo`: results are kept by content; it may then read content columns only."""

    def open(self) -> RowFunction:
        """Load what is needed, once a worker; the function gives the new columns of a batch."""
        raise NotImplementedError(self.name)


@dataclass(frozen=True)
class Scan:
    """A round over batches of rows: `function(stage, batch, first_row)` -> a small table with a `row` column.

    With `rows`, over the rows that an earlier round asked for, and nothing else is handed out:
    `function(stage, batch, asked)`, where `asked` is that round's table at these rows, line by line.
    """

    function: Callable[[Any, pa.RecordBatch, Any], pa.Table]
    reads: Sequence[str]
    rows: RoundFunction | None = None
    """The function of the earlier round, whose table must have one line a row, or None for all rows."""


@dataclass(frozen=True)
class Reduce:
    """A round over tables of earlier rounds: `function(stage, *tables)`, each table sorted by `row` (that of a round
    with `each`: column after column).

    In one call with everything, unless `by` or `each` divide the first of the tables:
    `by` names a column (fixed-size binary or int64); equal values of it meet in one call. `each` names columns; every
    one gets a call of its own, with that column alone.
    """

    function: RoundFunction
    by: str | None = None
    each: Sequence[str] = ()
    of: Sequence[RoundFunction] = ()
    """The functions of the rounds whose tables it takes; none: the round before."""


@dataclass(frozen=True)
class DatasetStage(Stage):
    """Looks at all rows, in a fixed list of rounds.

    The last round gives decisions: a table with `row` and the columns that `writes` names, one line for each row that
    changes; rows without a line keep what they have.
    """

    in_kernels: ClassVar[bool] = True

    def rounds(self, schema: pa.Schema) -> Sequence[Scan | Reduce]:
        raise NotImplementedError(self.name)

    def warm(self) -> None:
        """Compile the kernels that it will use, or load them from the cache."""


def setting_names(stage: type[Stage]) -> list[str]:
    """The settings of a stage, in order."""
    return [field.name for field in fields(stage)]
