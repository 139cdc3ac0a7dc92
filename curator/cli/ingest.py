"""curator ingest"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from curator.cli.options import Json, Out, Overwrite, Rejects, Workers

app = typer.Typer()


@app.command("ingest")
def ingest_command(
    files: Annotated[
        list[str], typer.Argument(help="Files, folders, quoted globs; s3://, gs://, hf://datasets/; - for stdin.")
    ],
    source: Annotated[
        str | None, typer.Option(help="Name of the source; it begins every id. Default: from the path.")
    ] = None,
    license: Annotated[str | None, typer.Option(help="Licence of the source, kept with every record.")] = None,
    field: Annotated[
        list[str] | None, typer.Option(help="Declare a metadata field: name:type (string, int, float, bool).")
    ] = None,
    map_: Annotated[
        list[str] | None,
        typer.Option("--map", help="Your own mapping: prompt=body.question, metadata.domain=topic, or a YAML file."),
    ] = None,
    join: Annotated[
        str | None, typer.Option(hidden=True, help="Side file that joins by id, from each file's folder.")
    ] = None,
    repair: Annotated[
        str | None, typer.Option(help="Repair by name: merge_consecutive,drop_trailing_user,surrogates.")
    ] = None,
    adapter: Annotated[str | None, typer.Option(help="Force an adapter instead of choosing by field names.")] = None,
    max_quarantine: Annotated[
        str | None, typer.Option(help="Stop when more rows are bad: a share, or a number of rows (default 1%).")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="A changed file takes the place of its old rows; else it is path@2.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be read and how, with rows; write nothing.")
    ] = False,
    shard_bytes: Annotated[int | None, typer.Option(hidden=True, help="As in a recipe.")] = None,
    max_record_bytes: Annotated[int | None, typer.Option(hidden=True, help="As in a recipe.")] = None,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", hidden=True, help="As in a recipe.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", hidden=True, help="As in a recipe.")] = False,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", hidden=True, help="Whether the first row of a table names its columns."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(hidden=True, help="Names of the columns of a table, with commas between.")
    ] = None,
    out: Out = None,
    rejects: Rejects = None,
    json: Json = False,
    workers: Workers = None,
    overwrite: Overwrite = False,
) -> None:
    """Read raw files into records; what cannot be read is quarantined with its place and bytes.

    Formats are detected from content: JSON (lines, array, objects), CSV, TSV, YAML, Parquet, Arrow, plain or as gz,
    zst, bz2, xz, or in a zip, on disk or at s3://, gs://, hf://datasets/; rows in some thirty families, from alpaca,
    sharegpt and OpenAI messages to preferences, logs, trees and tasks with an answer to check. A folder that is
    complete takes in files that it does not hold yet. Rarer settings (header, columns, join, shard_bytes,
    max_record_bytes, allow_empty, retry_failed) are keys of a recipe's source, and flags of the same name.

    Example: curator ingest sample_data/alpaca.json --source tutor --out d/tutor
    """
    from curator.cli.common import ingest_notes, mapping, pairs, require_sink
    from curator.cli.render import print_json, print_outcome
    from curator.io.build import SHARD_BYTES, SourceSettings
    from curator.io.gate import DEFAULT_GATE
    from curator.io.raw import MAX_RECORD_BYTES
    from curator.pipeline.ingest import ingest
    from curator.pipeline.passes import Options, warn_of_surprises
    from curator.pipeline.pipes import ingest_to_stream

    settings = SourceSettings(
        name=source or default_source(files),
        license=license,
        fields=pairs(field, "--field", ":"),
        adapter=adapter,
        map=mapping(map_),
        shard_bytes=SHARD_BYTES if shard_bytes is None else shard_bytes,
        max_record_bytes=MAX_RECORD_BYTES if max_record_bytes is None else max_record_bytes,
        join=join,
        repair=tuple(name.strip() for name in repair.split(",")) if repair else (),
        max_quarantine=DEFAULT_GATE if max_quarantine is None else max_quarantine,
        allow_empty=allow_empty,
        retry_failed=retry_failed,
        replace=replace,
        header=header,
        columns=tuple(columns.split(",")) if columns else (),
    )
    if dry_run:
        from curator.cli.render_dry_run import print_dry_run
        from curator.pipeline.inspect.dry_run import dry_run as look

        result = look(files, settings)
        print_json(result) if json else print_dry_run(result)
        return
    require_sink(out)
    options = Options(workers, overwrite)
    if out is None:
        outcome = ingest_to_stream(files, settings, sys.stdout.buffer, rejects, options)
    else:
        outcome = ingest(files, settings, out, options)
    ingest_notes(outcome)
    print_outcome(warn_of_surprises(outcome), json)


def default_source(files: list[str]) -> str:
    """The name of the file without endings, or of the folder that holds several."""
    import itertools
    import re

    from curator.io.remote import is_remote

    if files == ["-"]:
        return "stdin"
    if is_remote(files[0]):
        # The last part in front of a glob, or of the folder of several; a revision is no part of a name.
        parts = [part.partition("@")[0] for part in files[0].partition("://")[2].split("/") if part]
        plain = list(itertools.takewhile(lambda part: not any(char in part for char in "*?["), parts))
        plain = plain[:-1] if len(files) > 1 and len(plain) == len(parts) > 1 else plain
        return re.sub(r"[/#!@\s]+", "-", plain[-1].split(".")[0]) or "source"
    path = Path(files[0])
    if len(files) > 1 or any(char in files[0] for char in "*?["):
        while any(char in str(path) for char in "*?["):
            path = path.parent
        name = (path.parent if path.is_file() else path).resolve().name
    else:
        name = path.resolve().name.split(".")[0]
    return re.sub(r"[/#!@\s]+", "-", name) or "source"
