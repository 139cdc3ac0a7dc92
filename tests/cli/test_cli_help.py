"""What a stranger meets first: help with an example that can be pasted, few options, a quick start."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import SLOW, Done, commands, curator, curator_line, examples

COMMON = {"out", "json", "workers", "overwrite", "memo", "rejects", "dry_run", "help"}
NAMES = [name for name, _ in commands()]


@pytest.mark.parametrize(("name", "command"), commands(), ids=NAMES)
def test_help_has_one_example_and_few_options(name: str, command: Any) -> None:
    lines = examples(command)
    assert len(lines) == 1, f"{name} has no line 'Example: curator ...'"
    assert f"{lines[0]} ".startswith(f"{name} ")
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    # A hidden one is a recipe's key that a script may give; the help does not offer it.
    assert len({option.name for option in options if not option.hidden} - COMMON) <= 8
    assert all(option.help for option in options)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SLOW])
def test_example_runs_after_those_before_it(name: str, example_runs: dict[str, Done]) -> None:
    done = example_runs[name]
    assert done.code == 0, done.err
    assert done.out


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SLOW))
def test_slow_example_runs(name: str, at_work: Path) -> None:
    (line,) = examples(dict(commands())[name])
    done = curator_line(line)
    assert done.code == 0, done.err
    assert done.out


def test_version() -> None:
    done = curator("--version")
    assert (done.code, done.out) == (0, "curator 0.1.0\n")


def test_help_is_light() -> None:
    code = """
import io, json, pkgutil, sys
from contextlib import redirect_stdout
import curator.cli
from curator.cli.app import run_app
with redirect_stdout(io.StringIO()):
    assert run_app(["--help"]) == 0
    assert run_app(["tag", "tokens", "--help"]) == 0
for module in pkgutil.iter_modules(curator.cli.__path__):
    __import__(f"curator.cli.{module.name}")
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"pyarrow", "torch", "numpy", "numba", "duckdb", "polars", "transformers", "tokenizers", "yaml", "msgspec"}
    assert heavy.isdisjoint(json.loads(done.stdout))
