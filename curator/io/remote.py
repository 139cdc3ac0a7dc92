"""Raw files on object stores and the hub: found like local ones, fetched once into a spool, hashed on the way.

Ingest reads a file more than once (what it is, where its lines end, then its rows, in several processes), and its
fingerprint needs the digest before any of that. An etag does not tell content (two uploads of the same bytes may
differ in it, and stores differ in how they make it), so the bytes come over the network once, into files beside the
output, and everything after is as for local files. The version that the store names is only the key under which a
digest is remembered: a run that finds nothing new fetches nothing.
"""

import fcntl
import fnmatch
import json
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import xxhash

from curator import log
from curator.errors import CuratorError, NothingFoundError, UsageError
from curator.faults import fault_point
from curator.io.manifest import MANIFEST, digest_bytes, write_atomic
from curator.io.stores import ArrowStore, Store, Version, changed

TRIES = 5
"""Calls in a row that may fail before a store is given up; bytes that arrive start the count again."""
FIRST_WAIT_SECONDS = 0.5
"""Before the second try; twice as long before each one after."""
THREADS = 8
HEAD_BYTES = 64 << 10
"""Enough of a file to see its format."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_READ = "s3://BUCKET/KEY, gs://BUCKET/KEY and hf://datasets/OWNER/NAME[@REVISION]/PATH are read"
# What the name alone says of the format: no need to look inside. (A damaged file is named later, not skipped.)
_TOLD_BY_NAME = re.compile(r"(?i)\.(jsonl|ndjson|json|csv|tsv|parquet)(\.(gz|zst))?$")

Result = TypeVar("Result")


def is_remote(path: str) -> bool:
    """Whether a path names something on a store: it begins with a scheme."""
    return _SCHEME.match(path) is not None


# --- finding files ------------------------------------------------------------------------------------------------


@dataclass
class Found:
    """What stands behind one URL. `named` is true for a file named outright: its folder decides with others'."""

    files: list[tuple[str, str]]
    """URL, and path relative to the folder or glob."""
    skipped: list[str]
    named: bool = False


def find(pattern: str, is_known: Callable[[str], bool]) -> Found:
    """Files behind a URL of a file, folder or glob, by the rules for local paths.

    `is_known` says whether a local file has a format that is read; it is asked about the first bytes of what lies in
    a folder, unless the name says enough. Raises CuratorError when there is nothing, or the store refuses.
    """
    store, key = open_store(pattern)
    kind = _patiently(store, pattern, lambda: store.kind(key))
    if kind == "file":
        return Found([(store.root + key, key)], [], named=True)
    if kind == "folder":
        found = _in_folder(store, key.rstrip("/"), pattern, is_known)
    elif any(char in key for char in "*?["):
        found = _matching(store, key, pattern)
    else:
        raise CuratorError(
            f"{pattern}: no such object", hint="check the name; list its folder with the store's own tool"
        )
    return found


def _in_folder(store: Store, folder: str, pattern: str, is_known: Callable[[str], bool]) -> Found:
    prefix = f"{folder}/" if folder else ""
    skipped: list[str] = []
    shown: list[str] = []
    for key in _patiently(store, pattern, lambda: sorted(store.files(folder, recursive=True))):
        parts = key.removeprefix(prefix).split("/")
        if any(part[:1] in (".", "_") for part in parts[:-1]):
            continue
        (skipped if parts[-1][0] in "._" else shown).append(key)

    def looks_known(key: str) -> bool:
        return bool(_TOLD_BY_NAME.search(key)) or _head_is_known(store, key, is_known)

    with ThreadPoolExecutor(THREADS) as pool:
        known = list(pool.map(looks_known, shown))
    files = [key for key, ok in zip(shown, known, strict=True) if ok]
    skipped += [key for key, ok in zip(shown, known, strict=True) if not ok]
    if not files:
        what = "holds no file that is read" if skipped else "is an empty folder"
        raise NothingFoundError(f"{pattern} {what}", hint="name another folder, or quote a glob such as '.../*.jsonl'")
    urls = [(store.root + key, key.removeprefix(prefix)) for key in files]
    return Found(urls, [store.root + key for key in skipped])


