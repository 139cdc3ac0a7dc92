"""Zip archives: every member is a file of its own, called `archive.zip!member`; nothing is ever unpacked to disk."""

import os
import stat
import zipfile
from typing import IO

from curator.errors import CuratorError

MARK = "!"
MAX_RATIO = 1000
"""A member that unpacks to more than this many times its packed size (and 64 MiB) is taken for a bomb."""
_WORTH_CHECKING_BYTES = 64 << 20


def is_zip(path: str) -> bool:
    """Whether a file begins like a zip archive."""
    with open(path, "rb") as file:
        return file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")


def split_member(path: str) -> tuple[str, str] | None:
    """The archive and the member of `archive.zip!member`, None for a path that exists as it is."""
    if MARK not in path or os.path.lexists(path):
        return None
    at = path.find(MARK)
    while at >= 0:
        if os.path.isfile(path[:at]):
            return path[:at], path[at + 1 :]
        at = path.find(MARK, at + 1)
    return None


def _opened(path: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise CuratorError(f"{path} is not a whole zip file: {error}", hint="fetch it again") from None


def members(path: str) -> tuple[list[str], list[str]]:
    """Members that are files as `archive!member`, and those passed over (hidden ones, what macOS adds)."""
    found: list[str] = []
    skipped: list[str] = []
    with _opened(path) as archive:
        for info in archive.infolist():
            if info.is_dir() or stat.S_ISLNK(info.external_attr >> 16):
                continue
            name = f"{path}{MARK}{info.filename}"
            hidden = any(part[:1] in ("_", ".") and part != ".." for part in info.filename.split("/"))
            (skipped if hidden else found).append(name)
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise CuratorError(f"{twice}: two members have this name", hint="unpack the archive")
    return found, skipped


def member_size(path: str, member: str) -> int:
    """Bytes of the unpacked member."""
    with _opened(path) as archive:
        return archive.getinfo(member).file_size


def open_member(path: str, member: str) -> IO[bytes]:
    """A member as a stream. Raises CuratorError when it is encrypted or unpacks to something monstrous."""
    name = f"{path}{MARK}{member}"
    archive = _opened(path)
    try:
        info = archive.getinfo(member)
        if info.flag_bits & 1:
            raise CuratorError(f"{name} is encrypted", hint="unpack it with its password")
        if info.file_size > _WORTH_CHECKING_BYTES and info.file_size > MAX_RATIO * max(1, info.compress_size):
            raise CuratorError(
                f"{name} unpacks to {info.file_size:,} bytes, more than {MAX_RATIO} times its packed size",
                hint="if it is no zip bomb, unpack it yourself",
            )
        return archive.open(info)
    except KeyError:
        raise CuratorError(f"{path} has no member {member}") from None
    except (zipfile.BadZipFile, NotImplementedError, OSError) as error:
        raise CuratorError(f"{name} cannot be read: {error}", hint="fetch the archive again") from None
    finally:
        # The stream of a member keeps the file open by itself.
        archive.close()
