"""curator sample"""

from typing import Annotated

import typer

from curator.cli.options import Inputs, Json, Out, Overwrite, Workers

app = typer.Typer()


@app.command("sample")
def sample_command(
    inputs: Inputs,
    rows: Annotated[int, typer.Option("-n", "--rows", help="How many records.")],
    seed: Annotated[int, typer.Option(help="Another seed gives another sample.")] = 0,
    out: Out = None,
    json: Json = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Take a fixed number of records at random; the same ids and seed give the same sample.

    Example: curator sample d/clean -n 100 --out d/sample
    """
    from curator.cli.common import run_stage

    run_stage("sample", {"rows": rows, "seed": seed}, inputs, out, json, workers, overwrite)
