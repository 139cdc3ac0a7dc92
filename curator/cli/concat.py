"""curator concat"""

import typer

from curator.cli.options import Inputs, Json, Out, Overwrite, Workers

app = typer.Typer()


@app.command("concat")
def concat_command(
    inputs: Inputs, out: Out = None, json: Json = False, workers: Workers = None, overwrite: Overwrite = False
) -> None:
    """Join folders into one, under the union of their columns.

    Example: curator concat work/quickstart/sources/tutor work/quickstart/sources/agents --out d/both
    """
    from curator.cli.common import run_stage

    run_stage("concat", {}, inputs, out, json, workers, overwrite)
