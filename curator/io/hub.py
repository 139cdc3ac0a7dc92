"""The Hugging Face hub: datasets there as sources, and folders pushed to it. HF_ENDPOINT names another hub."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
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


def _transient() -> tuple[type[Exception], ...]:
    # The base class of the HTTP client's errors, whichever client this version of the library is built on.
    bases = require("huggingface_hub.errors", "hub").HfHubHTTPError.__mro__
    return OSError, next(base for base in bases if base.__name__ == "HTTPError")


class HubStore:
    """One commit of a dataset repository: what a branch pointed at when it was opened, so nothing changes below it."""

    def __init__(self, repository: str, revision: str | None) -> None:
        self._api = _api()
        self.transient = _transient()
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


# --- pushing ------------------------------------------------------------------------------------------------------


def require_pushable(repository: str, licenses: Mapping[str, int], any_license: bool) -> None:
    """Raise UsageError or CuratorError for what would stop a push, or should: no token, a licence that is not known."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", repository):
        raise UsageError(f"--push {repository} names no dataset", hint="--push OWNER/NAME")
    require("huggingface_hub", "hub")
    if not os.environ.get("HF_TOKEN"):
        raise CuratorError("--push needs a token", hint="set HF_TOKEN to one that may write")
    unknown = sum(count for name, count in licenses.items() if name.lower() in ("", "unknown", "none"))
    if unknown and not any_license:
        raise CuratorError(
            f"{unknown:,} of {sum(licenses.values()):,} records have no known licence, so it is not pushed",
            hint="ingest with --license NAME, or push it all the same with --any-license",
        )


def push(folder: Path, repository: str) -> str:
    """Upload an exported folder to a dataset repository, made (private) if it is not there; returns its URL.

    Files of an earlier push that are not in the folder go. Raises CuratorError when the hub refuses.
    """
    api = _api()
    url = f"{api.endpoint}/datasets/{repository}"
    token = os.environ["HF_TOKEN"]
    try:
        api.create_repo(repository, repo_type="dataset", private=True, exist_ok=True, token=token)
        api.upload_folder(
            repo_id=repository,
            folder_path=folder,
            repo_type="dataset",
            token=token,
            commit_message="Export by curator",
            delete_patterns=["data/**"],
        )
    except Exception as error:
        if refusal := _push_refusal(error, url):
            raise refusal from None
        if not isinstance(error, (*_transient(), RuntimeError)):  # the last: the library's own, of one file
            raise
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise CuratorError(
            f"{url}: the push failed: {reason}", hint=f"{_where()}; the same command uploads only what is missing"
        ) from None
    return url


def _push_refusal(error: Exception, url: str) -> CuratorError | None:
    code = getattr(getattr(error, "response", None), "status_code", None)
    if code == 401:
        return CuratorError(f"{url}: the token is not accepted", hint="make a new one and set HF_TOKEN")
    if code == 403:
        return CuratorError(f"{url}: the token may not write there", hint="HF_TOKEN must have the right to write")
    if code == 404:
        return CuratorError(f"{url}: there is no such owner or dataset", hint="check OWNER/NAME")
    if isinstance(error, ValueError):
        return CuratorError(
            f"{url}: the hub refuses the folder: {str(error).splitlines()[-1]}", hint="see its README.md"
        )
    return None
