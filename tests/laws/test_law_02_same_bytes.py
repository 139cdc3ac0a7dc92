"""Law 2, same bytes: workers, hash seeds, batch cuts and interruptions leave no trace in what is written."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from law_samples import (
    GROUP_BYTES,
    SAMPLES,
    Story,
    curator,
    parquet_rows,
    run_story,
    same_files,
    whole_recipe,
)
from record_samples import batch_of, record

from curator.io import build, dataset
from curator.io.dataset import OutputFolder, ShardGroup, ShardWriter, TaskWriter
from curator.pipeline import rounds
from curator.schema.record import RECORD_SCHEMA

RUN = """
import sys
from pathlib import Path
import curator.io.dataset, curator.pipeline.rounds
from curator.pipeline.passes import Options
from curator.pipeline.recipe import load_recipe
from curator.pipeline.run import run_recipe
recipe, out, workers, group_bytes = sys.argv[1:]
curator.io.dataset.GROUP_BYTES = int(group_bytes)
curator.pipeline.rounds.PARTITION_ROWS = 300
run_recipe(load_recipe(Path(recipe)), Path(out), Options(workers=int(workers)))
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The recipe in processes of their own: one worker under hash seed 0, two under a random one."""
    folder = tmp_path_factory.mktemp("laws-runs")
    whole_recipe(folder)
    started = {}
    for seed, workers in (("0", 1), ("random", 2)):
        command = [sys.executable, "-c", RUN, "recipe.yaml", f"out-{seed}", str(workers), str(GROUP_BYTES)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        started[seed] = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE)
    for process in started.values():
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
    return {seed: folder / f"out-{seed}" for seed in started}


@pytest.mark.parametrize("seed", ["0", "random"])
def test_b079_workers_and_hash_seed_leave_no_trace(story: Story, runs: dict[str, Path], seed: str) -> None:
    assert sum(len(json.loads((f / "manifest.json").read_bytes())["tasks"]) > 2 for f in story.folders) >= 4
    same_files(story.root, runs[seed])


def test_batches_that_stages_see_leave_no_trace(story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ShardGroup.batches

    def in_pieces(self: ShardGroup, *arguments: Any) -> Iterator[pa.RecordBatch]:
        for batch in whole(self, *arguments):
            for start in range(0, batch.num_rows, 29):
                yield batch.slice(start, 29)

    monkeypatch.setattr(ShardGroup, "batches", in_pieces)
    monkeypatch.setattr(build, "_BUILD_ROWS", 23)
    again = run_story(story.recipe, tmp_path / "out", workers=1)
    same_files(story.root, again.root)


def test_a_shard_is_its_rows_however_they_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "BATCH_ROWS", 64)
    rows = [record(f"s/f#{n}", f"q{n}" * (n % 5), None if n % 7 == 0 else f"a{n}") for n in range(300)]
    batch = batch_of(rows)
    source = random.Random(5)

    def written(name: str, cuts: list[int]) -> bytes:
        writer = ShardWriter(tmp_path, name, RECORD_SCHEMA)
        for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            writer.write(batch.slice(start, stop - start))
        writer.close()
        return (tmp_path / name).read_bytes()

    whole = written("whole.parquet", [])
    for number in range(8):
        cuts = sorted(source.sample(range(len(rows) + 1), source.randrange(1, 40)))
        assert written(f"{number}.parquet", cuts) == whole
    assert written("single.parquet", list(range(1, len(rows)))) == whole


# --- interruptions -------------------------------------------------------------------------------------------------


class Interrupted(BaseException):
    """Stops work as a person's Ctrl-C would: no handler of errors may take it for a failing task."""


