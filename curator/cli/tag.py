"""curator tag signals | tokens | metadata"""

from pathlib import Path
from typing import Annotated

import typer

from curator.cli.options import Inputs, Json, Memo, Out, Overwrite, Workers

app = typer.Typer(no_args_is_help=True, help="Add scores and metadata to records; nothing is removed.")


@app.command("signals")
def tag_signals(
    inputs: Inputs,
    out: Out = None,
    json: Json = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Count turns, words and characters; find code, mathematics, tool use, traces and refusals.

    Example: curator tag signals d/tutor --out d/tagged
    """
    from curator.cli.common import run_stage

    run_stage("tag.signals", {}, inputs, out, json, workers, overwrite)


@app.command("tokens")
def tag_tokens(
    inputs: Inputs,
    tokenizer: Annotated[str, typer.Option(help="Model folder with tokenizer and chat template.")],
    out: Out = None,
    json: Json = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
    memo: Memo = None,
) -> None:
    """Count tokens of prompt, response and reasoning, and those that carry loss under the chat template.

    Example: curator tag tokens d/tagged --tokenizer sample_data/tiny-model --out d/counted
    """
    from curator.cli.common import run_stage

    run_stage("tag.tokens", {"tokenizer": tokenizer}, inputs, out, json, workers, overwrite, memo)


@app.command("metadata")
def tag_metadata(
    inputs: Inputs,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="field=expression, for example domain=\"'devops'\".")
    ] = None,
    where: Annotated[str | None, typer.Option(help="Only records for which this is true.")] = None,
    join: Annotated[Path | None, typer.Option(help="CSV file with the column --on and metadata fields.")] = None,
    on: Annotated[str, typer.Option(help="Column to join on: id, or a metadata field such as original_id.")] = "id",
    out: Out = None,
    json: Json = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Set metadata fields by rule, or from a side file.

    Example: curator tag metadata d/counted --set topic="if(scores.has_code.value, 'code', 'text')" --out d/labelled
    """
    from curator.cli.common import pairs, run_stage

    settings = {"set": pairs(set_, "--set"), "where": where, "join": None if join is None else str(join), "on": on}
    run_stage("tag.metadata", settings, inputs, out, json, workers, overwrite)
