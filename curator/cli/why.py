"""curator why"""

from pathlib import Path
from typing import Annotated

import typer

from curator.cli.options import Json

app = typer.Typer()


@app.command("why")
def why_command(
    record_id: Annotated[str, typer.Argument(metavar="ID", help="A record's id, as curator show prints it.")],
    root: Annotated[Path, typer.Argument(help="Folder that holds the folders of all steps.")],
    json: Json = False,
) -> None:
    """Follow one record through every step: kept, dropped by what rule, quarantined, trained on when.

    Example: curator why "tutor/alpaca.json#3" d
    """
    from curator.cli.render import print_json, print_table
    from curator.pipeline.inspect.why import fate

    entries = fate(record_id, root)
    if json:
        print_json(entries)
    else:
        print_table(("folder", "steps", "fate", "detail"), [tuple(entry[name] for name in entry) for entry in entries])