@pytest.mark.parametrize("every", [11])
def test_a_run_stopped_again_and_again_goes_on_to_the_same_bytes(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    calls = {"count": 0}
    closed: list[str] = []
    close, finish, spill = TaskWriter.close, OutputFolder.finish, rounds._write

    def stop_now() -> None:
        calls["count"] += 1
        if calls["count"] % every == 0:
            raise Interrupted

    def closing(self: TaskWriter) -> Any:
        stop_now()
        result = close(self)
        closed.append(result.label)
        return result

    def finishing(self: OutputFolder, *arguments: Any, **named: Any) -> Any:
        stop_now()
        return finish(self, *arguments, **named)

    def spilling(*arguments: Any) -> None:
        stop_now()
        spill(*arguments)

    monkeypatch.setattr(TaskWriter, "close", closing)
    monkeypatch.setattr(OutputFolder, "finish", finishing)
    monkeypatch.setattr(rounds, "_write", spilling)
    stops = 0
    while stops < 100:
        try:
            run_story(story.recipe, tmp_path / "out", workers=1)
            break
        except Interrupted:
            stops += 1
    assert stops > 5
    same_files(story.root, tmp_path / "out")
    # What was whole before a stop is not done again.
    tasks = [task for f in story.folders for task in json.loads((f / "manifest.json").read_bytes())["tasks"]]
    assert sorted(closed) == sorted(task["label"] for task in tasks)
    assert not list((tmp_path / "out").rglob(".partial"))


# --- the same rows in the same order -------------------------------------------------------------------------------


def rows_of_passes(story: Story) -> list[list[dict[str, Any]]]:
    return [parquet_rows(path, kind) for path in story.passes for kind in ("data", "rejects")]


def test_shards_and_row_groups_of_other_sizes_change_no_row(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "BATCH_ROWS", 50)
    other = run_story(whole_recipe(tmp_path, shard_bytes=64 << 20), tmp_path / "out", workers=1)
    for left, right in zip(story.sources, other.sources, strict=True):
        assert parquet_rows(left) == parquet_rows(right)
        assert parquet_rows(left, "quarantine") == parquet_rows(right, "quarantine")
    assert len(list(story.root.rglob("sources/*/data/*"))) > len(list(other.root.rglob("sources/*/data/*")))
    assert rows_of_passes(story) == rows_of_passes(other)
    order = "order.parquet"
    assert (story.mixture / order).read_bytes() == (other.mixture / order).read_bytes()
    for name in ("splits.parquet", "mixture.json"):
        assert (story.mixture / name).read_bytes() == (other.mixture / name).read_bytes()


def test_files_in_another_order_give_the_same_folder(tmp_path: Path) -> None:
    names = ["alpaca_metadata.jsonl", "preference.jsonl", "prompt_completion.jsonl"]
    for folder, order in (("one", names), ("two", names[::-1])):
        (tmp_path / folder).mkdir()
        for name in order:
            shutil.copyfile(SAMPLES / name, tmp_path / folder / name)
        given = [tmp_path / folder / name for name in order]
        curator("ingest", *given, "--source", "s", "--out", tmp_path / f"named-{folder}", "--workers", 1)
        curator("ingest", tmp_path / folder, "--source", "s", "--out", tmp_path / f"whole-{folder}", "--workers", 1)
    same_files(tmp_path / "named-one", tmp_path / "named-two")
    same_files(tmp_path / "named-one", tmp_path / "whole-one")
    same_files(tmp_path / "named-one", tmp_path / "whole-two")


@pytest.mark.parametrize("command", [["concat"], ["sample", "--rows", "150", "--seed", "3"]])
def test_a_single_step_writes_the_same_bytes_with_more_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setattr(dataset, "GROUP_BYTES", 4096)
    names = ["alpaca_metadata.jsonl", "prompt_completion.jsonl"]
    folders = [tmp_path / Path(name).stem for name in names]
    for name, folder in zip(names, folders, strict=True):
        curator("ingest", SAMPLES / name, "--source", folder.name, "--out", folder, "--workers", 1)
    for workers in (1, 2):
        curator(command[0], *folders, *command[1:], "--out", tmp_path / f"out-{workers}", "--workers", workers)
    same_files(tmp_path / "out-1", tmp_path / "out-2")
    assert len(json.loads((tmp_path / "out-1" / "manifest.json").read_bytes())["tasks"]) > 1
