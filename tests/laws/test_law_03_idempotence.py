"""Law 3, idempotence: duplicates removed twice are removed once; a finished recipe run again does no work."""

import json
from pathlib import Path

import pytest
from law_samples import Story, files_in, parquet_rows, times
from record_samples import passed, record, write_dataset

from curator.io.dataset import OutputFolder, TaskWriter
from curator.pipeline.inspect.check import check
from curator.pipeline.passes import Options
from curator.pipeline.run import run_recipe
from curator.stages.base import DatasetStage
from curator.stages.dedup.exact import Exact
from curator.stages.dedup.near import Near

STAGES: list[DatasetStage] = [
    Exact(on="conversation"),
    Exact(on="prompt", normalise=("case", "space")),
    Exact(on="response", keep="scores.num_prompt_chars.value desc, id desc"),
    Near(on="response", threshold=0.5, keep="scores.num_prompt_chars.value desc, id desc"),
    Near(on="prompt", unit="characters", size=5, threshold=0.6),
]


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: f"{stage.name}-{stage.on}")
def test_dedup_twice_is_dedup_once(story: Story, tmp_path: Path, stage: DatasetStage) -> None:
    once = passed(stage, story.pass_of("tag.signals"), tmp_path / "once")
    twice = passed(stage, once, tmp_path / "twice")
    first = json.loads((once / "manifest.json").read_bytes())
    second = json.loads((twice / "manifest.json").read_bytes())
    assert first["ledger"]["dropped"][f"{stage.name}/duplicate"] > 5
    assert second["ledger"]["dropped"] == {}
    rows = parquet_rows(once)
    assert parquet_rows(twice) == rows
    assert any(row["dedup"] and row["dedup"]["component_size"] > 1 for row in rows)
    members = [row["dedup"] for row in rows if row["dedup"]]
    sizes = {dedup["component"]: dedup["component_size"] for dedup in members}
    assert sum(sizes.values()) - len(members) == sum(first["ledger"]["dropped"].values())


def test_dedup_on_another_text_in_between_changes_no_sizes_twice(tmp_path: Path) -> None:
    # a#0 = a#1 by prompt, a#0 = a#2 by answer: one component of three, however often either is run again.
    rows = [record("s/a#0", "p", "x"), record("s/a#1", "p", "y"), record("s/a#2", "q", "x"), record("s/a#3", "r", "z")]
    folder = write_dataset(tmp_path / "in", rows, shard_rows=2)
    for number, on in enumerate(["prompt", "response", "prompt", "response", "conversation"]):
        folder = passed(Exact(on=on), folder, tmp_path / f"out{number}")
        if number:
            kept = {row["id"]: row["dedup"] for row in parquet_rows(folder)}
            assert kept["s/a#3"] is None
            assert kept["s/a#0"] == {"of": None, "similarity": None, "component": "s/a#0", "component_size": 3}


def test_a_finished_recipe_run_again_does_no_work(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    before, bytes_before = times(story.root), files_in(story.root)

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("work was done")

    monkeypatch.setattr(TaskWriter, "__init__", fail)
    monkeypatch.setattr(OutputFolder, "finish", fail)
    result = run_recipe(story.recipe, story.root, Options(workers=2))
    assert all(outcome.reused for outcome in result.outcomes())
    after = times(story.root)
    # A lock file comes and goes in each folder, which touches the folder and no file.
    files = {name for name in before if (story.root / name).is_file()}
    assert {name: after[name] for name in files} == {name: before[name] for name in files}
    assert after.keys() == before.keys()
    assert files_in(story.root) == bytes_before


def test_looking_changes_nothing(story: Story) -> None:
    before = times(story.root)
    check(story.root)
    assert times(story.root) == before
