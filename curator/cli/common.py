"""What every stage command does with its inputs and output."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curator.errors import UsageError

if TYPE_CHECKING:
    from curator.pipeline.passes import Outcome


def run_stage(
    name: str,
    settings: dict[str, Any],
    inputs: Sequence[str],
    out: Path | None,
    as_json: bool,
    workers: int | None,
    overwrite: bool,
    memo: Path | None = None,
    rejects: Path | None = None,
) -> None:
    """A command is a recipe of one step: the same stage, the same pass, the same manifest."""
    from curator.cli.render import print_outcome
    from curator.pipeline.passes import Options, warn_of_surprises
    from curator.pipeline.pipes import run_command
    from curator.stages.catalog import build_stage

    require_sink(out)
    given = {key: value for key, value in settings.items() if value is not None}
    stage = build_stage(name, given, "curator")
    outcome = run_command(inputs, [stage], out, sys.stdout.buffer, rejects, Options(workers, overwrite, memo))
    print_outcome(warn_of_surprises(outcome), as_json)


def require_sink(out: Path | None) -> None:
    """Records go into a folder or a pipe, never onto a terminal."""
    if out is None and sys.stdout.isatty():
        raise UsageError("nowhere to write: stdout is a terminal", hint="--out FOLDER, or pipe into the next command")


def pairs(values: Sequence[str] | None, option: str, separator: str = "=") -> dict[str, str]:
    """`key=value` options as a dictionary."""
    result: dict[str, str] = {}
    for value in values or ():
        key, found, text = value.partition(separator)
        if not found or not key:
            raise UsageError(f"{option} {value}", hint=f"write {option} name{separator}value")
        if key in result:
            raise UsageError(f"{option} names {key} twice")
        result[key] = text
    return result


def mapping(values: Sequence[str] | None) -> dict[str, str]:
    """`--map place=path` options, or YAML files of such pairs, as one dictionary."""
    result: dict[str, str] = {}
    for value in values or ():
        if value.endswith((".yaml", ".yml", ".json")) and "=" not in value:
            more = _mapping_of_file(Path(value))
        else:
            more = pairs([value], "--map")
        for key, text in more.items():
            if key in result:
                raise UsageError(f"--map names {key} twice")
            result[key] = text
    return result


def _mapping_of_file(path: Path) -> dict[str, str]:
    from curator.schema.check import load_yaml

    if not path.is_file():
        raise UsageError(f"--map {path}: no such file", hint=f"looked in {Path.cwd()}")
    try:
        data = load_yaml(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError:
        raise UsageError(f"--map {path}: not text in UTF-8") from None
    if not isinstance(data, dict) or not all(isinstance(text, str) for text in data.values()):
        raise UsageError(f"--map {path}: not pairs of texts", hint="one a line, as prompt: body.question")
    return {str(key): text for key, text in data.items()}


def ingest_notes(outcome: "Outcome") -> None:
    """Say out loud what was detected."""
    if outcome.ledger.quarantined:
        from curator import log

        count = sum(outcome.ledger.quarantined.values())
        reasons = ", ".join(f"{reason} {number:,}" for reason, number in sorted(outcome.ledger.quarantined.items()))
        log.warn(f"{count:,} of {outcome.ledger.read:,} rows are quarantined: {reasons}")
