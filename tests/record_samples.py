"""Small records and folders, built on the spot."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from curator.io.build import SourceSettings
from curator.io.dataset import Dataset, OutputFolder, TaskWriter
from curator.io.manifest import Fingerprint, Manifest, TaskResult
from curator.pipeline.apply import Chain
from curator.pipeline.ingest import ingest
from curator.pipeline.passes import Options, Outcome, run_pass
from curator.schema.record import RECORD_SCHEMA, content_hashes, ids_digest, set_columns
from curator.stages.base import RowStage, Stage

ONE = Options(workers=1)

HOLLOW: dict[str, list[Any]] = {
    "messages": [None, [], [None], [{}], [{"wrap": {}}], [{"images": []}], [{"images": [None]}], [{"images": [{}]}]],
    "rejected": [None, [], [None], [{}], [{"wrap": {}}, {}], [{"images": []}]],
    "metadata": [None, {}, {"turn_issues": []}, {"turn_issues": [None]}],
    "dedup": [None, {}],
    "drop": [None, {}],
    "verifier": [None, {}],
    "extra": [None],
}
"""Columns without a value, by name: null, empty, and made of nulls, which are three things."""


def message(role: str, content: str | None, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


def record(record_id: str, *turns: Any, **columns: Any) -> dict[str, Any]:
    """A record as a dictionary; turns are (role, content), dictionaries, or texts of user and assistant in turn."""
    roles = ("user", "assistant")
    messages = []
    for index, turn in enumerate(turns):
        if isinstance(turn, str) or turn is None:
            turn = (roles[index % 2], turn)
        messages.append(message(*turn) if isinstance(turn, tuple) else turn)
    return {"id": record_id, "kind": "sft", "messages": messages, "metadata": {"source": "s"}, **columns}


def batch_of(records: Sequence[Mapping[str, Any]], schema: pa.Schema = RECORD_SCHEMA) -> pa.RecordBatch:
    """Records as a batch, content hashes filled in."""
    batch = pa.RecordBatch.from_pylist([dict(item) for item in records], schema)
    return set_columns(batch, {"content_hash": content_hashes(batch)}, schema)


def write_dataset(
    folder: Path, records: Sequence[Mapping[str, Any]], schema: pa.Schema = RECORD_SCHEMA, shard_rows: int = 1000
) -> Path:
    """A complete dataset folder with these records, `shard_rows` to a shard."""
    output = OutputFolder.prepare(folder, Fingerprint(({"step": "test"},), ({"digest": str(len(records))},)))
    parts = [records[start : start + shard_rows] for start in range(0, len(records), shard_rows)] or [[]]
    names = [f"{index:05d}" for index in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        output.record(write_task(folder, name, part, schema))
    output.finish(names, schema, [], {})
    return folder


def write_task(folder: Path, name: str, records: Sequence[Mapping[str, Any]], schema: pa.Schema) -> TaskResult:
    writer = TaskWriter(folder, TaskResult(name, f"shard {name}"), schema)
    writer.begin_shard(f"part-{name}")
    writer.result.ledger.read = len(records)
    writer.result.ledger.read_ids = ids_digest(item["id"] for item in records)
    writer.keep(batch_of(records, schema))
    return writer.close()


def write_lines(path: Path, rows: Iterable[Any]) -> Path:
    """A JSON-lines file; bytes are written as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, bytes) else json.dumps(row, ensure_ascii=False).encode() for row in rows]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def ingested(path: Path | Sequence[Path], out: Path, options: Options = ONE, **settings: Any) -> Outcome:
    paths = [path] if isinstance(path, Path) else path
    # Most tests of bad rows have more of them than any gate would let pass.
    settings = {"name": "s", "max_quarantine": "100%", **settings}
    return ingest([str(item) for item in paths], SourceSettings(**settings), out, options)


def rows_of(folder: Path, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The kept records of a folder."""
    return [row for batch in Dataset.open(folder).batches(columns) for row in batch.to_pylist()]


def ids_of(folder: Path) -> list[str]:
    return [row["id"] for row in rows_of(folder, ["id"])]


def rejects_of(folder: Path) -> dict[str, dict[str, Any]]:
    """The dropped records by id."""
    return {row["id"]: row for batch in Dataset.open(folder).rejects() for row in batch.to_pylist()}


def quarantine_of(folder: Path) -> list[dict[str, Any]]:
    return [row for batch in Dataset.open(folder).quarantine() for row in batch.to_pylist()]


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file that a digest covers, by relative path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "timing.json"
    }


def ledger_of(folder: Path) -> Any:
    return Manifest.read(folder).ledger()


def texts_of(row: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    return [(turn["role"], turn["content"]) for turn in row["messages"]]


def through(
    stage: RowStage, records: Sequence[Mapping[str, Any]], schema: pa.Schema = RECORD_SCHEMA
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Kept and dropped records behind a row stage."""
    stage.prepare(schema)
    kept, dropped = Chain([stage], schema)(batch_of(records, schema))
    return kept.to_pylist(), [row for part in dropped for row in part.to_pylist()]


def passed(stage: Stage, inputs: Path | Sequence[Path], out: Path, options: Options = ONE) -> Path:
    """The folder that a pass of one stage wrote."""
    run_pass([inputs] if isinstance(inputs, Path) else inputs, [stage], out, options)
    return out
