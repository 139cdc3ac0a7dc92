"""Commands in this process or in their own, and a workplace in which the examples of the help texts have been run."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
import typer.main

from curator.cli.app import app, run_app

ROOT = Path(__file__).parents[2]


@dataclass
class Done:
    """One command line that has ended."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The line that begins with `error: `; there must be one."""
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, self.err
        return lines[0].removeprefix("error: ")

    @property
    def hint(self) -> str:
        lines = [line for line in self.err.splitlines() if line.startswith("hint: ")]
        assert len(lines) == 1, self.err
        return lines[0].removeprefix("hint: ")


Cli = Callable[..., Done]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    """Run a command line in this process; records on stdout are refused, use `shell` for pipes."""

    def run(*arguments: object) -> Done:
        capfd.readouterr()
        code = run_app([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Done(code, captured.out, captured.err)

    return run


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.fixture
def shell() -> Cli:
    """Run a bash script with `curator` on its PATH and pipefail set."""

    def run(script: str, cwd: Path) -> Done:
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail\n{script}"], cwd=cwd, env=environment(), capture_output=True
        )
        return Done(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode())

    return run


def commands() -> list[tuple[str, click.Command]]:
    """Every command by its full name, in the order of the help."""

    def below(name: str, command: click.Command) -> list[tuple[str, click.Command]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            return [(name, command)]
        return [leaf for key, child in inner.items() for leaf in below(f"{name} {key}", child)]

    return below("curator", typer.main.get_command(app))


def examples(command: click.Command) -> list[str]:
    return re.findall(r"^\s*Example: (curator .+)$", command.help or "", re.MULTILINE)


def shorten(recipe: Path) -> None:
    """Training in the examples shows that it works; its length shows nothing more."""
    text = re.sub(r"^( *)steps: \d+$", r"\1steps: 2", recipe.read_text(), flags=re.MULTILINE)
    text = re.sub(r"^ *(save|eval)_every:.*\n", "", text, flags=re.MULTILINE)
    recipe.write_text(re.sub(r"^( *)nproc: 2$", r"\1nproc: 1", text, flags=re.MULTILINE))


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sample_data and recipes, as a clone has them; training is two steps long."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "sample_data").symlink_to(ROOT / "sample_data")
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    for recipe in (folder / "recipes").glob("*.yaml"):
        shorten(recipe)
    return folder


@pytest.fixture(scope="session")
def example_runs(workplace: Path) -> dict[str, Done]:
    """Every command's example, run one after the other as a person would paste them."""
    results = {}
    for name, command in commands():
        for line in examples(command):
            done = subprocess.run(
                ["bash", "-c", line], cwd=workplace, env=environment(), capture_output=True, text=True
            )
            results[name] = Done(done.returncode, done.stdout, done.stderr)
    return results


@pytest.fixture
def at_work(workplace: Path, example_runs: dict[str, Done]) -> object:
    """The workplace as working directory, with the folders that the examples left: d/tutor to d/mix, work/quickstart."""
    with chdir(workplace):
        yield workplace


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `raw.jsonl` (60 rows), and `d`, the same in four shards."""
    folder = tmp_path_factory.mktemp("small")
    rows = [
        f'{{"instruction": "Say {index} in words.", "input": "", "output": "{"word " * (index % 7 + 1)}{index}"}}'
        for index in range(60)
    ]
    (folder / "raw.jsonl").write_text("\n".join(rows) + "\n")
    code = run_app(
        ["ingest", str(folder / "raw.jsonl"), "--shard-bytes", "1300", "--out", str(folder / "d"), "--workers", "1"]
    )
    assert code == 0
    assert len(list((folder / "d/data").iterdir())) == 4
    return folder


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder with its time of change and bytes."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


__all__: Sequence[str] = ()
