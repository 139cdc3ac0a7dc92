"""curator dedup exact"""

from typing import Annotated

import typer

from curator.cli.options import Inputs, Json, Out, Overwrite, Rejects, Workers

app = typer.Typer(no_args_is_help=True, help="Remove duplicates; each says what it duplicates.")


@app.command("exact")
def dedup_exact(
    inputs: Inputs,
    on: Annotated[
        str, typer.Option(help="Selector: prompt, response, conversation, turns, last_user, final_answer, ...")
    ] = "conversation",
    normalise: Annotated[list[str] | None, typer.Option(help="Differences that do not count: case,space.")] = None,
    keep: Annotated[str, typer.Option(help="Who stays: columns in order of preference, nulls last.")] = "id",
    out: Out = None,
    rejects: Rejects = None,
    json: Json = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Of records that are equal in a selector's text, keep one.

    Example: curator dedup exact d/labelled --on conversation --out d/exact
    """
    from curator.cli.common import run_stage

    settings = {
        "on": on,
        "normalise": [word.strip() for text in normalise or [] for word in text.split(",")],
        "keep": keep,
    }
    run_stage("dedup.exact", settings, inputs, out, json, workers, overwrite, rejects=rejects)
