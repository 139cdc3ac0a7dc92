"""A pass from folders to a folder: what is refused, what is left alone, what a person is told."""

import json
from pathlib import Path

import pytest
from record_samples import ONE, files_of, ids_of, ledger_of, passed, record, rejects_of, write_dataset

from curator.errors import CuratorError, UsageError
from curator.io.manifest import Manifest
from curator.pipeline.passes import Options, run_pass, warn_of_surprises
from curator.schema.record import ids_digest
from curator.stages.dedup.exact import Exact
from curator.stages.filter.where import Where
from curator.stages.tag.signals import Signals

ROWS = [record(f"s/f#{n}", f"q{n % 40}", "a" * (n % 3)) for n in range(60)]

pytestmark = pytest.mark.usefixtures("every_shard_is_a_task")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "d", ROWS, shard_rows=20)


def test_a_pass_writes_an_account_a_history_and_the_fingerprint_of_its_input(tmp_path: Path, folder: Path) -> None:
    out = passed(Where("length(messages[2].content) > 0"), folder, tmp_path / "out")
    manifest = Manifest.read(out)
    assert manifest.fingerprint == {
        "steps": [json.loads(json.dumps(Where("length(messages[2].content) > 0").describe()))],
        "inputs": [{"digest": Manifest.read(folder).digest}],
    }
    ledger = ledger_of(out)
    assert (ledger.read, ledger.kept, ledger.dropped) == (60, 40, {"filter.where/where": 20})
    assert ledger.read_ids == ids_digest(row["id"] for row in ROWS)
    assert ledger.dropped_ids == ids_digest(rejects_of(out))
    assert [entry["steps"][0]["step"] for entry in manifest.passes()] == ["test", "filter.where"]
    assert len(manifest.tasks) == 3


@pytest.mark.parametrize("stage", [Signals(), Exact(), Where("id <> 's/f#7'")])
def test_one_and_two_workers_write_the_same_bytes(tmp_path: Path, folder: Path, stage: Signals) -> None:
    one = passed(stage, folder, tmp_path / "one", Options(workers=1))
    two = passed(stage, folder, tmp_path / "two", Options(workers=2))
    assert files_of(one) == files_of(two)


def test_a_finished_pass_is_left_alone(tmp_path: Path, folder: Path) -> None:
    passed(Signals(), folder, tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    outcome = run_pass([folder], [Signals()], tmp_path / "out", ONE)
    assert outcome.reused and outcome.ledger.read == 60
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == before


def test_other_settings_need_overwrite_and_name_the_first_difference(tmp_path: Path, folder: Path) -> None:
    passed(Exact(), folder, tmp_path / "out")
    with pytest.raises(CuratorError, match=r'steps\[0\]\.settings\.on: was "conversation", now "prompt"'):
        passed(Exact(on="prompt"), folder, tmp_path / "out")
    passed(Exact(on="prompt"), folder, tmp_path / "out", Options(workers=1, overwrite=True))
    assert len(ids_of(tmp_path / "out")) == 40


def test_an_input_cannot_be_the_output(folder: Path) -> None:
    before = files_of(folder)
    with pytest.raises(CuratorError, match="is also an input"):
        passed(Signals(), folder, folder / ".")
    assert files_of(folder) == before


def test_folders_that_share_ids_are_refused_naming_one(tmp_path: Path, folder: Path) -> None:
    other = write_dataset(tmp_path / "other", [record("t/f#0", "q", "a"), record("s/f#33", "q", "a")])
    with pytest.raises(CuratorError) as caught:
        passed(Signals(), [folder, other], tmp_path / "out")
    assert caught.value.message == f"{folder} and {other} share ids, for example s/f#33"
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_column_that_is_not_there_stops_before_any_work(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(UsageError, match="no column scores.num_turns.value"):
        passed(Where("scores.num_turns.value > 1"), folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_failing_shard_leaves_the_others_and_the_run_goes_on(tmp_path: Path, folder: Path) -> None:
    damaged = folder / "data" / "part-00001.parquet"
    data = damaged.read_bytes()
    damaged.write_bytes(data[:100] + bytes(300) + data[400:])
    for workers in (1, 2):
        with pytest.raises(CuratorError, match=r"part-00001\.parquet is damaged") as caught:
            passed(Signals(), folder, tmp_path / f"out-{workers}", Options(workers=workers))
        assert caught.value.exit_code == 3
        kept = sorted(path.name for path in (tmp_path / f"out-{workers}" / "data").glob("part-*"))
        assert kept == ["part-00000.parquet", "part-00002.parquet"]
    damaged.write_bytes(data)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out-1" / "data").iterdir()}
    passed(Signals(), folder, tmp_path / "out-1")
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out-1" / "data").iterdir()}
    assert before.items() < after.items()
    assert files_of(tmp_path / "out-1") == files_of(passed(Signals(), folder, tmp_path / "whole"))


def test_empty_results_and_filters_without_effect_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_dataset(tmp_path / "many", [record(f"s/f#{n}", "q", "a") for n in range(100)])
    warn_of_surprises(run_pass([folder], [Where("false")], tmp_path / "none", ONE))
    assert "0 of 100 records kept (filter.where/where 100)" in capsys.readouterr().err
    warn_of_surprises(run_pass([folder], [Where("true")], tmp_path / "all", ONE))
    assert "filter.where removed nothing of 100 records" in capsys.readouterr().err
    warn_of_surprises(run_pass([folder], [Signals()], tmp_path / "tagged", ONE))
    assert "removed nothing" not in capsys.readouterr().err


def test_passes_over_nothing(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "d", [])
    for number, stage in enumerate((Signals(), Exact(), Where("true"))):
        folder = passed(stage, folder, tmp_path / f"{number}")
        assert ids_of(folder) == []
        assert ledger_of(folder).problem() is None
