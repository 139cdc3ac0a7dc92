"""The whole story of a recipe: sources are ingested, passes run, the mixture is made, training is started."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from curator.chat.tokenizer import ChatTokenizer
from curator.errors import CuratorError
from curator.extras import require
from curator.io.dataset import Dataset, check_columns
from curator.io.manifest import MANIFEST, PARTIAL, Fingerprint, Ledger, Manifest, first_difference
from curator.pipeline.apply import output_schema
from curator.pipeline.ingest import SourceFolder, find_files, ingest, known_files
from curator.pipeline.mix import mix, mix_fingerprint, resolve
from curator.pipeline.passes import Options, Outcome, fingerprint, run_pass
from curator.pipeline.recipe import Recipe
from curator.pipeline.schedule import schedule
from curator.schema.record import unify_schemas


@dataclass
class RunResult:
    """What a recipe did: each pass, and training's own summary."""

    name: str
    out: Path
    sources: dict[str, Outcome] = field(default_factory=dict)
    passes: list[Outcome] = field(default_factory=list)
    train: dict[str, Any] | None = None
    seconds: float = 0.0

    def outcomes(self) -> list[Outcome]:
        return [*self.sources.values(), *self.passes]

    def ledger(self) -> Ledger:
        """The account from raw rows to the last folder, counts only."""
        total = Ledger()
        total.read = sum(outcome.ledger.read for outcome in self.sources.values())
        for outcome in self.outcomes():
            for mine, theirs in (
                (total.dropped, outcome.ledger.dropped),
                (total.quarantined, outcome.ledger.quarantined),
            ):
                for key, count in theirs.items():
                    mine[key] = mine.get(key, 0) + count
        last = self.passes[-1:] or list(self.sources.values())
        total.kept = sum(outcome.ledger.kept for outcome in last)
        return total

    def to_json(self) -> dict[str, Any]:
        ledger = self.ledger()
        return {
            "name": self.name,
            "read": ledger.read,
            "kept": ledger.kept,
            "dropped": dict(sorted(ledger.dropped.items())),
            "quarantined": sum(ledger.quarantined.values()),
            "out": str(self.out),
            "seconds": round(self.seconds, 3),
            "sources": {name: outcome.to_json() for name, outcome in self.sources.items()},
            "passes": [outcome.to_json() for outcome in self.passes],
            "train": self.train,
        }


def check_recipe(recipe: Recipe) -> None:
    """Find before any work what would stop it later: files, columns, expressions, models. Raises CuratorError."""
    for source in recipe.sources:
        find_files(source.patterns(recipe.root), source.settings())
    names = [source.name for source in recipe.sources]
    schema = unify_schemas([source.settings().schema() for source in recipe.sources], names)
    for stage in recipe.steps:
        check_columns(schema, stage.reads(schema), stage.name)
        schema = output_schema(schema, [stage])
        stage.describe()
    if recipe.mix is not None:
        resolve(recipe.mix, schema)
    if recipe.train is not None:
        for module in ("torch", "transformers"):
            if find_spec(module) is None:
                require(module, "train")
        ChatTokenizer.load(recipe.train["model"])


def run_recipe(recipe: Recipe, out: Path, options: Options) -> RunResult:
    """Do what is not done yet, in order. Every folder is complete before the next step begins."""
    started = time.time()
    check_recipe(recipe)
    result = RunResult(recipe.name, out)
    folders = []
    for source in recipe.sources:
        folder = out / "sources" / source.name
        result.sources[source.name] = ingest(source.patterns(recipe.root), source.settings(), folder, options)
        folders.append(folder)
    if options.memo is None:
        options = Options(options.workers, options.overwrite, out / "memo")
    for step in schedule(recipe.steps):
        result.passes.append(run_pass(folders, step.stages, out / step.folder, options))
        folders = [out / step.folder]
    if recipe.mix is not None:
        result.passes.append(mix(folders, recipe.mix, out / "mix", options))
    if recipe.train is not None:
        result.train = start_training(out / "mix", recipe.train, out / "train", options.overwrite)
    result.seconds = time.time() - started
    return result


