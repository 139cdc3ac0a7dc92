"""Whether folders are what their manifests say: bytes, rows, schema, ids and the account of every row."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from curator.errors import CuratorError
from curator.io import media
from curator.io.manifest import MANIFEST, FileEntry, TaskResult, digest_file
from curator.mixture.sampler import MIXTURE, Order
from curator.pipeline.inspect.folders import Folder, find_folders
from curator.schema.record import QUARANTINE_SCHEMA, ids_digest, schema_from_json


def check(root: Path) -> list[dict[str, Any]]:
    """Every folder at or below `root` with its problems (none: it is sound), in the order of the data.

    Raises CuratorError when there is nothing to check.
    """
    folders, unfinished = find_folders(root)
    report: list[dict[str, Any]] = []
    for folder in folders:
        if folder.problem is not None:
            report.append({"folder": str(folder.path), "rows": None, "problems": [folder.problem], "notes": []})
        elif folder.manifest is not None:
            report.append({"folder": str(folder.path), "rows": folder.data["rows"], **_check_dataset(folder)})
        else:
            report.append({"folder": str(folder.path), "rows": None, **_check_run(folder)})
    for path in unfinished:
        report.append(
            {"folder": str(path), "rows": None, "problems": ["not complete: run its command again"], "notes": []}
        )
    if not report:
        raise CuratorError(
            f"{root} holds no folder made by curator", hint="name a dataset folder, or one above several"
        )
    return report


def _check_dataset(folder: Folder) -> dict[str, Any]:
    manifest, path = folder.manifest, folder.path
    assert manifest is not None
    problems = []
    schema = schema_from_json(manifest.schema)
    for task in manifest.tasks:
        problems += _check_task(path, task, schema)
    if problem := manifest.ledger().problem():
        problems.append(f"ledger: {problem}")
    for entry in manifest.extra.get("files", []):
        if problem := FileEntry(**entry).problem(path):
            problems.append(f"{entry['path']} {problem}")
    if not problems and (path / MIXTURE).exists():
        problems += _check_mixture(path, sum(entry.rows for entry in manifest.shards))
    told: list[str] = []
    if not problems:
        image_problems, told = _check_images(folder)
        problems += image_problems
    known = {entry.path for task in manifest.tasks for entry in task.files()}
    strays = [
        "stray file: " + str(file.relative_to(path))
        for kind in ("data", "rejects", "quarantine")
        for file in sorted((path / kind).rglob("*"))
        if file.is_file() and str(file.relative_to(path)) not in known
    ]
    return {"problems": problems, "notes": [*_changed_inputs(folder), *told, *strays]}


def _check_images(folder: Folder) -> tuple[list[str], list[str]]:
    """Problems and notes about images: the folder's own, or, behind ingest, where those of its records are."""
    manifest, path = folder.manifest, folder.path
    assert manifest is not None
    if (recorded := manifest.extra.get(media.IMAGES)) is not None:
        return media.check_media(path, manifest.shards, recorded)
    filled = {name for task in manifest.tasks for name in task.filled}
    if not filled & {"messages.images.sha256", "rejected.images.sha256"}:
        return [], []
    wanted = media.image_digests(path, manifest.shards)
    places = media.folders_with_media(path)
    lost = {digest for digest in wanted if not any(media.find_image(place, digest) for place in places)}
    if lost:
        return [f"{len(lost):,} of {len(wanted):,} images are in none of the folders it was made from"], []
    return [], [f"images: {len(wanted):,}, in " + ", ".join(str(place / media.MEDIA) for place in places)]


def _changed_inputs(folder: Folder) -> list[str]:
    """Inputs that lie where they lay but hold something else now: the folder is sound, and stale."""
    assert folder.manifest is not None
    digests = {item.get("digest") for item in folder.manifest.fingerprint["inputs"]}
    try:
        paths = json.loads((folder.path / "timing.json").read_bytes())["inputs"]
        inputs = {path: digest_file(Path(path) / MANIFEST) for path in paths if (Path(path) / MANIFEST).is_file()}
    except (OSError, ValueError, KeyError):
        return []
    return [f"stale: {path} has changed since" for path, digest in inputs.items() if digest not in digests]


def _check_task(folder: Path, task: TaskResult, schema: pa.Schema) -> list[str]:
    problems = []
    sums = {"kept": 0, "dropped": 0, "quarantined": 0}
    kinds = (
        ("kept", task.shards, schema),
        ("dropped", task.rejects, schema),
        ("quarantined", task.quarantine, QUARANTINE_SCHEMA),
    )
    for kind, entries, wanted in kinds:
        for entry in entries:
            if problem := entry.problem(folder):
                problems.append(f"{entry.path} {problem}")
                continue
            with pq.ParquetFile(folder / entry.path) as file:
                if not file.schema_arrow.equals(wanted):
                    problems.append(f"{entry.path} has another schema than the manifest")
                if file.metadata.num_rows != entry.rows:
                    problems.append(f"{entry.path} holds {file.metadata.num_rows:,} rows, {entry.rows:,} were written")
                for index in range(file.num_row_groups):
                    sums[kind] += ids_digest(file.read_row_group(index, columns=["id"]).column("id"))
    if problems:
        return problems
    if problem := task.ledger.problem():
        problems.append(f"{task.label}: {problem}")
    mask = (1 << 128) - 1
    stored = {
        "kept": task.ledger.kept_ids,
        "dropped": task.ledger.dropped_ids,
        "quarantined": task.ledger.quarantined_ids,
    }
    for kind, digest in stored.items():
        if kind == "dropped" and not task.rejects:
            continue
        if sums[kind] & mask != digest:
            problems.append(f"{task.label}: the ids of {kind} rows are not those of the ledger")
    return problems


def _check_mixture(folder: Path, num_rows: int) -> list[str]:
    try:
        order = Order.open(folder)
    except CuratorError as error:
        return [error.message]
    problems = []
    step = 1 << 20
    for start in range(0, order.num_positions, step):
        rows = order.read(start, start + step).column("row").to_numpy()
        if len(rows) and (rows.min() < 0 or rows.max() >= num_rows):
            problems.append("order.parquet names rows that are not there")
            break
    return problems


def _check_run(folder: Folder) -> dict[str, Any]:
    """A training run: its files are those it wrote, and no checkpoint counts without its mark."""
    problems = [
        f"{entry['path']} {problem}"
        for entry in folder.data.get("files", [])
        if (problem := FileEntry(rows=0, **entry).problem(folder.path))
    ]
    metrics = folder.path / "metrics.jsonl"
    if metrics.exists():
        for number, line in enumerate(metrics.read_bytes().splitlines(), start=1):
            try:
                json.loads(line)
            except ValueError:
                problems.append(f"metrics.jsonl, line {number} is not JSON")
                break
    for checkpoint in sorted((folder.path / "checkpoints").glob("step-*")):
        if not (checkpoint / "COMPLETED").exists():
            problems.append(f"{checkpoint.relative_to(folder.path)} is not complete")
    return {"problems": problems, "notes": []}
