"""curator export"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from curator.cli.options import Input, Json

app = typer.Typer()


@app.command("export")
def export_command(
    folder: Input,
    to: Annotated[str, typer.Option("--to", help="alpaca, sharegpt, messages, preference, source or hf.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="File: .jsonl or .json, also with .gz or .zst; - or none: stdout. With hf, a folder."
        ),
    ] = None,
    metadata: Annotated[
        bool, typer.Option("--metadata", help="Add filled tags and scores as an object `metadata`.")
    ] = False,
    skip: Annotated[bool, typer.Option("--skip", help="Leave out records that the form cannot hold.")] = False,
    push: Annotated[
        str | None, typer.Option("--push", help="With hf: upload the folder to OWNER/NAME on the hub (HF_TOKEN).")
    ] = None,
    any_license: Annotated[
        bool, typer.Option("--any-license", help="Push records without a known licence, too.")
    ] = False,
    json: Json = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file or folder that exists.")] = False,
) -> None:
    """Write records in a form that other tools read.

    A record that came in this form is the object it was: key order, number text and unmapped fields included. Any
    other is written anew; what the form has no place for is counted and goes to its `metadata`. `--to source` gives
    every record the form it came in, `--to hf` makes a folder with a card that `datasets` loads.

    Example: curator export d/clean --to alpaca --out clean.jsonl
    """
    from curator.cli.render import print_json, print_table
    from curator.errors import UsageError
    from curator.pipeline.export import ExportSettings, export
    from curator.pipeline.publish import publish

    if to == "hf":
        written = publish(folder, out, overwrite, push, any_license)
        if json:
            print_json(written.to_json())
            return
        print_table(("export hf", "records"), written.counts())
        return
    if push is not None:
        raise UsageError(
            f"--push goes with --to hf, not {to}", hint="curator export DIR --to hf --out FOLDER --push ..."
        )
    settings = ExportSettings(to, metadata, skip, overwrite)
    to_stdout = out is None or str(out) == "-"
    if out is None and sys.stdout.isatty():
        raise UsageError("nowhere to write: stdout is a terminal", hint="--out FILE, or --out - for this terminal")
    outcome = export(folder, settings, None if to_stdout else out, sys.stdout.buffer if to_stdout else None)
    if json:
        print_json(outcome.to_json(), to_stderr=to_stdout)
        return
    rows = [("read", outcome.read), ("as they came", outcome.restored), ("written anew", outcome.rendered)]
    rows += [(f"left out  {reason}", count) for reason, count in sorted(outcome.skipped.items())]
    print_table((f"export {to}", "rows"), rows, to_stderr=to_stdout)
