"""curator show"""

from typing import Annotated

import typer

from curator.cli.options import Input, Json

app = typer.Typer()


@app.command("show")
def show_command(
    folder: Input,
    record_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="One record.")] = None,
    where: Annotated[str | None, typer.Option(help="Only records for which this expression is true.")] = None,
    grep: Annotated[str | None, typer.Option(help="Only records whose text matches this regular expression.")] = None,
    head: Annotated[int | None, typer.Option(help="The first N (default 5).")] = None,
    sample: Annotated[int | None, typer.Option(help="N at random instead of the first.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    part: Annotated[str, typer.Option(help="kept, rejects or quarantine.")] = "kept",
    full: Annotated[bool, typer.Option("--full", help="Whole texts, however long.")] = False,
    json: Json = False,
) -> None:
    """Print records as a person reads them.

    Example: curator show d/clean --where "scores.has_code.value" --sample 3
    """
    from curator.pipeline.inspect.show import find_records, record_json, record_text, require_found

    limit = head if head is not None or sample is not None else 5
    found = 0
    for record in find_records(folder, part, record_id, where, grep, limit, sample, seed):
        found += 1
        typer.echo(record_json(record) if json else record_text(record, full) + "\n")
    require_found(found, folder, record_id)
    if not found and not json:
        typer.echo("no record", err=True)