def start_training(mixture: Path, settings: dict[str, Any], out: Path, overwrite: bool) -> dict[str, Any]:
    """Run `curator train` as a process of its own; returns its summary. Raises CuratorError when it fails."""
    settings = dict(settings)
    nproc = settings.pop("nproc", 1)
    config = out.parent / "train.yaml"
    # JSON is YAML; the trainer reads one config file, as a person's command line would.
    config.write_bytes(json.dumps(settings, indent=1).encode() + b"\n")
    command = [sys.executable, "-m", "curator.cli.app", "train", str(mixture), "--config", str(config)]
    command += ["--nproc", str(nproc), "--out", str(out), "--json", *(["--overwrite"] if overwrite else [])]
    # Its own session: an interruption reaches this process only, which passes it on once.
    # The parent's id lets training end by itself when this process is killed.
    environment = {**os.environ, "CURATOR_PARENT": str(os.getpid())}
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, env=environment) as process:
        assert process.stdout is not None
        try:
            text = process.stdout.read()
            code = process.wait()
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
    if code == 130:
        raise KeyboardInterrupt
    if code != 0:
        raise CuratorError(
            f"training stopped with exit code {code}", hint="the reason stands above; run the same command to go on"
        )
    return json.loads(text)


# --- looking without doing ----------------------------------------------------------------------------------------


def what_would_run(recipe: Recipe, out: Path) -> list[tuple[str, str]]:
    """For each part of a recipe its folder and what a run would do there, from what is on disk; nothing is written.

    Raw files are read for their digests: a file that changed is what a person wants to hear of.
    """
    check_recipe(recipe)
    lines: list[tuple[str, str]] = []
    folders: list[Path] = []
    for source in recipe.sources:
        folder = out / "sources" / source.name
        settings = source.settings()
        files, to_fetch = known_files(find_files(source.patterns(recipe.root), settings)[0], settings, folder)
        state = f"would fetch {to_fetch}" if to_fetch else _source_state(folder, SourceFolder(files, settings))
        lines.append((str(folder), state))
        folders.append(folder)
    steps: list[tuple[Path, Callable[[Dataset], Fingerprint]]] = [
        (out / step.folder, partial(fingerprint, stages=step.stages)) for step in schedule(recipe.steps)
    ]
    if recipe.mix is not None:
        steps.append((out / "mix", partial(mix_fingerprint, spec=recipe.mix)))
    known = all(state == _DONE for _, state in lines)
    for folder, wanted in steps:
        state = _state(folder, wanted(Dataset.open(*folders))) if known else _later(folder)
        lines.append((str(folder), state))
        known, folders = state == _DONE, [folder]
    if recipe.train is not None:
        done = known and (out / "train" / MANIFEST).exists()
        state = "has a finished run; its config is compared when it starts" if done else "would train"
        lines.append((str(out / "train"), state))
    return lines


_DONE = "done"


def _later(folder: Path) -> str:
    return "would run again, its input changes" if (folder / MANIFEST).exists() else "would run"


def _source_state(folder: Path, joining: SourceFolder) -> str:
    if not (folder / MANIFEST).exists():
        return _unfinished(folder)
    held = Manifest.read(folder).fingerprint
    growth = joining.grow(held, held)
    if growth is None:
        return _state(folder, joining.fingerprint)
    if growth.fingerprint.to_json() == held:
        return _DONE
    joining.settle(growth.fingerprint)
    return f"would go on: {joining.plan.told()}"


def _state(folder: Path, wanted: Fingerprint) -> str:
    if not (folder / MANIFEST).exists():
        return _unfinished(folder)
    difference = first_difference(Manifest.read(folder).fingerprint, wanted.to_json())
    return _DONE if difference is None else f"needs --overwrite: {difference}"


def _unfinished(folder: Path) -> str:
    finished = len(list((folder / PARTIAL).glob("task-*.json")))
    return f"would go on ({finished} tasks are done)" if finished else "would run"
