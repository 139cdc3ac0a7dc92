"""curator check"""

from pathlib import Path
from typing import Annotated

import typer

from curator.cli.options import Json

app = typer.Typer()


@app.command("check")
def check_command(
    root: Annotated[Path, typer.Argument(help="A folder made by curator, or one that holds several.")],
    json: Json = False,
) -> None:
    """Compare folders with their manifests: bytes, rows, schema, ids, the account of every row.

    Stray files and inputs that changed since are told, but are no failure.

    Example: curator check d
    """
    from curator.cli.render import print_json, print_table
    from curator.errors import CuratorError
    from curator.pipeline.inspect.check import check

    report = check(root)
    if json:
        print_json(report)
    else:
        rows = []
        for entry in report:
            rows.append((entry["folder"], entry["rows"], "ok" if not entry["problems"] else entry["problems"][0]))
            rows += [("", None, problem) for problem in entry["problems"][1:]]
            rows += [("", None, note) for note in entry["notes"]]
        print_table(("folder", "rows", "state"), rows)
    bad = [entry for entry in report if entry["problems"]]
    if bad:
        raise CuratorError(
            f"{bad[0]['folder']}: {bad[0]['problems'][0]}"
            + (f" (and {len(bad) - 1} more folders)" if len(bad) > 1 else ""),
            hint="run the command that wrote the folder again: it redoes only what is damaged",
        )
