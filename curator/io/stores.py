"""Object stores, each behind the same few calls: what is there, which version it is, its bytes from a place on."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Protocol

from curator.errors import CuratorError

BLOCK_BYTES = 4 << 20
"""What is read at once, and so what a reading thread holds."""

S3_ATTEMPTS = 3
"""How often Amazon's client makes one call by itself."""
GCS_RETRY_SECONDS = 5
"""For how long Google's client repeats one call that fails."""


@dataclass(frozen=True)
class Version:
    """What tells the content of an object from what stood under its name before or stands there later."""

    size: int
    tag: str
    """Etag, time of the last change, or blob id."""


class ChangedError(CuratorError):
    """The object is not the version that was looked at before."""


class Store(Protocol):
    """One bucket, or one revision of one repository. Keys have no leading slash; errors are the client's own."""

    @property
    def root(self) -> str:
        """URL of the whole store with a slash at the end: a key behind it is the URL of an object."""

    @property
    def transient(self) -> tuple[type[Exception], ...]:
        """Errors after which a call may be made again, unless they are a refusal."""

    def kind(self, key: str) -> Literal["file", "folder"] | None:
        """What a key names; the empty key is a folder."""

    def files(self, folder: str, recursive: bool) -> Iterator[str]:
        """Keys of the files in a folder, in no order."""

    def version(self, key: str) -> Version:
        """The version that stands under the key now."""

    def blocks(self, key: str, version: Version, start: int) -> Iterator[bytes]:
        """The bytes from `start` on, at most `BLOCK_BYTES` at a time. Raises ChangedError for another version."""

    def refusal(self, error: Exception, url: str) -> CuratorError | None:
        """The error as a person can act on it, or None for one that may pass when the call is made again."""

    def where(self) -> str:
        """What to check when every try has failed."""


def changed(url: str) -> ChangedError:
    return ChangedError(f"{url} changed while it was read", hint="run the command again when nothing writes there")


def missing(url: str) -> CuratorError:
    return CuratorError(f"{url}: no such object", hint="check the name; list its folder with the store's own tool")