def _matching(store: Store, glob: str, pattern: str) -> Found:
    parts = glob.split("/")
    first = next(index for index, part in enumerate(parts) if any(char in part for char in "*?["))
    base, wanted = "/".join(parts[:first]), parts[first:]
    prefix = f"{base}/" if base else ""
    recursive = len(wanted) > 1 or "**" in wanted
    keys = _patiently(store, pattern, lambda: sorted(store.files(base, recursive)))
    matches = [key for key in keys if matches_glob(key.removeprefix(prefix).split("/"), wanted)]
    hidden = [key for key in matches if key.rpartition("/")[2][0] in "._"]
    files = [key for key in matches if key not in set(hidden)]
    if not files:
        raise NothingFoundError(f"no file matches {pattern}", hint=f"{len(keys):,} files lie in {store.root}{base}")
    return Found([(store.root + key, key.removeprefix(prefix)) for key in files], [store.root + key for key in hidden])


def matches_glob(path: Sequence[str], glob: Sequence[str]) -> bool:
    """Whether a relative path matches a glob, both as parts, by the rules of Python's recursive `glob`."""
    if not glob:
        return not path
    if glob[0] == "**":
        if len(glob) == 1:
            return all(not part.startswith(".") for part in path)
        return matches_glob(path, glob[1:]) or (
            bool(path) and not path[0].startswith(".") and matches_glob(path[1:], glob)
        )
    if not path or (path[0].startswith(".") and not glob[0].startswith(".")):
        return False
    return fnmatch.fnmatchcase(path[0], glob[0]) and matches_glob(path[1:], glob[1:])


def relative_to_common_folder(urls: Iterable[str]) -> list[tuple[str, str]]:
    """Files named one by one, with the path that starts at the folder all of those on their store lie in."""
    by_root: dict[str, list[str]] = {}
    for url in urls:
        store, key = open_store(url)
        by_root.setdefault(store.root, []).append(key)
    named = []
    for root, keys in by_root.items():
        folders = [key.split("/")[:-1] for key in keys]
        shared = os.path.commonprefix(folders)
        named += [(root + key, "/".join(key.split("/")[len(shared) :])) for key in keys]
    return named


def _head_is_known(store: Store, key: str, is_known: Callable[[str], bool]) -> bool:
    def head() -> bytes:
        version = store.version(key)
        return next(store.blocks(key, version, 0), b"")[:HEAD_BYTES] if version.size else b""

    with tempfile.TemporaryDirectory(prefix="curator-") as scratch:
        file = Path(scratch) / _local_name(key)
        file.write_bytes(_patiently(store, store.root + key, head))
        return is_known(str(file))


def _local_name(key: str) -> str:
    # The end of a name tells tables apart; a file system takes 255 bytes of it.
    return key.rpartition("/")[2].encode()[-200:].decode(errors="ignore")


# --- stores -------------------------------------------------------------------------------------------------------


def open_store(url: str) -> tuple[Store, str]:
    """The store of a URL, and the key in it, taken as it stands (nothing is decoded)."""
    found = _SCHEME.match(url)
    scheme, rest = (found[1].lower(), url[found.end() :]) if found else ("", url)
    if scheme in ("http", "https"):
        raise UsageError(f"{url}: plain web addresses are not read", hint=f"download it first (curl -LO); {_READ}")
    if scheme not in ("s3", "gs", "hf"):
        raise UsageError(f"{url}: {scheme}:// is not read", hint=_READ)
    if scheme == "hf":
        from curator.io.hub import split_url

        repository, revision, key = split_url(url)
        return _hub_store(repository, revision, os.environ.get("HF_ENDPOINT", "")), key
    bucket, _, key = rest.partition("/")
    if not bucket:
        raise UsageError(f"{url} names no bucket", hint=_READ)
    settings = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith(_SETTINGS)))
    return _bucket(scheme, bucket, settings), key


_SETTINGS = ("AWS_", "GS_", "GOOGLE_", "STORAGE_")


@lru_cache(32)
def _bucket(scheme: str, bucket: str, settings: tuple[tuple[str, str], ...]) -> Store:
    """One client for each bucket as long as the environment stays."""
    return ArrowStore(scheme, bucket)


@lru_cache(32)
def _hub_store(repository: str, revision: str | None, endpoint: str) -> Store:
    from curator.io.hub import HubStore

    return HubStore(repository, revision)


