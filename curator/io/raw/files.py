"""Finding the files behind paths, folders and globs."""

import os
from collections.abc import Iterable
from pathlib import Path

from curator import log
from curator.errors import CuratorError
from curator.io.raw.base import STDIN, RawFile, UnknownFormatError
from curator.io.raw.reader import RawReader
from curator.io.remote import find, is_remote, relative_to_common_folder


def expand(patterns: Iterable[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Files behind paths, folders, globs and URLs of stores as (path, relative path), sorted by relative path; and what
    was skipped.

    A relative path starts at the folder that a glob or folder names, or at the common parent of files named one by
    one. Names that begin with `.` or `_` are skipped unless given outright; so are, inside a folder, files of no known
    format (a licence text). Raises CuratorError for a pattern that matches nothing.
    """
    import glob

    named: list[str] = []
    named_remote: list[str] = []
    found: list[tuple[str, str]] = []
    skipped: list[str] = []
    for pattern in patterns:
        if pattern == STDIN:
            found.append((STDIN, STDIN))
        elif is_remote(pattern):
            behind = find(pattern, _is_known)
            if behind.named:
                named_remote.append(behind.files[0][0])
            else:
                found += behind.files
                skipped += behind.skipped
        elif os.path.isdir(pattern):
            before = len(found)
            for folder, folders, names in os.walk(pattern):
                folders[:] = sorted(name for name in folders if name[0] not in "._")
                for name in names:
                    path = os.path.join(folder, name)
                    if name[0] in "._" or not _is_known(path):
                        skipped.append(path)
                    else:
                        found.append((path, os.path.relpath(path, pattern)))
            if len(found) == before:
                what = "holds no file that is read" if skipped else "is an empty folder"
                raise CuratorError(f"{pattern} {what}", hint=f"looked in {os.getcwd()}")
        elif os.path.exists(pattern):
            named.append(pattern)
        elif any(char in pattern for char in "*?["):
            base = _glob_base(pattern)
            matches = [path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]
            hidden = [path for path in matches if os.path.basename(path)[0] in "._"]
            skipped += hidden
            matches = [path for path in matches if path not in set(hidden)]
            if not matches:
                raise CuratorError(f"no file matches {pattern}", hint=f"looked in {os.getcwd()}")
            found += [(path, os.path.relpath(path, base)) for path in matches]
        else:
            raise CuratorError(f"{pattern}: no such file", hint=f"looked in {os.getcwd()}")
    if named:
        base = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in named])
        found += [(path, os.path.relpath(os.path.abspath(path), base)) for path in named]
    found += relative_to_common_folder(named_remote)
    for path, relative in found:
        try:
            relative.encode()
        except UnicodeEncodeError:
            raise CuratorError(f"{path!a}: the name is not UTF-8", hint="rename the file") from None
    files = sorted(dict.fromkeys(found), key=lambda item: item[1].encode())
    for (_, first), (_, second) in zip(files, files[1:], strict=False):
        if first == second:
            raise CuratorError(
                f"two files would be called {first}", hint="ingest the folders one by one, under two names"
            )
    return files, sorted(skipped)


def _is_known(path: str) -> bool:
    """Whether a file has a format that is read. One that is damaged has: it must be named, not skipped."""
    try:
        RawReader(path).close()
    except UnknownFormatError:
        return False
    except CuratorError:
        pass
    return True


def _glob_base(pattern: str) -> str:
    parts = pattern.split("/")
    for index, part in enumerate(parts):
        if any(char in part for char in "*?["):
            return "/".join(parts[:index]) or ("/" if pattern.startswith("/") else ".")
    return os.path.dirname(pattern) or "."


def tell_skipped(skipped: list[str]) -> None:
    """Say which files a glob or folder passed over."""
    if skipped:
        shown = ", ".join(skipped[:3]) + (f" and {len(skipped) - 3} more" if len(skipped) > 3 else "")
        log.info(f"skipped (hidden, or of no known format): {shown}")


def raw_file(path: str, relative: str) -> RawFile:
    """Describe a file with the digest of its bytes; for stdin the digest is unknown until it is read."""
    from curator.io.manifest import digest_file

    if path == STDIN:
        return RawFile(path, relative, 0, "")
    return RawFile(path, relative, os.path.getsize(path), digest_file(Path(path)))
