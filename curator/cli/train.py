"""curator train"""

from pathlib import Path
from typing import Annotated

import typer

from curator.cli.options import Folder, Json, NeededOut, Overwrite

app = typer.Typer()


@app.command("train")
def train_command(
    folder: Folder,
    config: Annotated[Path, typer.Option(help="YAML file: model, steps, learning_rate, ...")],
    out: NeededOut,
    nproc: Annotated[int, typer.Option(help="Processes (ranks) on this machine.")] = 1,
    json: Json = False,
    overwrite: Overwrite = False,
) -> None:
    """Fine-tune on a mixture with FSDP; an interrupted run goes on from its last checkpoint, at any --nproc.

    Example: curator train d/mix --config recipes/train.yaml --nproc 2 --out runs/a
    """
    from curator.cli.render import print_json, print_train
    from curator.train.config import TrainConfig
    from curator.train.launch import train

    summary = train(folder, TrainConfig.from_file(config), out, nproc, overwrite)
    if json:
        print_json(summary)
    else:
        print_train(summary)
