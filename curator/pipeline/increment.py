"""Raw files into a folder that may hold some already: which are new, and what the folder is a function of then."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from curator.io.raw import RawFile


@dataclass(frozen=True)
class Entry:
    """A raw file that a folder holds, or held. Its position among the inputs numbers its tasks for ever."""

    file: str
    """The name that ids begin with: the relative path, or for another version of it `path@2`, `path@3`."""
    digest: str
    generation: int = 0
    """The ingest run that brought it, counted from 0."""
    path: str | None = None
    """The relative path, where `file` is a version of it."""
    replaced: int | None = None
    """The run that took its rows out again."""

    @property
    def relative(self) -> str:
        return self.path or self.file

    def to_json(self) -> dict[str, Any]:
        """What a first run writes is the file and its digest alone."""
        whole = {
            "file": self.file,
            "digest": self.digest,
            "generation": self.generation or None,
            "path": self.path,
            "replaced": self.replaced,
        }
        return {key: value for key, value in whole.items() if value is not None}


@dataclass
class Increment:
    """The files of a folder after a run, and what became of those that were named."""

    entries: list[Entry]
    generation: int
    at_hand: dict[int, RawFile] = field(default_factory=dict)
    """The named files by position, under the names that their ids begin with."""
    new: list[str] = field(default_factory=list)
    changed: dict[str, str] = field(default_factory=dict)
    """Files whose bytes are others now, to the name that they are read under."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Files whose bytes are there under another name, to that name."""
    known: int = 0
    absent: list[str] = field(default_factory=list)
    """What the folder holds of files that were not named."""

    def inputs(self) -> tuple[dict[str, Any], ...]:
        return tuple(entry.to_json() for entry in self.entries)

    def live(self) -> list[tuple[int, Entry]]:
        """The files whose rows are in the folder, with their positions."""
        return [(index, entry) for index, entry in enumerate(self.entries) if entry.replaced is None]

    def notes(self) -> dict[str, Any]:
        return {
            "new": self.new,
            "changed": self.changed,
            "renamed": self.renamed,
            "known": self.known,
            "not_named": self.absent,
        }

    def told(self) -> str:
        """One line for people."""
        parts = [f"{len(self.new):,} new" + _some(self.new), f"{self.known:,} known"]
        parts += [_changed(path, name) for path, name in self.changed.items()]
        parts += [f"{path} has the bytes of {name}, whose ids stay" for path, name in self.renamed.items()]
        if self.absent:
            parts.append(f"not among the files now, their rows stay: {', '.join(self.absent[:5])}" + _more(self.absent))
        return ", ".join(parts[:2]) + "".join(f"; {part}" for part in parts[2:])


def _changed(path: str, name: str) -> str:
    return f"{path} has changed and replaces its rows" if path == name else f"{path} has changed and is read as {name}"


def _some(names: Sequence[str]) -> str:
    return f" ({', '.join(names[:3])}{_more(names, 3)})" if names else ""


def _more(names: Sequence[str], shown: int = 5) -> str:
    return f" and {len(names) - shown:,} more" if len(names) > shown else ""


def increment(inputs: Sequence[Mapping[str, Any]], files: Sequence[RawFile], replaces: bool) -> Increment:
    """`files` joined to what a folder holds (`inputs` as its fingerprint lists them; none for a new folder).

    A file is known by its digest, under whatever name. One that is new at a known path is another version of it, or
    with `replaces` takes its place.
    """
    entries = [Entry(**item) for item in inputs]
    live = {index: entry for index, entry in enumerate(entries) if entry.replaced is None}
    generation = 1 + max((max(entry.generation, entry.replaced or 0) for entry in entries), default=-1)
    result = Increment(entries, generation)
    by_both = {(entry.relative, entry.digest): index for index, entry in reversed(live.items())}
    by_digest = {entry.digest: index for index, entry in reversed(live.items())}
    unknown: list[RawFile] = []
    for file in files:
        index = by_both.get((file.relative, file.digest), by_digest.get(file.digest))
        if index is None:
            unknown.append(file)
            continue
        result.known += 1
        if live[index].relative != file.relative:
            result.renamed[file.relative] = live[index].file
        if index not in result.at_hand or live[index].relative == file.relative:
            result.at_hand[index] = replace(file, relative=live[index].file)
    named = {file.relative for file in files}
    result.absent = [
        entry.file for index, entry in live.items() if index not in result.at_hand and entry.relative not in named
    ]
    for file in unknown:
        _join(result, file, replaces)
    return result


def _join(result: Increment, file: RawFile, replaces: bool) -> None:
    versions = [index for index, entry in result.live() if entry.relative == file.relative]
    if versions and replaces:
        for index in versions:
            result.entries[index] = replace(result.entries[index], replaced=result.generation)
    name = _free_name(file.relative, {entry.file for _, entry in result.live()})
    path = None if name == file.relative else file.relative
    if versions:
        result.changed[file.relative] = name
    else:
        result.new.append(file.relative)
    result.at_hand[len(result.entries)] = replace(file, relative=name)
    result.entries.append(Entry(name, file.digest, result.generation, path))


def _free_name(relative: str, taken: set[str]) -> str:
    name, number = relative, 1
    while name in taken:
        number += 1
        name = f"{relative}@{number}"
    return name
