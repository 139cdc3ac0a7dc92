"""A recipe: sources, steps, mix and train in one YAML file, checked before anything is done."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from curator.errors import UsageError
from curator.io.build import SHARD_BYTES, SourceSettings
from curator.io.gate import DEFAULT_GATE
from curator.io.raw import MAX_RECORD_BYTES
from curator.io.remote import is_remote
from curator.mixture.spec import MixSpec
from curator.schema.check import build, did_you_mean, load_yaml
from curator.stages.base import Stage
from curator.stages.catalog import STAGES, build_stage


@dataclass(frozen=True)
class Source:
    """Raw files that come in under one name."""

    name: str
    """Begins every id of the source, and is its `metadata.source` where a row does not name one itself."""
    path: str | list[str]
    """Files, folders or globs, relative to the recipe's `root`; or URLs: s3://, gs://, hf://datasets/."""
    license: str | None = None
    """Kept with every record."""
    metadata: dict[str, str | bool | int | float] = field(default_factory=dict)
    """Tags for every row, such as `{domain: math}`; a row's own value wins."""
    fields: dict[str, str] = field(default_factory=dict)
    """Metadata fields of your own, name to string, int, float or bool, filled from the row's field of that name."""
    adapter: str | None = None
    """Force one adapter instead of choosing by field names."""
    map: dict[str, str] = field(default_factory=dict)
    """A mapping of your own: place in the record (`prompt`, `response`, `metadata.domain`, ...) to path in the row
    (`body.question`, `answers[0].text`, or a constant: `='text'`)."""
    shard_bytes: int = SHARD_BYTES
    """A shard ends at the first record that begins behind a multiple of this many decompressed bytes."""
    max_record_bytes: int = MAX_RECORD_BYTES
    """Longer rows are quarantined."""
    image_root: str | None = None
    """Folder that paths of images are relative to, and must lie in; without it the folder of each file."""
    join: str | None = None
    """A side file whose rows join the source's by id: its path from the folder of a file, `{name}` being its name."""
    repair: list[str] = field(default_factory=list)
    """What may be changed, and is said where it was: merge_consecutive, drop_trailing_user, surrogates."""
    max_quarantine: str | int = DEFAULT_GATE
    """More quarantined rows than this stop the run: a share of all (one row passes any), or a number."""
    allow_empty: bool = False
    """Take paths that lead to nothing, and files without rows."""
    retry_failed: bool = False
    """Read files with quarantined rows again in every run, though nothing has changed."""
    replace: bool = False
    """A changed file takes the place of what it was; else both stay, and the new one is `path@2`."""
    header: bool | None = None
    """Whether the first row of a CSV or TSV names its columns; null lets the content say, or asks."""
    columns: list[str] = field(default_factory=list)
    """Names of the columns of a CSV or TSV without header."""

    def settings(self) -> SourceSettings:
        values = asdict(self)
        del values["path"]
        values["repair"] = tuple(self.repair)
        values["columns"] = tuple(self.columns)
        return SourceSettings(**values)

    def patterns(self, root: str) -> list[str]:
        paths = [self.path] if isinstance(self.path, str) else self.path
        return [path if is_remote(path) or not root else os.path.join(root, path) for path in paths]


@dataclass(frozen=True)
class RecipeFile:
    """The keys of a recipe file."""

    name: str
    """Stands above the table at the end."""
    sources: list[Source]
    """Raw files, each source under a name of its own."""
    root: str | None = ""
    """Folder that source paths are relative to; empty: the working directory; null: to be given by --set."""
    steps: list[str | dict[str, Any]] = field(default_factory=list)
    """Steps in order: a name, or a name with its settings; text or a list alone goes to the first setting.
    `classify: [language, domain]` is `classify.language`, then `classify.domain`."""
    mix: dict[str, Any] | None = None
    """The mixture; `{}` takes every record once."""
    train: dict[str, Any] | None = None
    """The training run; needs `mix`."""


