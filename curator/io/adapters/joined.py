"""Fields that were joined into one turn with a blank line between, and cut out of it again."""

import re

from curator.io.adapters.base import Unrestorable

BREAK = "\n\n"
# Every place where a blank line begins, also inside a longer run of line feeds.
_BREAKS = re.compile(r"\n(?=\n)")


def breaks_before(joined: str, size: int) -> int:
    """How many blank lines begin before the one at `size` that joins the first field to the rest."""
    return len(_BREAKS.findall(joined, 0, size + 1)) if "\n" in joined[:size] else 0


def cut(joined: str, breaks: int) -> tuple[str, str]:
    """The first field and the rest: cut at the blank line behind `breaks` others. Raises Unrestorable."""
    for number, match in enumerate(_BREAKS.finditer(joined)):
        if number == breaks:
            return joined[: match.start()], joined[match.start() + len(BREAK) :]
    raise Unrestorable("the user turn has no blank line where its input began")
