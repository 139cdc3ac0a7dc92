"""Images of a dataset: each stored once under `media/`, by the digest of its bytes, and tied to places in turns."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from curator.faults import fault_point
from curator.io.manifest import FileEntry, digest_bytes, placing

if TYPE_CHECKING:
    from curator.io.adapters.base import Draft  # datasets are read without what adapters need

if TYPE_CHECKING:
    from curator.io.adapters.base import Draft  # datasets are read without what adapters need

MEDIA = "media"
IMAGES = "images"
"""The note under which a task counts the images that it tied to turns."""
MAX_IMAGE_BYTES = 256 << 20
_TEMPORARY = ".tmp-"
_COLUMNS = tuple(f"{side}.list.element.images.list.element.sha256" for side in ("messages", "rejected"))

_TYPES = (
    (b"\x89PNG\r\n\x1a\n", "image/png", "png"),
    (b"\xff\xd8\xff", "image/jpeg", "jpg"),
    (b"GIF87a", "image/gif", "gif"),
    (b"GIF89a", "image/gif", "gif"),
    (b"BM", "image/bmp", "bmp"),
    (b"II*\x00", "image/tiff", "tif"),
    (b"MM\x00*", "image/tiff", "tif"),
)
_UNKNOWN = ("application/octet-stream", "bin")
_EXTENSIONS = {mime: ending for _, mime, ending in _TYPES} | {
    "image/webp": "webp",
    "image/avif": "avif",
    "image/heic": "heic",
    "image/svg+xml": "svg",
    _UNKNOWN[0]: _UNKNOWN[1],
}


def mime_of(data: bytes) -> str:
    """What an image is, from its first bytes; a name or a header may say anything."""
    for magic, mime, _ in _TYPES:
        if data.startswith(magic):
            return mime
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[4:8] == b"ftyp":
        return {b"avif": "image/avif", b"avis": "image/avif", b"heic": "image/heic", b"heix": "image/heic"}.get(
            data[8:12], _UNKNOWN[0]
        )
    if b"<svg" in data[:1024] and data.lstrip()[:1] == b"<":
        return "image/svg+xml"
    return _UNKNOWN[0]


def media_name(digest: str, mime: str) -> str:
    """The path of an image in its dataset folder."""
    return f"{MEDIA}/{digest[:2]}/{digest}.{_EXTENSIONS.get(mime, _UNKNOWN[1])}"


class MediaStore:
    """Takes the images of one raw file into a dataset folder (None: they are only looked at).

    Paths are relative to `root`, and nothing outside it is read. Workers may store the same image at once: each writes
    under a name of its own and renames.
    """

    def __init__(self, folder: Path | None, root: Path | None) -> None:
        self._folder = folder
        self._root = None if root is None else Path(os.path.realpath(root))
        self._stored: dict[str, str] = {}
        self._numbers = count()
        self.placed = self.missing = 0

    def resolve(self, draft: "Draft") -> None:
        """Store the images of a draft. Those that cannot be had leave the turns, are told in `form` and tagged."""
        missing: list[dict[str, Any]] = []
        issues: set[str] = set()
        for side, turns in (("messages", draft.messages), ("rejected", draft.rejected or ())):
            for turn, message in enumerate(turns):
                if not message.images:
                    continue
                kept = []
                for at, image in enumerate(message.images):
                    data = self._data(image)
                    if isinstance(data, bytes):
                        digest, mime = self.put(data)
                        kept.append({"sha256": digest, "mime": mime, "offset": image["offset"]})
                        if mime == _UNKNOWN[0]:
                            issues.add("image_unreadable")
                        continue
                    issues.add(data)
                    place = {"side": side, "turn": turn, "at": at, "offset": image["offset"], "issue": data}
                    missing.append({**place, "reference": image.get("reference")})
                message.images = kept or None
                self.placed += len(kept)
        self.missing += len(missing)
        if missing:
            draft.form = {**draft.form, "missing_images": missing}
        draft.issues = (*draft.issues, *sorted(issues))

    def _data(self, image: Mapping[str, Any]) -> bytes | str:
        """The bytes of an image, or the name of what is wrong."""
        if "data" in image:
            return bytes(image["data"])
        reference = image.get("reference")
        if not reference:
            return "image_missing"
        if "://" in reference:
            return "image_remote"
        if self._root is None or reference.startswith("data:") or "\x00" in reference:
            return "image_missing"
        try:
            path = Path(os.path.realpath(self._root / reference))
            if not path.is_relative_to(self._root):
                return "image_refused"
            if not path.is_file() or path.stat().st_size > MAX_IMAGE_BYTES:
                return "image_missing"
            return path.read_bytes()
        except OSError:
            return "image_missing"

    def put(self, data: bytes) -> tuple[str, str]:
        """Store an image; its sha256 in hex, and what it is."""
        digest = hashlib.sha256(data).hexdigest()
        mime = self._stored.get(digest)
        if mime is None:
            mime = mime_of(data)
            if self._folder is not None:
                self._write(self._folder / media_name(digest, mime), data)
            self._stored[digest] = mime
        return digest, mime

    def _write(self, path: Path, data: bytes) -> None:
        if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
            return
        temporary = path.with_name(f"{_TEMPORARY}{os.getpid()}-{next(self._numbers)}-{path.name}")
        with placing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            fault_point("after_temporary_write")
            temporary.rename(path)


# --- what a folder holds --------------------------------------------------------------------------------------------


def image_digests(folder: Path, entries: Iterable[FileEntry]) -> set[str]:
    """The sha256 of every image that the records of these shards name."""
    found: set[str] = set()
    for entry in entries:
        with pq.ParquetFile(folder / entry.path) as file:
            for index in range(file.num_row_groups):
                table = file.read_row_group(index, columns=list(_COLUMNS), use_threads=False)
                for column in table.columns:
                    values = column.combine_chunks()
                    while hasattr(values, "flatten") and values.type.num_fields:
                        values = values.flatten() if not _is_struct(values) else values.flatten()[0]
                    found.update(value for value in values.unique().to_pylist() if value is not None)
    return found


def _is_struct(values: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_struct(values.type)


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in sorted((folder / MEDIA).rglob("*")) if file.is_file())


def sweep(folder: Path, wanted: set[str] | None = None) -> None:
    """Delete what an interrupted run left under `media/`: temporary files and, when `wanted` says, strange images."""
    for file in _files(folder):
        if file.name.startswith(_TEMPORARY) or (wanted is not None and file.stem not in wanted):
            file.unlink(missing_ok=True)


def describe(folder: Path, shards: Sequence[FileEntry], placed: int) -> dict[str, Any]:
    """For the manifest: how many images stand in turns, and the files that hold them. Sweeps what is left over."""
    wanted = image_digests(folder, shards) if placed else set()
    sweep(folder, wanted)
    if not placed:
        return {}
    return {IMAGES: {"placed": placed, **_account(_files(folder))}}


def _account(files: Iterable[Path]) -> dict[str, Any]:
    files = list(files)
    names = "\n".join(sorted(file.name for file in files))
    return {
        "files": len(files),
        "bytes": sum(file.stat().st_size for file in files),
        "xxh3_of_names": digest_bytes(names.encode()),
    }


def find_image(folder: Path, digest: str) -> Path | None:
    """The file of an image in a dataset folder, whatever it was taken for."""
    names = (folder / MEDIA / digest[:2] / f"{digest}.{ending}" for ending in _EXTENSIONS.values())
    return next((file for file in names if file.is_file()), None)


def problems(folder: Path, digests: Iterable[str]) -> list[str]:
    """What is wrong with these images: missing, or with other bytes than their names say."""
    found = []
    for digest in sorted(digests):
        file = find_image(folder, digest)
        if file is None:
            found.append(f"image {digest} is missing from {MEDIA}/")
        elif _sha256(file) != digest:
            found.append(f"{file.relative_to(folder)} has other bytes than were written")
    return found


def check_media(folder: Path, shards: Sequence[FileEntry], recorded: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Problems and strays of a folder's own images, against its records and its manifest."""
    digests = image_digests(folder, shards)
    found = problems(folder, digests)
    strays = [f"stray file: {file.relative_to(folder)}" for file in _files(folder) if file.stem not in digests]
    if not found and not strays and _account(_files(folder)) != {key: recorded[key] for key in _account([])}:
        found.append(f"{MEDIA}/ holds other files than the manifest says")
    return found, strays


def folders_with_media(folder: Path) -> list[Path]:
    """The folder itself and those it was made from, nearest first, that hold images.

    Steps behind ingest do not copy images: a folder names the ones it read in `timing.json`.
    """
    found: list[Path] = []
    waiting, seen = [folder], {folder.resolve()}
    while waiting:
        here = waiting.pop(0)
        if (here / MEDIA).is_dir():
            found.append(here)
        try:
            inputs = [Path(path) for path in json.loads((here / "timing.json").read_bytes())["inputs"]]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        for path in inputs:
            if path.is_dir() and path.resolve() not in seen:
                seen.add(path.resolve())
                waiting.append(path)
    return found


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
