"""curator mix"""

from pathlib import Path
from typing import Annotated

import typer

from curator.cli.options import Inputs, Json, NeededOut, Overwrite, Workers

app = typer.Typer()


@app.command("mix")
def mix_command(
    inputs: Inputs,
    out: NeededOut,
    spec: Annotated[
        Path | None, typer.Option(help="YAML file: budget, weights, splits, phases. Default: every record once.")
    ] = None,
    json: Json = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Make the mixture that training reads: rows once, splits, and the order; prints asked and realised shares.

    Example: curator mix d/clean --spec recipes/mix.yaml --out d/mix
    """
    import json as json_module

    from curator.cli.render import print_mixture, print_outcome
    from curator.mixture.spec import MixSpec
    from curator.pipeline.mix import mix
    from curator.pipeline.passes import Options
    from curator.pipeline.pipes import as_folders

    wanted = MixSpec() if spec is None else MixSpec.from_file(spec)
    with as_folders(inputs) as folders:
        outcome = mix(folders, wanted, out, Options(workers, overwrite))
    if not json:
        print_mixture(json_module.loads((out / "mixture.json").read_bytes()))
    print_outcome(outcome, json)