def _patiently(store: Store, url: str, call: Callable[[], Result]) -> Result:
    """The result of a call that may be made again. Raises CuratorError when it is refused, or keeps failing."""
    failures = 0
    while True:
        try:
            return call()
        except Exception as error:
            failures += 1
            _wait(store, url, error, failures)


def _wait(store: Store, url: str, error: Exception, failures: int) -> None:
    """Return when it is time for another try. Raises CuratorError when there is no point in one."""
    if isinstance(error, CuratorError):
        raise error
    if refusal := store.refusal(error, url):
        raise refusal from None
    if not isinstance(error, store.transient):
        raise error
    if failures >= TRIES:
        # Google's client puts a page of its own story behind what happened.
        reason = (str(error) or type(error).__name__).splitlines()[0].partition(" error_info=")[0]
        raise CuratorError(f"{url}: given up after {failures} tries: {reason}", hint=store.where()) from None
    time.sleep(FIRST_WAIT_SECONDS * 2 ** (failures - 1))


# --- the spool ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Object:
    """A file as its store describes it, and where its copy lies."""

    url: str
    version: Version
    folder: Path

    @property
    def copy(self) -> Path:
        return self.folder / _local_name(self.url)

    def to_json(self, digest: str) -> dict[str, Any]:
        return {"url": self.url, "tag": self.version.tag, "bytes": self.version.size, "digest": digest}


_DESCRIBED = ".object.json"
_UNFINISHED = ".unfinished"


