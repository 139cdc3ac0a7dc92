"""The folders of a piece of work, found by their manifests and put in the order in which data flows."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curator.errors import CuratorError
from curator.io.manifest import FORMAT, MANIFEST, PARTIAL, RUN_FORMAT, Manifest, digest_bytes


@dataclass(frozen=True)
class Folder:
    """A dataset folder (`manifest` set) or the folder of a training run."""

    path: Path
    manifest: Manifest | None
    data: dict[str, Any]
    digest: str
    problem: str | None = None
    """Why its manifest cannot be read."""


def find_folders(root: Path) -> tuple[list[Folder], list[Path]]:
    """Complete folders at or below `root`, producers before consumers; and unfinished ones."""
    if not root.exists():
        raise CuratorError(f"{root}: no such folder", hint=f"looked in {Path.cwd()}")
    found = []
    for path in sorted(root.rglob(MANIFEST)):
        if PARTIAL in path.parts:
            continue
        try:
            data = json.loads(path.read_bytes())
            if not isinstance(data, dict) or data.get("format") not in (FORMAT, RUN_FORMAT):
                continue
            manifest = Manifest.read(path.parent) if data["format"] == FORMAT else None
        except ValueError as error:
            found.append(Folder(path.parent, None, {}, "", f"{MANIFEST} is damaged: {error}"))
            continue
        except CuratorError as error:
            found.append(Folder(path.parent, None, {}, "", error.message.removeprefix(f"{path.parent} ")))
            continue
        found.append(Folder(path.parent, manifest, data, digest_bytes(path.read_bytes())))
    # A run claims its folder by its fingerprint, a dataset by what it holds while it is written.
    begun = {path.parent for name in (PARTIAL, "fingerprint.json") for path in root.rglob(name)}
    unfinished = sorted(path for path in begun if path.name != PARTIAL and not (path / MANIFEST).exists())
    return _in_order(found), unfinished


def _in_order(folders: list[Folder]) -> list[Folder]:
    """Each folder behind those whose digests it names as inputs."""
    by_digest = {folder.digest: folder for folder in folders}
    ordered: list[Folder] = []

    def visit(folder: Folder) -> None:
        if folder in ordered:
            return
        if folder.manifest is not None:
            for item in folder.manifest.fingerprint["inputs"]:
                if (producer := by_digest.get(item.get("digest", ""))) is not None and producer is not folder:
                    visit(producer)
        ordered.append(folder)

    # Runs come last: they read mixtures.
    for folder in sorted(folders, key=lambda item: (item.manifest is None, str(item.path))):
        visit(folder)
    return ordered
