"""How many raw rows of a source may be bad before its run stops."""

import re
from dataclasses import dataclass
from fractions import Fraction

from curator.errors import UsageError

DEFAULT_GATE = "1%"


@dataclass(frozen=True)
class Gate:
    """A share of the rows that were read (0 to 1, exact), or a number of rows."""

    share: Fraction | None
    count: int = 0

    @classmethod
    def parse(cls, text: str | int) -> "Gate":
        """From `1%`, `0.5%`, `50` or `0`. Raises UsageError."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%|(\d+)", str(text).strip())
        if match is None or (match[1] and float(match[1]) > 100):
            raise UsageError(f"max_quarantine {text!r}", hint="a share such as 1%, or a number of rows such as 50")
        return cls(Fraction(match[1]) / 100) if match[1] else cls(None, int(match[2]))

    def allows(self, bad: int, read: int) -> bool:
        """Whether the run may go on. One bad row passes any share above 0, or a small file could have none."""
        if self.share is None:
            return bad <= self.count
        return bad <= self.share * read or (bad == 1 and self.share > 0)

    def allows_unclear(self, bad: int, read: int) -> bool:
        """The same for rows that nothing is wrong with but their reading is open: no row passes for being alone."""
        return bad <= (self.count if self.share is None else self.share * read)

    def __str__(self) -> str:
        return f"{self.count:,} rows" if self.share is None else f"{float(self.share * 100):g}%"


def wide_enough(bad: int, read: int) -> str:
    """The smallest whole percentage that lets this many rows pass."""
    return f"{-(-bad * 100 // read)}%"
