"""What the tests of the laws share: a recipe with every step, and readers that know nothing of curator."""

import csv
import gzip
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import xxhash
import yaml

from curator.cli.app import run_app
from curator.pipeline.passes import Options
from curator.pipeline.recipe import Recipe, load_recipe
from curator.pipeline.run import run_recipe

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_data"
TRUTH = json.loads((SAMPLES / "truth.json").read_text(encoding="utf-8"))

GROUP_BYTES = 150_000
"""Small enough for the sample data to give every pass several tasks."""
SOURCES: dict[str, list[str]] = {
    "tutor": ["alpaca.json"],
    "tagged": ["alpaca_metadata.jsonl"],
    "agents": ["chats/agents.jsonl.gz", "chats/talk.jsonl.gz"],
    "assistants": ["messages.jsonl.zst"],
    "pairs": ["prompt_completion.jsonl"],
    "quiz": ["qa.csv", "qa.parquet"],
    "preferences": ["preference.jsonl", "transcripts.jsonl.gz"],
    "broken": ["broken.jsonl"],
}
SHARD_BYTES = 25_000
ONE_NUMBER = "scores.num_response_words.value between 3 and 120"
TWO_COLUMNS = "metadata.source <> 'pairs' or scores.num_prompt_chars.value > 60"
MIX: dict[str, Any] = {
    "budget": {"supervised_tokens": 30_000},
    "weights": {"by": {"domain": {"code": 2, "math": 1.5}}, "expression": "1 + scores.num_turns.value"},
    "max_epochs": 3,
    "splits": {"validation": 0.1},
    "kinds": ["sft"],
    "phases": [
        {"name": "broad", "until": "60%"},
        {"name": "long", "until": "100%", "weights": {"by": {"domain": {"math": 3}}}},
    ],
    "seed": 7,
}


def steps() -> list[Any]:
    return [
        "tag.signals",
        {"tag.tokens": {"tokenizer": str(SAMPLES / "tiny-model")}},
        {"tag.metadata": {"set": {"topic": "case when scores.has_math.value then 'math' else 'other' end"}}},
        {"classify": ["language", "domain"]},
        {"dedup.exact": {"on": "conversation"}},
        {"filter.where": ONE_NUMBER},
        {"filter.where": TWO_COLUMNS},
        {"sample": {"rows": 600, "seed": 3}},
        {
            "dedup.exact": {
                "on": "prompt",
                "normalise": ["case", "space"],
                "keep": "scores.num_response_chars.value desc, id",
            }
        },
        {"dedup.near": {"on": "response", "threshold": 0.6, "keep": "scores.num_response_words.value desc"}},
    ]


def recipe_of(folder: Path, data: Mapping[str, Any], name: str = "recipe.yaml") -> Recipe:
    """A recipe file written and read."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(yaml.safe_dump(dict(data), sort_keys=False), encoding="utf-8")
    return load_recipe(folder / name)


def whole_recipe(folder: Path, shard_bytes: int = SHARD_BYTES) -> Recipe:
    """All the sample data through every step."""
    sources = [
        {
            "name": name,
            # A glob keeps the folder's relative names; files named one by one are relative to their common parent.
            "path": "chats/*.jsonl.gz" if name == "agents" else files,
            "license": "apache-2.0",
            "shard_bytes": shard_bytes,
            "max_quarantine": "40%",
        }
        for name, files in SOURCES.items()
    ]
    data = {"name": "laws", "root": str(SAMPLES), "sources": sources, "steps": steps(), "mix": MIX}
    return recipe_of(folder, data)


@dataclass(frozen=True)
class Story:
    """A finished recipe."""

    root: Path
    recipe: Recipe
    sources: list[Path]
    passes: list[Path]
    """In order; the mixture is the last."""

    @property
    def folders(self) -> list[Path]:
        return [*self.sources, *self.passes]

    @property
    def mixture(self) -> Path:
        return self.passes[-1]

    def pass_of(self, step: str) -> Path:
        """The first pass folder whose name has this step."""
        return next(path for path in self.passes if step in path.name)

    def before(self, folder: Path) -> list[Path]:
        """The folders that a pass read."""
        place = self.passes.index(folder)
        return self.sources if place == 0 else [self.passes[place - 1]]


def run_story(recipe: Recipe, out: Path, workers: int) -> Story:
    result = run_recipe(recipe, out, Options(workers=workers))
    return Story(out, recipe, [o.out for o in result.sources.values()], [o.out for o in result.passes])


# --- the command line ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Done:
    code: int
    out: bytes
    err: str


def curator(*arguments: object, expect: int = 0) -> Done:
    """A command line in this process; fails when it ends with another exit code."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run_app([str(argument) for argument in arguments])
        out.flush()
    assert code == expect, err.getvalue()
    return Done(code, out.buffer.getvalue(), err.getvalue())


# --- readers of their own -----------------------------------------------------------------------------------------


def parquet_rows(folder: Path, kind: str = "data", columns: list[str] | None = None) -> list[dict[str, Any]]:
    """Rows of all files of a kind in the order of the manifest, read by pyarrow alone."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    key = {"data": "shards"}.get(kind, kind)
    return [
        row
        for task in manifest["tasks"]
        for entry in task[key]
        for row in pq.read_table(folder / entry["path"], columns=columns).to_pylist()
    ]


def ids(folder: Path, kind: str = "data") -> list[str]:
    return [row["id"] for row in parquet_rows(folder, kind, ["id"])]


def id_sum(names: Iterable[str]) -> str:
    """What a ledger's digest says it is: the sum of 128-bit xxh3 of the ids, modulo 2^128, in hex."""
    return f"{sum(xxhash.xxh3_128(name.encode()).intdigest() for name in names) % 2**128:032x}"


def files_in(folder: Path) -> dict[str, bytes]:
    """Every file below a folder that may not differ between two runs; the memo is a cache, not a result."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "timing.json" and path.relative_to(folder).parts[0] != "memo"
    }


def same_files(left: Path, right: Path) -> None:
    """Fail naming the files that differ."""
    one, other = files_in(left), files_in(right)
    assert sorted(one.keys() ^ other.keys()) == []
    assert [name for name in one if one[name] != other[name]] == []


def times(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of change of every file, and of every folder."""
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
    }


def raw_rows(name: str) -> Iterator[bytes | Any]:
    """The raw rows of a sample file: lines as bytes, elements of an array, dictionaries of a table."""
    path = SAMPLES / name
    if name.endswith(".parquet"):
        yield from pq.read_table(path).to_pylist()
        return
    if name.endswith(".zst"):
        import pyarrow as pa

        data = pa.CompressedInputStream(pa.OSFile(str(path)), "zstd").read()
    else:
        data = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    if name.endswith(".json"):
        yield from json.loads(data)
    elif name.endswith(".csv"):
        yield from csv.DictReader(io.StringIO(data.decode(), newline=""))
    else:
        yield from (line for line in data.split(b"\n") if line.strip())


def turns(row: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    return [(message["role"], message["content"]) for message in row["messages"]]
