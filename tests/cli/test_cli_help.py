"""What a stranger meets first: help with an example that can be pasted, few options, a quick start."""

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from conftest import Done, commands, examples

COMMON = {"out", "json", "workers", "overwrite", "memo", "rejects", "help"}
CLI = Path(__file__).parents[2] / "curator/cli"


@pytest.mark.parametrize(("name", "command"), commands(), ids=[name for name, _ in commands()])
def test_help_has_one_example_and_few_options(name: str, command: click.Command) -> None:
    lines = examples(command)
    assert len(lines) == 1, f"{name} has no line 'Example: curator ...'"
    assert f"{lines[0]} ".startswith(f"{name} ")
    own = [parameter.name for parameter in command.params if isinstance(parameter, click.Option) or is_option(parameter)]
    assert len(set(own) - COMMON) <= 8, own
    assert all(getattr(parameter, "help", None) for parameter in command.params), "an option without help"


def is_option(parameter: object) -> bool:
    # Typer carries a click of its own.
    return getattr(parameter, "param_type_name", "") == "option"


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_example_runs_after_those_before_it(name: str, example_runs: dict[str, Done]) -> None:
    done = example_runs[name]
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    assert done.out or name in ("curator ingest",)


def test_help_is_quick_and_light() -> None:
    code = (
        "import json, pkgutil, sys\n"
        "import curator.cli\n"
        "from curator.cli.app import run_app\n"
        "from contextlib import redirect_stdout\n"
        "import io\n"
        "with redirect_stdout(io.StringIO()):\n"
        "    assert run_app(['--help']) == 0\n"
        "    assert run_app(['tag', 'tokens', '--help']) == 0\n"
        "for module in pkgutil.iter_modules(curator.cli.__path__):\n"
        "    __import__(f'curator.cli.{module.name}')\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"pyarrow", "torch", "numpy", "numba", "duckdb", "polars", "transformers", "tokenizers", "yaml", "msgspec"}
    assert heavy.isdisjoint(json.loads(done.stdout))
