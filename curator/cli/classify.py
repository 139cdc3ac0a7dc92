"""curator classify language | domain | difficulty | apply | train"""

from typing import Annotated

import typer

from curator.cli.options import Inputs, Json, NeededOut, Out, Overwrite, Workers

app = typer.Typer(
    no_args_is_help=True, help="Label records with small models, and train such models; nothing is removed."
)

OverwriteLabels = Annotated[
    bool,
    typer.Option(
        "--overwrite-labels", help="Replace labels that records have already; by default only gaps are filled."
    ),
]


@app.command("language")
def classify_language(
    inputs: Inputs,
    on: Annotated[str, typer.Option(help="Selector whose text is looked at.")] = "turns",
    overwrite_labels: OverwriteLabels = False,
    out: Out = None,
    json: Json = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Name the language of each record; und where there is too little to go by.

    Example: curator classify language d/tagged --out d/languages
    """
    from curator.cli.common import run_stage

    settings = {"on": on, "overwrite_labels": overwrite_labels}
    run_stage("classify.language", settings, inputs, out, json, workers, overwrite)


@app.command("domain")
def classify_domain(
    inputs: Inputs,
    overwrite_labels: OverwriteLabels = False,
    out: Out = None,
    json: Json = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Name the domain of each record's prompt with the model that comes along.

    Example: curator classify domain d/languages --out d/domains
    """
    from curator.cli.common import run_stage

    run_stage("classify.domain", {"overwrite_labels": overwrite_labels}, inputs, out, json, workers, overwrite)


@app.command("difficulty")
def classify_difficulty(
    inputs: Inputs,
    overwrite_labels: OverwriteLabels = False,
    out: Out = None,
    json: Json = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Name the difficulty of each record's mathematical question with the model that comes along.

    Example: curator classify difficulty d/domains --out d/difficulties
    """
    from curator.cli.common import run_stage

    run_stage("classify.difficulty", {"overwrite_labels": overwrite_labels}, inputs, out, json, workers, overwrite)


@app.command("train")
def classify_train(
    inputs: Inputs,
    label: Annotated[str, typer.Option(help="Metadata field that holds the label.")],
    out: NeededOut,
    on: Annotated[str, typer.Option(help="Selector whose text is learned from.")] = "prompt",
    folds: Annotated[int, typer.Option(help="Parts for cross-validation.")] = 5,
    group_by: Annotated[
        str | None, typer.Option(help="Column whose equal values stay in one fold, such as metadata.source.")
    ] = None,
    min_confidence: Annotated[
        float, typer.Option(help="Calibrated confidence below which the label is unknown.")
    ] = 0.7,
    max_rows: Annotated[int, typer.Option(help="Rows used of one class; of more, a sample by id.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Of sample, folds and order.")] = 0,
    json: Json = False,
    overwrite: Overwrite = False,
) -> None:
    """Learn a label that records carry: a fastText model with a card of cross-validated figures.

    Example: curator classify train d/labelled --label metadata.topic --out d/topic-model
    """
    from curator.cli.render import print_json, print_training
    from curator.pipeline.classifier import TrainSettings, train_classifier
    from curator.pipeline.pipes import as_folders

    settings = TrainSettings(label, on, folds, group_by, min_confidence, max_rows, seed)
    with as_folders(inputs) as folders:
        trained = train_classifier(folders, settings, out, overwrite)
    if json:
        print_json({"out": str(out), "reused": trained.reused, **trained.card})
    else:
        print_training(trained)


@app.command("apply")
def classify_apply(
    inputs: Inputs,
    model: Annotated[str, typer.Option(help="Model folder, made by curator classify train.")],
    overwrite_labels: OverwriteLabels = False,
    out: Out = None,
    json: Json = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Label records with a trained model; unknown where its calibrated confidence is too low.

    Example: curator classify apply d/tagged --model d/topic-model --out d/topics
    """
    from curator.cli.common import run_stage

    settings = {"model": model, "overwrite_labels": overwrite_labels}
    run_stage("classify.apply", settings, inputs, out, json, workers, overwrite)
