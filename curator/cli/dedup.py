"""curator dedup exact | near"""

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


@app.command("near")
def dedup_near(
    inputs: Inputs,
    on: Annotated[
        str, typer.Option(help="Selector: prompt, response, conversation, turns, last_user, final_answer, ...")
    ] = "turns",
    threshold: Annotated[float, typer.Option(help="Jaccard similarity from which texts are duplicates.")] = 0.8,
    unit: Annotated[str, typer.Option(help="What shingles are made of: words or characters.")] = "words",
    size: Annotated[int, typer.Option(help="Words or characters in a shingle.")] = 3,
    keep: Annotated[str, typer.Option(help="Who stays: columns in order of preference, nulls last.")] = "id",
    num_perm: Annotated[int, typer.Option(help="Places of a MinHash signature.")] = 128,
    allow_capped: Annotated[
        bool, typer.Option("--allow-capped", help="Go on when over 10,000 different texts share a band.")
    ] = False,
    out: Out = None,
    rejects: Rejects = None,
    json: Json = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Of records whose texts share most of their shingles, keep one; every drop is checked by true Jaccard similarity.

    Example: curator dedup near d/exact --on prompt --threshold 0.8 --out d/near
    """
    from curator.cli.common import run_stage

    settings = {
        "on": on,
        "threshold": threshold,
        "unit": unit,
        "size": size,
        "keep": keep,
        "num_perm": num_perm,
        "allow_capped": allow_capped,
    }
    run_stage("dedup.near", settings, inputs, out, json, workers, overwrite, rejects=rejects)
