"""Dataset stages in rounds: the same decisions for any number of partitions, resumed at the last whole round."""

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from record_samples import files_of, ids_of, record, write_dataset

from curator.engine.local import LocalEngine
from curator.io.dataset import Dataset
from curator.pipeline import rounds
from curator.pipeline.passes import Options, run_pass
from curator.pipeline.rounds import _partition, decide
from curator.stages.dedup.exact import Exact
from curator.stages.dedup.near import Near

ROWS = [record(f"s/f#{n}", f"q{n * n % 23}", "a") for n in range(100)]

pytestmark = pytest.mark.usefixtures("every_shard_is_a_task")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "d", ROWS, shard_rows=30)


def passed(folder: Path, out: Path, workers: int = 1) -> dict[str, bytes]:
    run_pass([folder], [Exact()], out, Options(workers=workers))
    return files_of(out)


def test_any_number_of_partitions_and_workers_decides_alike(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = passed(folder, tmp_path / "one")
    assert len(ids_of(tmp_path / "one")) == len({row["messages"][0]["content"] for row in ROWS})
    assert len([name for name in expected if name.startswith("data/")]) == 4
    for partition_rows, workers in ((7, 1), (30, 2), (99, 1)):
        monkeypatch.setattr(rounds, "PARTITION_ROWS", partition_rows)
        assert passed(folder, tmp_path / f"{partition_rows}", workers) == expected


class Recording(LocalEngine):
    """Counts tasks, and stops before one of them."""

    def __init__(self, stop_before: int = 99) -> None:
        super().__init__(1)
        self.names: list[str] = []
        self.stop_before = stop_before

    def run(self, tasks: Sequence[Any], report: Any) -> Iterator[tuple[Any, Any]]:
        for task in tasks:
            if len(self.names) == self.stop_before:
                raise KeyboardInterrupt
            self.names.append(task.label)
            yield task, task.run(report)


def test_a_killed_run_goes_on_at_the_first_task_that_is_not_whole(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "PARTITION_ROWS", 40)
    dataset = Dataset.open(folder)
    whole = Recording()
    expected = decide(Exact(), dataset, tmp_path / "whole", whole).read_bytes()
    assert whole.names == [
        *(f"dedup.exact, shard {n:05d}" for n in range(4)),
        *(f"dedup.exact, partition {n:05d}" for n in range(3)),
        "dedup.exact, partition all",
    ]
    for stop in range(8):
        out = tmp_path / f"stopped-{stop}"
        first, second = Recording(stop), Recording()
        with pytest.raises(KeyboardInterrupt):
            decide(Exact(), dataset, out, first)
        assert decide(Exact(), dataset, out, second).read_bytes() == expected
        assert len(second.names) == 8 - stop
        third = Recording()
        decide(Exact(), dataset, out, third)
        assert third.names == []


def test_near_duplicates_killed_before_any_task_go_on(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven rounds, some of which read tables of rounds long before them."""
    monkeypatch.setattr(rounds, "PARTITION_ROWS", 40)
    dataset, stage = Dataset.open(folder), Near(on="prompt", num_perm=32, threshold=0.9)
    whole = Recording()
    expected = decide(stage, dataset, tmp_path / "whole", whole).read_bytes()
    assert len(whole.names) > 15
    assert not list((tmp_path / "whole").glob(".partial/round-[0-5]/*.arrow")), (
        "spilled files go with their last reader"
    )
    for stop in range(len(whole.names)):
        out = tmp_path / f"stopped-{stop}"
        second = Recording()
        with pytest.raises(KeyboardInterrupt):
            decide(stage, dataset, out, Recording(stop))
        assert decide(stage, dataset, out, second).read_bytes() == expected
        assert len(second.names) == len(whole.names) - stop


def test_half_a_task_is_done_again(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "PARTITION_ROWS", 40)
    dataset = Dataset.open(folder)
    with pytest.raises(KeyboardInterrupt):
        decide(Exact(), dataset, tmp_path / "out", Recording(3))
    spilled = tmp_path / "out" / ".partial" / "round-0" / "00002.arrow"
    spilled.rename(spilled.with_name(".tmp-half"))
    again = Recording()
    decide(Exact(), dataset, tmp_path / "out", again)
    assert again.names[0] == "dedup.exact, shard 00002"
    assert len(again.names) == 6


def test_partitions_hold_every_line_once_and_equal_keys_together() -> None:
    digests = [bytes([n % 7]) * 16 if n % 5 else None for n in range(60)]
    for keys in (
        pa.array(digests, pa.binary(16)),
        pa.array([n % 7 for n in range(60)], pa.int64()),
        pa.array([n % 7 - 3 for n in range(60)], pa.int64()),
    ):
        table = pa.table({"row": pa.array(range(60)), "key": keys})
        parts = list(_partition(table, "key", 4))
        assert len(parts) == 4
        assert sorted(row for part in parts for row in part.column("row").to_pylist()) == list(range(60))
        places: dict[Any, set[int]] = {}
        for number, part in enumerate(parts):
            assert part.column("row").to_pylist() == sorted(part.column("row").to_pylist())
            for key in part.column("key").to_pylist():
                places.setdefault(key, set()).add(number)
        assert all(len(numbers) == 1 for numbers in places.values())
        assert places.get(None, {0}) == {0}
        assert len({next(iter(numbers)) for numbers in places.values()}) > 1
    sliced = pa.table({"row": pa.array(range(60)), "key": pa.array(digests, pa.binary(16))}).slice(11, 30)
    assert sum(len(part) for part in _partition(sliced, "key", 3)) == 30


def test_decisions_reach_their_rows_in_batches_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from curator.io import dataset

    monkeypatch.setattr(dataset, "BATCH_ROWS", 9)
    small = write_dataset(tmp_path / "small", ROWS, shard_rows=30)
    run_pass([small], [Exact()], tmp_path / "out", Options(workers=1))
    first: dict[str, str] = {}
    for row in ROWS:
        first.setdefault(row["messages"][0]["content"], row["id"])
    assert ids_of(tmp_path / "out") == list(first.values())
    assert np.all([name in first.values() for name in ids_of(tmp_path / "out")])


def test_an_interrupt_while_kernels_are_loaded_is_not_lost(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def warm(stage: Exact) -> None:
        signal.raise_signal(signal.SIGINT)
        seen.append("warm")

    monkeypatch.setattr(Exact, "warm", warm)
    # A test run in the background of a shell ignores Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            decide(Exact(), Dataset.open(folder), tmp_path / "out", Recording())
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == ["warm"]
