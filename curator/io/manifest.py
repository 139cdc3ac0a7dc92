"""The manifest of a folder: what is in it, what made it, and the account of every row. Written last."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from curator.errors import CuratorError
from curator.faults import fault_point
from curator.schema.record import SCHEMA_VERSION, add_digests, canonical_json

MANIFEST = "manifest.json"
FORMAT = "curator.dataset"
RUN_FORMAT = "curator.run"


def digest_bytes(data: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(data)


def digest_file(path: Path) -> str:
    """xxh3-128 of a file's bytes, in hex."""
    hasher = xxhash.xxh3_128()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            hasher.update(block)
    return hasher.hexdigest()


@dataclass(frozen=True)
class FileEntry:
    """One file of a folder, by path relative to it."""

    path: str
    rows: int
    bytes: int
    xxh3: str

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "rows": self.rows, "bytes": self.bytes, "xxh3": self.xxh3}

    def problem(self, folder: Path) -> str | None:
        """What is wrong with the file on disk, or None when its bytes are the ones recorded."""
        if problem := self.size_problem(folder):
            return problem
        return "has other bytes than were written" if digest_file(folder / self.path) != self.xxh3 else None

    def size_problem(self, folder: Path) -> str | None:
        """What can be seen to be wrong without reading the file."""
        path = folder / self.path
        if not path.is_file():
            return "is missing"
        size = path.stat().st_size
        return None if size == self.bytes else f"has {size:,} bytes, {self.bytes:,} were written"


@dataclass
class Ledger:
    """The account of a set of rows: read = kept + dropped + quarantined, by count and as multiset digests of ids."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    """Rows by `step/rule`."""
    quarantined: dict[str, int] = field(default_factory=dict)
    """Rows by reason."""
    read_ids: int = 0
    kept_ids: int = 0
    dropped_ids: int = 0
    quarantined_ids: int = 0

    def add(self, other: "Ledger") -> None:
        self.read += other.read
        self.kept += other.kept
        for mine, theirs in ((self.dropped, other.dropped), (self.quarantined, other.quarantined)):
            for key, count in theirs.items():
                mine[key] = mine.get(key, 0) + count
        self.read_ids = add_digests(self.read_ids, other.read_ids)
        self.kept_ids = add_digests(self.kept_ids, other.kept_ids)
        self.dropped_ids = add_digests(self.dropped_ids, other.dropped_ids)
        self.quarantined_ids = add_digests(self.quarantined_ids, other.quarantined_ids)

    def problem(self) -> str | None:
        """What does not add up, or None."""
        out = self.kept + sum(self.dropped.values()) + sum(self.quarantined.values())
        if self.read != out:
            return f"{self.read:,} rows were read, {out:,} are accounted for"
        if self.read_ids != add_digests(self.kept_ids, self.dropped_ids, self.quarantined_ids):
            return "the ids that went in are not the ids that came out"
        return None

    def to_json(self) -> dict[str, Any]:
        return {
            "read": self.read,
            "kept": self.kept,
            "dropped": dict(sorted(self.dropped.items())),
            "quarantined": dict(sorted(self.quarantined.items())),
            "read_ids": f"{self.read_ids:032x}",
            "kept_ids": f"{self.kept_ids:032x}",
            "dropped_ids": f"{self.dropped_ids:032x}",
            "quarantined_ids": f"{self.quarantined_ids:032x}",
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Ledger":
        return cls(
            data["read"],
            data["kept"],
            dict(data["dropped"]),
            dict(data["quarantined"]),
            *(int(data[name], 16) for name in ("read_ids", "kept_ids", "dropped_ids", "quarantined_ids")),
        )


@dataclass
class TaskResult:
    """What one task (a slice of a raw file, an input shard) left in the folder."""

    name: str
    label: str
    """What the task read, for people: a raw file, or `shard N`."""
    shards: list[FileEntry] = field(default_factory=list)
    rejects: list[FileEntry] = field(default_factory=list)
    quarantine: list[FileEntry] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    filled: list[str] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    """Things worth telling, counted: rows by adapter, blank lines."""

    def files(self) -> list[FileEntry]:
        return [*self.shards, *self.rejects, *self.quarantine]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "label": self.label,
            "shards": [entry.to_json() for entry in self.shards],
            "rejects": [entry.to_json() for entry in self.rejects],
            "quarantine": [entry.to_json() for entry in self.quarantine],
            "ledger": self.ledger.to_json(),
            "filled": self.filled,
            "notes": dict(sorted(self.notes.items())),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TaskResult":
        return cls(
            data["name"],
            data["label"],
            [FileEntry(**entry) for entry in data["shards"]],
            [FileEntry(**entry) for entry in data["rejects"]],
            [FileEntry(**entry) for entry in data["quarantine"]],
            Ledger.from_json(data["ledger"]),
            list(data["filled"]),
            dict(data["notes"]),
        )


@dataclass(frozen=True)
class Fingerprint:
    """What a folder's content is a function of: the steps with their settings, and the digests of the inputs."""

    steps: tuple[Mapping[str, Any], ...]
    """Each `{"step": name, "version": text, "settings": {...}}`."""
    inputs: tuple[Mapping[str, Any], ...]
    """Each at least `{"digest": hex}`; raw files also carry their relative path."""

    def to_json(self) -> dict[str, Any]:
        plain = {"steps": [dict(step) for step in self.steps], "inputs": [dict(item) for item in self.inputs]}
        return json.loads(canonical_json(plain))

    def digest(self) -> str:
        return digest_bytes(canonical_json(self.to_json()))


