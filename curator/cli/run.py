"""curator run"""

from pathlib import Path
from typing import Annotated

import typer

from curator.cli.options import Json, Memo, NeededOut, Overwrite, Workers

app = typer.Typer()


@app.command("run")
def run_command(
    recipe: Annotated[Path, typer.Argument(help="Recipe file.")],
    out: NeededOut,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Change a key: train.steps=10, root=FOLDER.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run; write nothing.")] = False,
    json: Json = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
    memo: Memo = None,
) -> None:
    """Do all that a recipe says and is not done yet: ingest, steps, mix, train.

    Example: curator run recipes/quickstart.yaml --out work/quickstart
    """
    from curator.cli.render import print_json, print_run, print_table
    from curator.errors import UsageError
    from curator.pipeline.passes import Options, warn_of_surprises
    from curator.pipeline.recipe import load_recipe
    from curator.pipeline.run import run_recipe, what_would_run
    from curator.train.config import TrainConfig

    loaded = load_recipe(recipe, set_ or [])
    if loaded.train is not None:
        # A wrong key must be found before hours of curation, not after.
        settings = dict(loaded.train)
        nproc = settings.pop("nproc", 1)
        if not isinstance(nproc, int) or nproc < 1:
            raise UsageError(f"{recipe}: train.nproc is {nproc!r}", hint="a number of processes, 1 or more")
        TrainConfig.from_mapping(settings, f"{recipe}: train")
    if dry_run:
        lines = what_would_run(loaded, out)
        if json:
            print_json([{"folder": folder, "state": state} for folder, state in lines])
        else:
            print_table(("folder", "state"), lines)
        return
    result = run_recipe(loaded, out, Options(workers, overwrite, memo))
    for outcome in result.outcomes():
        if not outcome.ledger.kept:
            warn_of_surprises(outcome)
    if json:
        print_json(result.to_json())
    else:
        print_run(result)
