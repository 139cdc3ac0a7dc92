"""Options that mean the same in every command."""

from pathlib import Path
from typing import Annotated

import typer

Inputs = Annotated[list[str], typer.Argument(help="Dataset folders; - or a .arrow file for a stream.")]
Input = Annotated[str, typer.Argument(help="Dataset folder; - or a .arrow file for a stream.")]
Folder = Annotated[Path, typer.Argument(help="Dataset folder.")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Folder to write. Without it, records go to a stdout that is a pipe.")
]
NeededOut = Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
Workers = Annotated[int | None, typer.Option("--workers", help="Worker processes; default: one a core.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a folder made with other inputs or settings.")]
Memo = Annotated[Path | None, typer.Option("--memo", help="Folder that keeps results of costly steps by content.")]
Rejects = Annotated[Path | None, typer.Option("--rejects", help="In a pipe: folder for dropped and quarantined rows.")]
