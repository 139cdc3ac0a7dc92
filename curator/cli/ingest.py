"""curator ingest"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from curator.cli.options import Json, Out, Overwrite, Rejects, Workers

app = typer.Typer()


@app.command("ingest")
def ingest_command(
    files: Annotated[list[str], typer.Argument(help="Raw files, folders or quoted globs; - for stdin.")],
    source: Annotated[
        str | None, typer.Option(help="Name of the source; it begins every id. Default: from the path.")
    ] = None,
    license: Annotated[str | None, typer.Option(help="Licence of the source, kept with every record.")] = None,
    field: Annotated[
        list[str] | None, typer.Option(help="Declare a metadata field: name:type (string, int, float, bool).")
    ] = None,
    adapter: Annotated[str | None, typer.Option(help="Force an adapter instead of choosing by field names.")] = None,
    shard_bytes: Annotated[
        int | None, typer.Option(help="Cut shards at multiples of this many raw bytes (64 MiB).")
    ] = None,
    max_record_bytes: Annotated[int | None, typer.Option(help="Quarantine longer rows (256 MiB).")] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether the first row of a CSV or TSV names its columns."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Names of the columns of a CSV or TSV, with commas between.")
    ] = None,
    out: Out = None,
    rejects: Rejects = None,
    json: Json = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Read raw files into records; what cannot be read is quarantined with its place and bytes.

    Formats are detected from content: JSON (lines, array, objects), CSV, TSV, YAML, Parquet, Arrow, plain or as gz,
    zst, bz2, xz, or in a zip; rows in
    alpaca, sharegpt, OpenAI messages, prompt/completion, question/answer, preference or transcript form.

    Example: curator ingest sample_data/alpaca.json --source tutor --out d/tutor
    """
    from curator.cli.common import ingest_notes, pairs, require_sink
    from curator.cli.render import print_outcome
    from curator.io.build import SHARD_BYTES, SourceSettings
    from curator.io.raw import MAX_RECORD_BYTES
    from curator.pipeline.ingest import ingest
    from curator.pipeline.passes import Options, warn_of_surprises
    from curator.pipeline.pipes import ingest_to_stream

    require_sink(out)
    settings = SourceSettings(
        name=source or default_source(files),
        license=license,
        fields=pairs(field, "--field", ":"),
        adapter=adapter,
        shard_bytes=SHARD_BYTES if shard_bytes is None else shard_bytes,
        max_record_bytes=MAX_RECORD_BYTES if max_record_bytes is None else max_record_bytes,
        header=header,
        columns=tuple(columns.split(",")) if columns else (),
    )
    options = Options(workers, overwrite)
    if out is None:
        outcome = ingest_to_stream(files, settings, sys.stdout.buffer, rejects, options)
    else:
        outcome = ingest(files, settings, out, options)
    ingest_notes(outcome)
    print_outcome(warn_of_surprises(outcome), json)


def default_source(files: list[str]) -> str:
    """The name of the file without endings, or of the folder that holds several."""
    import re

    if files == ["-"]:
        return "stdin"
    path = Path(files[0])
    if len(files) > 1 or any(char in files[0] for char in "*?["):
        while any(char in str(path) for char in "*?["):
            path = path.parent
        name = (path.parent if path.is_file() else path).resolve().name
    else:
        name = path.resolve().name.split(".")[0]
    return re.sub(r"[/#!@\s]+", "-", name) or "source"