class Spool:
    """Copies of remote files in `.fetch-<out>` beside the output, for as long as an ingest is unfinished.

    A file that is fetched whole stays there when the run is killed, and is not fetched again. A digest whose version
    is known from the finished folder (`timing.json`, which is outside every digest) costs one look at the store.
    """

    def __init__(self, out: Path, keeps: bool = True) -> None:
        """`keeps`: whether what was fetched stays when the work fails."""
        self._keeps = keeps
        self.folder = out.parent / f".fetch-{out.name}"
        self._known = _remembered(out)
        self._objects: dict[str, _Object] = {}
        self._digests: dict[str, str] = {}
        self._lock = -1
        self._stop = threading.Event()

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        """Of work that failed the fetched files stay; errors name the file on its store, not its copy."""
        if self._lock >= 0:
            if error is None or not self._keeps or not any(self.folder.glob(f"*/{_DESCRIBED}")):
                shutil.rmtree(self.folder, ignore_errors=True)
            else:
                log.info(f"what was fetched stays in {self.folder} for the next try")
            os.close(self._lock)
        if isinstance(error, CuratorError):
            for item in self._objects.values():
                error.message = error.message.replace(str(item.copy), item.url)

    def digests(self, urls: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Size in bytes and digest of the content of each URL; what is not known by its version is fetched."""
        self._describe(urls)
        self._fetch([url for url in urls if url not in self._digests])
        return {url: (self._objects[url].version.size, self._digests[url]) for url in urls}

    def known_digests(self, urls: Sequence[str]) -> dict[str, tuple[int, str]]:
        """The same for those that are known without fetching anything."""
        self._describe(urls)
        return {url: (self._objects[url].version.size, self._digests[url]) for url in urls if url in self._digests}

    def copies(self, urls: Sequence[str]) -> dict[str, str]:
        """Paths on disk of files that `digests` was asked for; only what is not there yet is fetched."""
        self._fetch([url for url in urls if not _is_whole(self._objects[url])])
        return {url: str(self._objects[url].copy) for url in urls}

    def memory(self) -> list[dict[str, Any]]:
        """What `timing.json` keeps, so that the next run knows the digests of versions it sees again."""
        return [item.to_json(self._digests[url]) for url, item in sorted(self._objects.items()) if url in self._digests]

    def _describe(self, urls: Sequence[str]) -> None:
        def describe(url: str) -> _Object:
            store, key = open_store(url)
            version = _patiently(store, url, lambda: store.version(key))
            name = digest_bytes(f"{url}\n{version.tag}\n{version.size}".encode())
            return _Object(url, version, self.folder / name)

        new = [url for url in urls if url not in self._objects]
        with ThreadPoolExecutor(THREADS) as pool:
            for item in pool.map(describe, new):
                self._objects[item.url] = item
                if digest := self._known.get((item.url, item.version)) or _whole_digest(item):
                    self._digests[item.url] = digest

    def _fetch(self, urls: Sequence[str]) -> None:
        items = [self._objects[url] for url in urls]
        if not items:
            return
        self._own_folder({item.folder.name for item in self._objects.values()})
        total = sum(item.version.size for item in items)
        free = shutil.disk_usage(self.folder).free
        if total > free:
            raise CuratorError(
                f"{len(items):,} files of {total:,} bytes are to be fetched, {self.folder.parent} has {free:,} free",
                hint="make room, or choose an --out on another disk: files are copied beside it first",
            )
        pool = ThreadPoolExecutor(THREADS)
        try:
            with log.progress(total, "fetch", "bytes") as bar:
                futures = [pool.submit(self._fetch_one, item, bar.advance) for item in items]
                for item, future in zip(items, futures, strict=True):
                    self._digests[item.url] = future.result()
        except BaseException:
            self._stop.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _own_folder(self, wanted: set[str]) -> None:
        """Make and lock the folder; copies of versions that nobody asks for any more go."""
        if self._lock >= 0:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise CuratorError(
                f"{self.folder} is being filled by another process", hint="wait for it to end, or choose another --out"
            ) from None
        self._lock = lock
        for entry in self.folder.iterdir():
            if entry.is_dir() and entry.name not in wanted:
                shutil.rmtree(entry)

    def _fetch_one(self, item: _Object, advance: Callable[[float], None]) -> str:
        """Copy an object, going on behind the last good byte after a failure; returns the digest of its content."""
        if digest := _whole_digest(item):
            return digest
        store, key = open_store(item.url)
        item.folder.mkdir(exist_ok=True)
        unfinished = item.folder / _UNFINISHED
        hasher, done, failures = xxhash.xxh3_128(), 0, 0
        with unfinished.open("wb") as file:
            while done < item.version.size:
                try:
                    for block in store.blocks(key, item.version, done):
                        file.write(block)
                        hasher.update(block)
                        done += len(block)
                        failures = 0
                        advance(len(block))
                        if self._stop.is_set():
                            raise CuratorError("fetching was stopped", hint="the same command goes on from there")
                    if done < item.version.size:
                        raise OSError(f"the body ended {item.version.size - done:,} bytes early")
                except Exception as error:
                    failures += 1
                    try:
                        _wait(store, item.url, error, failures)
                    except CuratorError:
                        # What is not found any more, or not to be read on, has changed more often than not.
                        if _is_other(store, key, item.version):
                            raise changed(item.url) from None
                        raise
            file.flush()
            os.fsync(file.fileno())
        if _patiently(store, item.url, lambda: store.version(key)) != item.version:
            raise changed(item.url)
        unfinished.rename(item.copy)
        digest = hasher.hexdigest()
        write_atomic(item.folder / _DESCRIBED, json.dumps(item.to_json(digest)).encode())
        fault_point("fetched")
        return digest


def _is_other(store: Store, key: str, version: Version) -> bool:
    try:
        return store.version(key) != version
    except Exception:
        return False


def _is_whole(item: _Object) -> bool:
    return _whole_digest(item) is not None


def _whole_digest(item: _Object) -> str | None:
    """The digest of an object's copy, if it was fetched whole."""
    try:
        described = json.loads((item.folder / _DESCRIBED).read_bytes())
        return described["digest"] if item.copy.stat().st_size == item.version.size else None
    except (OSError, ValueError, KeyError):
        return None


def _remembered(out: Path) -> dict[tuple[str, Version], str]:
    """Digests by URL and version, from the last run that finished the folder."""
    try:
        fetched = json.loads((out / "timing.json").read_bytes())["fetched"] if (out / MANIFEST).exists() else []
        return {(item["url"], Version(item["bytes"], item["tag"])): item["digest"] for item in fetched}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


@contextmanager
def on_disk(path: str) -> Iterator[str]:
    """The path of a file that can be read; a remote one is copied for as long as the context lasts."""
    if not is_remote(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="curator-") as scratch, Spool(Path(scratch) / "file", keeps=False) as spool:
        spool.digests([path])
        yield spool.copies([path])[path]
