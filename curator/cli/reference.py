"""The tables of the documentation, from the commands and settings themselves.

python -m curator.cli.reference            writes the command table of README.md and the key tables of recipes/README.md
python -m curator.cli.reference --check    only compares
"""

import ast
import dataclasses
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from curator.cli.app import app

BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"


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


def command_table() -> str:
    """A Markdown table: command, what it does."""
    lines = ["| command | what it does |", "|---|---|"]
    for name, command in commands():
        first = (command.help or "").strip().split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        lines.append(f"| `curator {name}` | {first} |")
    return "\n".join(lines)


def key_tables() -> str:
    """Markdown tables of every key of a recipe: default and meaning, from the dataclasses that read them."""
    from curator.mixture.spec import Budget, MixSpec, Phase, Splits, Weights
    from curator.pipeline.recipe import RecipeFile, Source
    from curator.stages.catalog import STAGES, stage_class
    from curator.train.config import TrainConfig

    parts = [_section("A recipe", RecipeFile), _section("`sources`, each", Source)]
    for name in STAGES:
        stage = stage_class(name)
        if dataclasses.fields(stage):
            parts.append(_section(f"`{name}`", stage))
    settings: list[tuple[str, type]] = [
        ("`mix`", MixSpec),
        ("`mix.budget`", Budget),
        ("`mix.weights`, and of a phase", Weights),
        ("`mix.splits`", Splits),
        ("`mix.phases`, each", Phase),
        ("`train`, beside `nproc` (processes, in a recipe only)", TrainConfig),
    ]
    parts += [_section(title, cls) for title, cls in settings]
    return "\n\n".join(parts)


def _section(title: str, cls: Any) -> str:
    lines = [f"### {title}", "", "| key | default | meaning |", "|---|---|---|"]
    meanings = _meanings(cls)
    for field in dataclasses.fields(cls):
        meaning = meanings.get(field.name, "").replace("|", "\\|")
        lines.append(f"| `{field.name}` | {_default(field)} | {meaning} |")
    return "\n".join(lines)


def _default(field: Any) -> str:
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        return "needed"
    if dataclasses.is_dataclass(value) or value in ([], {}, (), ""):
        return "-"
    if isinstance(value, str):
        return f"`{value}`"
    return f"`{json.dumps(value)}`"


def _meanings(cls: Any) -> dict[str, str]:
    """The text below each field of a dataclass in its source."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for line, after in zip(tree.body, tree.body[1:], strict=False):
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and is_text:
            found[line.target.id] = " ".join(str(after.value.value).split())  # type: ignore[attr-defined]
    return found


def main() -> None:
    stale = []
    for path, text in ((Path("README.md"), command_table()), (Path("recipes/README.md"), key_tables())):
        old = path.read_text()
        before, _, rest = old.partition(BEGIN)
        _, _, after = rest.partition(END)
        new = f"{before}{BEGIN}\n{text}\n{END}{after}"
        if new != old:
            stale.append(str(path))
            if "--check" not in sys.argv:
                path.write_text(new)
    if stale and "--check" in sys.argv:
        sys.exit(f"stale: {', '.join(stale)}; run python -m curator.cli.reference in the root of the clone")


if __name__ == "__main__":
    main()
