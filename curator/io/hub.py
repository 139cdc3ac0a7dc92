"""The Hugging Face hub: datasets there as sources, and folders pushed to it. HF_ENDPOINT names another hub."""

import os
import re
from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import unquote

from curator.errors import CuratorError, UsageError
from curator.extras import require
from curator.io.stores import BLOCK_BYTES, Version, missing

_DATASET = re.compile(
    r"hf://datasets/(?P<repository>[^/@]+/[^/@]+)(@(?P<revision>refs/(?:convert|pr)/[^/]+|[^/]+))?(/(?P<path>.*))?"
)


def split_url(url: str) -> tuple[str, str | None, str]:
    """OWNER/NAME, the revision if one is given, and the path in the repository."""
    found = _DATASET.fullmatch(url)
    if found is None:
        raise UsageError(f"{url} names no dataset on the hub", hint="hf://datasets/OWNER/NAME[@REVISION]/PATH")
    revision = found["revision"]
    return found["repository"], unquote(revision) if revision else None, found["path"] or ""


def _api() -> Any:
    return require("huggingface_hub", "hub").HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None)


class HubStore:
    """One commit of a dataset repository: what a branch pointed at when it was opened, so nothing changes below it."""

    def __init__(self, repository: str, revision: str | None) -> None:
        self._api = _api()
        # The base class of the HTTP client's errors, whichever client this version of the library is built on.
        errors = require("huggingface_hub.errors", "hub").HfHubHTTPError.__mro__
        self.transient: tuple[type[Exception], ...] = (
            OSError,
            next(known for known in errors if known.__name__ == "HTTPError"),
        )
        self._repository, self._revision = repository, revision
        self._commit: str | None = None
        self._filesystem: Any = None

    @property
    def root(self) -> str:
        return f"hf://datasets/{self._repository}@{self._pinned()}/"

    def _pinned(self) -> str:
        if self._commit is None:
            self._commit = self._api.dataset_info(self._repository, revision=self._revision).sha
        return self._commit

    def _entry(self, key: str) -> Any:
        entries = self._api.get_paths_info(self._repository, [key], revision=self._pinned(), repo_type="dataset")
        return next((entry for entry in entries if entry.path == key), None)

    def kind(self, key: str) -> Literal["file", "folder"] | None:
        self._pinned()
        name = key.rstrip("/")
        if not name:
            return "folder"
        entry = self._entry(name)
        if entry is None:
            return None
        is_file = hasattr(entry, "blob_id")
        return None if is_file and key.endswith("/") else "file" if is_file else "folder"

    def files(self, folder: str, recursive: bool) -> Iterator[str]:
        entries = self._api.list_repo_tree(
            self._repository, folder or None, recursive=recursive, revision=self._pinned(), repo_type="dataset"
        )
        for entry in entries:
            if hasattr(entry, "blob_id"):
                yield entry.path

    def version(self, key: str) -> Version:
        entry = self._entry(key)
        if entry is None:
            raise missing(self.root + key)
        return Version(entry.size, entry.lfs.sha256 if entry.lfs else entry.blob_id)

    def blocks(self, key: str, version: Version, start: int) -> Iterator[bytes]:
        if self._filesystem is None:
            hub = require("huggingface_hub", "hub")
            self._filesystem = hub.HfFileSystem(endpoint=self._api.endpoint, skip_instance_cache=True)
        path = self.root.removeprefix("hf://") + key
        with self._filesystem.open(path, "rb", block_size=BLOCK_BYTES, cache_type="none") as file:
            file.seek(start)
            while block := file.read(min(BLOCK_BYTES, version.size - start)):
                start += len(block)
                yield block

    def refusal(self, error: Exception, url: str) -> CuratorError | None:
        return _refusal(error, url)

    def where(self) -> str:
        return _where()


def _where() -> str:
    endpoint = os.environ.get("HF_ENDPOINT")
    return f"HF_ENDPOINT is {endpoint}" if endpoint else "check the network"


def _refusal(error: Exception, url: str) -> CuratorError | None:
    errors = require("huggingface_hub.errors", "hub")
    response = getattr(error, "response", None)
    code = getattr(response, "status_code", None)
    if isinstance(error, errors.GatedRepoError):
        return CuratorError(f"{url} is gated", hint="ask for access on its page, then set HF_TOKEN")
    if isinstance(error, errors.RevisionNotFoundError):
        return CuratorError(f"{url}: there is no such revision", hint="name a branch, a tag or a commit behind the @")
    if code == 401 or isinstance(error, errors.RepositoryNotFoundError):
        has_token = bool(os.environ.get("HF_TOKEN"))
        return CuratorError(
            f"{url}: there is no such dataset, or it is private",
            hint="HF_TOKEN may not read it" if has_token else "check the name, or set HF_TOKEN",
        )
    if code == 403:
        return CuratorError(f"{url}: access is refused", hint="check what HF_TOKEN may do")
    if code == 404 or isinstance(error, FileNotFoundError):
        return missing(url)
    return None
