"""The command table of the README, from the commands themselves.

python -m curator.cli.reference README.md          writes the table between its two marks
python -m curator.cli.reference README.md --check  only compares
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from curator.cli.app import app

BEGIN, END = "<!-- commands: begin -->", "<!-- commands: end -->"


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its full name (`tag signals`), in the order of the help."""

    def walk(prefix: str, command: Any) -> Iterator[tuple[str, Any]]:
        if children := getattr(command, "commands", None):
            for name, child in children.items():
                yield from walk(f"{prefix} {name}".strip(), child)
        else:
            yield prefix, command

    yield from walk("", typer.main.get_command(app))


def example(command: Any) -> str | None:
    """The line after `Example:` in a command's help."""
    for line in (command.help or "").splitlines():
        if line.strip().startswith("Example:"):
            return line.strip().removeprefix("Example:").strip()
    return None


def table() -> str:
    """A Markdown table: command, what it does."""
    lines = ["| command | what it does |", "|---|---|"]
    for name, command in commands():
        first = (command.help or "").strip().split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        lines.append(f"| `curator {name}` | {first} |")
    return "\n".join(lines)


def main() -> None:
    path = Path(sys.argv[1])
    text = path.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    new = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    if "--check" in sys.argv:
        if new != text:
            sys.exit(f"{path}: the command table is stale; run python -m curator.cli.reference {path}")
    else:
        path.write_text(new)


if __name__ == "__main__":
    main()