class ArrowStore:
    """A bucket through pyarrow's own S3 or GCS client."""

    transient: tuple[type[Exception], ...] = (OSError,)

    def __init__(self, scheme: str, bucket: str) -> None:
        self.root = f"{scheme}://{bucket}/"
        self._scheme, self._bucket = scheme, bucket
        self._filesystem: Any = _s3(bucket) if scheme == "s3" else _gcs()

    def _path(self, key: str) -> str:
        return f"{self._bucket}/{key}" if key else self._bucket

    def kind(self, key: str) -> Literal["file", "folder"] | None:
        from pyarrow.fs import FileType

        found = self._filesystem.get_file_info(self._path(key.rstrip("/"))).type
        if found == FileType.File:
            return None if key.endswith("/") else "file"
        if found == FileType.Directory:
            return "folder"
        # A bucket that may be listed but not looked at, or a folder without a marker of its own.
        return "folder" if not key else None

    def files(self, folder: str, recursive: bool) -> Iterator[str]:
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._path(folder.rstrip("/")), recursive=recursive)
        for found in self._filesystem.get_file_info(selector):
            if found.type == FileType.File:
                yield found.path[len(self._bucket) + 1 :]

    def version(self, key: str) -> Version:
        from pyarrow.fs import FileType

        if self._scheme == "s3":
            # The file's facts are those of the look that opening it takes; the listing has no etag.
            with self._filesystem.open_input_file(self._path(key)) as file:
                facts = {name.lower(): value.decode() for name, value in file.metadata().items()}
                return Version(file.size(), facts.get("etag") or facts["last-modified"])
        found = self._filesystem.get_file_info(self._path(key))
        if found.type != FileType.File:
            raise missing(self.root + key)
        # Microseconds of the last change. (Asking an open file for its generation would stop every other thread.)
        return Version(found.size, str(found.mtime_ns))

    def blocks(self, key: str, version: Version, start: int) -> Iterator[bytes]:
        if self.version(key) != version:
            raise changed(self.root + key)
        file = self._filesystem.open_input_file(self._path(key))
        try:
            file.seek(start)
            while block := file.read(min(BLOCK_BYTES, version.size - start)):
                start += len(block)
                yield block
        except ValueError as error:
            # Google's client closes a file whose connection broke off, and says so at the next read.
            raise OSError(f"the connection broke off: {error}") from None
        finally:
            with suppress(ValueError, OSError):
                file.close()

    def refusal(self, error: Exception, url: str) -> CuratorError | None:
        text = str(error)
        if re.search(r"NO_SUCH_BUCKET|NoSuchBucket|NOT_FOUND.*function=ListObjects", text):
            return CuratorError(f"{url}: there is no bucket {self._bucket}", hint=self.where())
        if re.search(
            r"PERMANENT_REDIRECT|configured region|AuthorizationHeaderMalformed|HTTP status code: 30[17]", text
        ):
            return CuratorError(
                f"{url}: the bucket is in another region" + _named_region(text),
                hint="set AWS_REGION to the bucket's region"
                + (", or check AWS_ENDPOINT_URL" if _s3_endpoint() else ""),
            )
        if re.search(_REFUSED, text):
            return CuratorError(f"{url}: access is refused", hint=self._credentials())
        if isinstance(error, FileNotFoundError) or "NO_SUCH_KEY" in text or "RESOURCE_NOT_FOUND" in text:
            return missing(url)
        return None

    def where(self) -> str:
        """What to check when every try has failed."""
        if self._scheme == "s3":
            return f"AWS_ENDPOINT_URL is {_s3_endpoint()}" if _s3_endpoint() else "check the network and AWS_REGION"
        host = os.environ.get("STORAGE_EMULATOR_HOST")
        return f"STORAGE_EMULATOR_HOST is {host}" if host else "check the network"

    def _credentials(self) -> str:
        if self._scheme == "s3":
            if _has_aws_credentials():
                return "the credentials may not read it: check AWS_PROFILE or AWS_ACCESS_KEY_ID"
            return "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_NO_SIGN_REQUEST=1 for a public bucket"
        if os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
            return "the account of GOOGLE_APPLICATION_CREDENTIALS may not read it"
        return "set GOOGLE_APPLICATION_CREDENTIALS, or GS_NO_SIGN_REQUEST=1 for a public bucket"


_REFUSED = (
    r"(?i)access.?denied|forbidden|permission_denied|status code: 40[13]|invalid_access_key|invalidaccesskey"
    r"|signature_?does|invalid_signature|invalid_client_token|expired_?token|token_?expired|unauthenticated|credentials"
)


def _named_region(text: str) -> str:
    found = re.search(r"(?:located in|expecting) '([a-z0-9-]+)'", text)
    return f", {found[1]}" if found else ""


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "yes", "true")


def _s3_endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def _has_aws_credentials() -> bool:
    names = ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if any(os.environ.get(name) for name in (*names, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")):
        return True
    file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or Path.home() / ".aws/credentials"
    return Path(file).is_file()


def _s3(bucket: str) -> Any:
    from pyarrow import fs

    options: dict[str, Any] = {}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if endpoint := _s3_endpoint():
        scheme, _, host = endpoint.rpartition("://")
        options |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or "https"}
    elif not region:
        try:
            region = fs.resolve_s3_region(bucket)
        except OSError:
            region = None  # the first real call says what is wrong
    return fs.S3FileSystem(
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=S3_ATTEMPTS),
        anonymous=_is_set("AWS_NO_SIGN_REQUEST"),
        region=region,
        connect_timeout=10,
        request_timeout=60,
        **options,
    )


def _gcs() -> Any:
    from pyarrow import fs

    options: dict[str, Any] = {}
    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    if emulator:
        scheme, _, host = emulator.rpartition("://")
        options |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or "http"}
    # The client would try for fifteen minutes by itself; the tries above it go on where a body broke off.
    return fs.GcsFileSystem(
        anonymous=bool(emulator) or _is_set("GS_NO_SIGN_REQUEST"),
        retry_time_limit=timedelta(seconds=GCS_RETRY_SECONDS),
        **options,
    )
