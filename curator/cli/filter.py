"""curator filter where"""

from typing import Annotated

import typer

from curator.cli.options import Input, Json, Out, Overwrite, Rejects, Workers

app = typer.Typer(no_args_is_help=True, help="Remove records by rule; each says by which.")


@app.command("where")
def filter_where(
    folder: Input,
    expression: Annotated[str, typer.Argument(help="SQL expression over a record's columns, true for rows to keep.")],
    null: Annotated[str, typer.Option(help="Records for which it is null: drop, keep or error.")] = "drop",
    out: Out = None,
    rejects: Rejects = None,
    json: Json = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Keep the records for which an expression is true.

    Example: curator filter where d/exact "scores.num_response_tokens.value < 400" --out d/clean
    """
    from curator.cli.common import run_stage

    settings = {"expression": expression, "null": null}
    run_stage("filter.where", settings, [folder], out, json, workers, overwrite, rejects=rejects)