def first_difference(old: Any, new: Any, path: str = "") -> str | None:
    """The first field in which two JSON values differ, as `steps[0].settings.on: 'prompt', now 'response'`."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            place = f"{path}.{key}" if path else key
            if key not in old:
                return f"{place}: was not there, now {_short(new[key])}"
            if key not in new:
                return f"{place}: was {_short(old[key])}, now not there"
            if difference := first_difference(old[key], new[key], place):
                return difference
        return None
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        for index, (left, right) in enumerate(zip(old, new, strict=False)):
            if difference := first_difference(left, right, f"{path}[{index}]"):
                return difference
        return None if len(old) == len(new) else f"{path}: had {len(old)} entries, now {len(new)}"
    if old == new:
        return None
    if isinstance(old, str) and isinstance(new, str):
        old, new = _from_difference(old, new)
    return f"{path}: was {_short(old)}, now {_short(new)}"


def _from_difference(old: str, new: str) -> tuple[str, str]:
    """Two long texts without most of what they begin with in common."""
    shared = len(os.path.commonprefix([old, new]))
    cut = max(0, shared - 20) if max(len(old), len(new)) > 55 else 0
    return ("..." + old[cut:], "..." + new[cut:]) if cut else (old, new)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass
class Manifest:
    """A complete folder. `digest` is that of the manifest's bytes and stands for everything in the folder."""

    fingerprint: dict[str, Any]
    tasks: list[TaskResult]
    schema: dict[str, Any]
    history: list[dict[str, Any]] = field(default_factory=list)
    """The passes before this one, oldest first: steps and ledger totals."""
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def shards(self) -> list[FileEntry]:
        return [entry for task in self.tasks for entry in task.shards]

    def ledger(self) -> Ledger:
        return total_ledger(self.tasks)

    def steps(self) -> list[str]:
        return [step["step"] for step in self.fingerprint["steps"]]

    def passes(self) -> list[dict[str, Any]]:
        """The history with this folder's own pass at the end."""
        own = {"steps": self.fingerprint["steps"], "ledger": self.ledger().to_json()}
        return [*self.history, own]

    def to_json(self) -> dict[str, Any]:
        filled = sorted({name for task in self.tasks for name in task.filled})
        return {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "fingerprint": self.fingerprint,
            "ledger": self.ledger().to_json(),
            "rows": sum(entry.rows for entry in self.shards),
            "shards": [entry.to_json() for entry in self.shards],
            "tasks": [task.to_json() for task in self.tasks],
            "schema": self.schema,
            "filled": filled,
            "history": self.history,
            "extra": self.extra,
        }

    def to_bytes(self) -> bytes:
        return json.dumps(self.to_json(), indent=1, ensure_ascii=False).encode() + b"\n"

    @property
    def digest(self) -> str:
        return digest_bytes(self.to_bytes())

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """The manifest of a complete folder. Raises CuratorError when there is none or it is of a newer schema."""
        path = folder / MANIFEST
        if not folder.exists():
            raise CuratorError(f"{folder}: no such folder", hint=f"looked in {Path.cwd()}")
        if not folder.is_dir():
            raise CuratorError(
                f"{folder} is a file, not a dataset folder", hint="raw files go in through curator ingest"
            )
        try:
            data = json.loads(path.read_bytes())
        except FileNotFoundError:
            started = (folder / PARTIAL).exists()
            raise CuratorError(
                f"{folder} has no {MANIFEST}: " + ("it is not complete" if started else "it is not a dataset folder"),
                hint="run the command that was writing it again; it goes on where it stopped"
                if started
                else "datasets are made by curator ingest",
            ) from None
        except ValueError as error:
            raise CuratorError(
                f"{path} is damaged: {error}", hint="run the command that wrote the folder again with --overwrite"
            ) from None
        if isinstance(data, dict) and data.get("format") == RUN_FORMAT:
            raise CuratorError(f"{folder} is a training run, not a dataset", hint="curator why and check read runs")
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise CuratorError(f"{path} is not the manifest of a dataset", hint="name a folder made by curator")
        try:
            if data["schema_version"] > SCHEMA_VERSION:
                raise CuratorError(
                    f"{folder} has schema version {data['schema_version']}, this curator reads up to {SCHEMA_VERSION}",
                    hint="pip install --upgrade sft-curator",
                )
            return cls(
                data["fingerprint"],
                [TaskResult.from_json(task) for task in data["tasks"]],
                data["schema"],
                data["history"],
                data["extra"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CuratorError(
                f"{path} is damaged: {type(error).__name__} {error}",
                hint="run the command that wrote the folder again with --overwrite",
            ) from None


PARTIAL = ".partial"
"""Folder inside an unfinished dataset: one JSON file for each finished task, and spilled rounds."""


@contextmanager
def placing(path: Path) -> Iterator[None]:
    """Give an error of the disk the name of the file it met; writes leave it out."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_atomic(path: Path, data: bytes, fault: str | None = None) -> None:
    """Write under a temporary name, fsync, rename. `fault` names a point for kill tests just before the rename."""
    temporary = path.with_name(f".tmp-{path.name}")
    with placing(path), temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if fault:
        fault_point(fault)
    temporary.rename(path)


def total_ledger(tasks: Iterable[TaskResult]) -> Ledger:
    total = Ledger()
    for task in tasks:
        total.add(task.ledger)
    return total
