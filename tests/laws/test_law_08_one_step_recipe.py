"""Law 8, one command is a recipe of one step: the same manifest, byte for byte."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from classify_samples import small_model
from law_samples import MIX, SAMPLES, Done, Story, curator, recipe_of, run_story, same_files

from curator.stages.catalog import STAGES

MODEL = str(SAMPLES / "tiny-model")


@dataclass(frozen=True)
class Step:
    """A step as a recipe and as a command line name it; inputs stand between the command and its settings."""

    recipe: Any
    command: Sequence[str]
    settings: Sequence[str] = ()

    @property
    def name(self) -> str:
        return self.recipe if isinstance(self.recipe, str) else next(iter(self.recipe))

    def run(self, inputs: Sequence[Path], out: Path, *options: str) -> Done:
        return curator(*self.command, *inputs, *self.settings, "--out", out, *options)


def steps(model: Path) -> list[Step]:
    """Every stage, in an order in which no two neighbours share a pass; `model` is a trained classifier."""
    by_prompt = {"on": "prompt", "normalise": ["case", "space"], "keep": "scores.num_turns.value desc, id"}
    normalised = ["--normalise", "case", "--normalise", "space", "--keep", "scores.num_turns.value desc, id"]
    by_response = {"on": "response", "threshold": 0.7, "unit": "characters", "size": 5, "num_perm": 64}
    characters = ["--threshold", "0.7", "--unit", "characters", "--size", "5", "--num-perm", "64"]
    short = "scores.num_tokens.value < 200"
    return [
        Step("concat", ["concat"]),
        Step({"sample": {"rows": 250, "seed": 5}}, ["sample"], ["--rows", "250", "--seed", "5"]),
        Step("tag.signals", ["tag", "signals"]),
        Step({"dedup.exact": by_prompt}, ["dedup", "exact"], ["--on", "prompt", *normalised]),
        Step({"classify.language": {"on": "prompt"}}, ["classify", "language"], ["--on", "prompt"]),
        Step({"dedup.near": by_response}, ["dedup", "near"], ["--on", "response", *characters]),
        Step({"tag.tokens": MODEL}, ["tag", "tokens"], ["--tokenizer", MODEL]),
        Step({"filter.where": {"expression": short, "null": "keep"}}, ["filter", "where"], [short, "--null", "keep"]),
        Step(
            {"tag.metadata": {"set": {"topic": "'maths'"}, "where": "scores.has_math.value"}},
            ["tag", "metadata"],
            ["--set", "topic='maths'", "--where", "scores.has_math.value"],
        ),
        Step({"filter.where": "kind = 'sft'"}, ["filter", "where"], ["kind = 'sft'"]),
        Step("classify.domain", ["classify", "domain"]),
        Step({"sample": {"rows": 200}}, ["sample"], ["--rows", "200"]),
        Step("classify.difficulty", ["classify", "difficulty"]),
        Step({"filter.where": "true"}, ["filter", "where"], ["true"]),
        Step(
            {"classify.apply": {"model": str(model), "overwrite_labels": True}},
            ["classify", "apply"],
            ["--model", str(model), "--overwrite-labels"],
        ),
    ]


NAMES = [step.name for step in steps(Path("model"))]


def test_every_stage_is_among_the_steps() -> None:
    assert set(NAMES) == set(STAGES)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("laws-model")
    small_model(folder)
    return folder / "model"


@pytest.fixture(scope="module")
def by_recipe(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Story:
    folder = tmp_path_factory.mktemp("laws-recipe")
    sources = [
        {"name": "quiz", "path": ["qa.csv", "qa.parquet"], "license": "mit", "fields": {"team": "string"}},
        {"name": "assistants", "path": "messages.jsonl.zst", "shard_bytes": 20_000},
        {"name": "broken", "path": "broken.jsonl", "adapter": "alpaca", "max_quarantine": "40%"},
    ]
    recipes = [step.recipe for step in steps(model)]
    recipe = recipe_of(folder, {"name": "one", "root": str(SAMPLES), "sources": sources, "steps": recipes, "mix": MIX})
    story = run_story(recipe, folder / "out", workers=1)
    assert [path.name[3:] for path in story.passes[:-1]] == NAMES
    return story


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("quiz", [SAMPLES / "qa.csv", SAMPLES / "qa.parquet", "--license", "mit", "--field", "team:string"]),
        ("assistants", [SAMPLES / "messages.jsonl.zst", "--shard-bytes", 20_000]),
        ("broken", [SAMPLES / "broken.jsonl", "--adapter", "alpaca", "--max-quarantine", "40%"]),
    ],
)
def test_ingest(by_recipe: Story, tmp_path: Path, source: str, options: list[Any]) -> None:
    curator("ingest", *options, "--source", source, "--out", tmp_path / "d")
    same_files(tmp_path / "d", by_recipe.root / "sources" / source)


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_a_step(by_recipe: Story, model: Path, tmp_path: Path, number: int) -> None:
    wanted = by_recipe.passes[number]
    steps(model)[number].run(by_recipe.before(wanted), tmp_path / "d")
    same_files(tmp_path / "d", wanted)


def test_mix(by_recipe: Story, tmp_path: Path) -> None:
    (tmp_path / "mix.yaml").write_text(yaml.safe_dump(MIX), encoding="utf-8")
    curator("mix", by_recipe.passes[-2], "--spec", tmp_path / "mix.yaml", "--out", tmp_path / "d")
    same_files(tmp_path / "d", by_recipe.mixture)


def test_a_command_goes_on_with_what_the_recipe_made(by_recipe: Story, model: Path) -> None:
    """The fingerprints are the same too: a command on the recipe's own folder finds nothing to do."""
    wanted = by_recipe.pass_of("dedup.exact")
    before = (wanted / "manifest.json").stat().st_mtime_ns
    done = steps(model)[NAMES.index("dedup.exact")].run(by_recipe.before(wanted), wanted, "--json")
    assert b'"reused": true' in done.out
    assert (wanted / "manifest.json").stat().st_mtime_ns == before
    other = curator("dedup", "exact", *by_recipe.before(wanted), "--out", wanted, expect=1)
    assert "was made with other inputs or settings: steps[0].settings." in other.err