@dataclass(frozen=True)
class Recipe:
    """A checked recipe."""

    name: str
    sources: list[Source]
    root: str
    steps: list[Stage]
    mix: MixSpec | None
    train: dict[str, Any] | None
    """Settings of the run, which training checks; `nproc` among them is the number of processes."""


def load_recipe(path: Path, changes: Sequence[str] = ()) -> Recipe:
    """Read and check a recipe file; `changes` are `key=value` with dotted keys (`train.steps=10`).

    Raises UsageError naming file, key and, for a typing error, the key that was meant.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such recipe", hint=f"looked in {Path.cwd()}")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not text in UTF-8") from None
    data = load_yaml(text, str(path))
    if not isinstance(data, Mapping):
        raise UsageError(f"{path}: a recipe is a set of keys", hint="name, sources, steps, mix, train")
    data = dict(data)
    for change in changes:
        _set(data, change)
    file = build(RecipeFile, data, str(path))
    if file.root is None:
        raise UsageError(f"{path}: root is not set", hint="--set root=FOLDER says where the sources lie")
    if not file.sources:
        raise UsageError(f"{path}: sources is empty", hint="name at least one source with a path")
    names = [source.name for source in file.sources]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{path}: two sources are called {name}")
    for source in file.sources:
        source.settings()
    steps = [step for index, item in enumerate(file.steps) for step in _steps(item, f"{path}: steps[{index}]")]
    num_processes = (file.train or {}).get("nproc", 1)
    if not isinstance(num_processes, int) or num_processes < 1:
        raise UsageError(f"{path}: train.nproc is {num_processes!r}", hint="a number of processes, at least 1")
    if file.train is not None and file.mix is None:
        raise UsageError(f"{path}: train needs mix", hint="mix: {} takes every record once")
    mix = None if file.mix is None else MixSpec.from_mapping(file.mix, f"{path}: mix")
    return Recipe(file.name, list(file.sources), file.root, steps, mix, file.train)


def _steps(item: str | dict[str, Any], where: str) -> list[Stage]:
    """The stages of one entry: a name, a name with settings, or the first part of names with a list of the rest."""
    if isinstance(item, str):
        return [build_stage(item, None, where)]
    if len(item) != 1:
        raise UsageError(f"{where}: a step is one name with its settings", hint="- dedup.exact: {on: conversation}")
    name, settings = next(iter(item.items()))
    is_family = any(known.startswith(f"{name}.") for known in STAGES)
    if not (is_family and isinstance(settings, list)):
        return [build_stage(str(name), settings, where)]
    stages: list[Stage] = []
    for index, part in enumerate(settings):
        if not isinstance(part, str) and not (isinstance(part, dict) and len(part) == 1):
            raise UsageError(f"{where}.{name}[{index}]: not a step", hint=f"- {name}: [a, {{b: {{key: value}}}}]")
        rest, own = (part, None) if isinstance(part, str) else next(iter(part.items()))
        stages.append(build_stage(f"{name}.{rest}", own, where))
    return stages


def _set(data: dict[str, Any], change: str) -> None:
    """Apply one `key=value`; the value is read as YAML."""
    key, equals, text = change.partition("=")
    if not equals or not key:
        raise UsageError(f"--set {change}", hint="write --set key=value, for example --set train.steps=10")
    value = load_yaml(text, f"--set {key}")
    parts = key.split(".")
    level: Any = data
    for part in parts[:-1]:
        following = level.get(part)
        if isinstance(level.get(part), dict):
            level = following
        elif following is None:
            level[part] = level = {}
        elif isinstance(following, list):
            raise UsageError(f"--set {key}: {part} is a list", hint="change the recipe, or copy it")
        else:
            raise UsageError(f"--set {key}: {part} has no keys", hint=f"write --set {part}=value")
    known = {"name", "sources", "root", "steps", "mix", "train"}
    if parts[0] not in known:
        raise UsageError(f"--set {key}: a recipe has no {parts[0]}", hint=did_you_mean(parts[0], known))
    level[parts[-1]] = value
