"""sample and concat."""

from pathlib import Path

import pyarrow as pa
import pytest
from record_samples import ids_of, ledger_of, passed, record, rows_of, write_dataset

from curator.errors import CuratorError
from curator.schema.record import record_schema
from curator.stages.concat import Concat
from curator.stages.sample import Sample

ROWS = [record(f"s/f#{n}", f"q{n}", "a") for n in range(50)]


def test_a_sample_has_the_rows_asked_in_their_order(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "d", ROWS, shard_rows=17)
    chosen = ids_of(passed(Sample(rows=10), folder, tmp_path / "out"))
    assert len(chosen) == 10
    numbers = [int(name.rpartition("#")[2]) for name in chosen]
    assert numbers == sorted(numbers)
    assert ledger_of(tmp_path / "out").dropped == {"sample/not_sampled": 40}
    assert not (tmp_path / "out" / "rejects").exists()


def test_a_sample_depends_on_ids_and_seed_alone(tmp_path: Path) -> None:
    one = write_dataset(tmp_path / "one", ROWS, shard_rows=17)
    other = write_dataset(tmp_path / "other", ROWS[::-1], shard_rows=50)
    first = ids_of(passed(Sample(rows=10, seed=3), one, tmp_path / "a"))
    assert sorted(first) == sorted(ids_of(passed(Sample(rows=10, seed=3), other, tmp_path / "b")))
    assert first != ids_of(passed(Sample(rows=10, seed=4), one, tmp_path / "c"))
    smaller = ids_of(passed(Sample(rows=5, seed=3), one, tmp_path / "e"))
    assert set(smaller) < set(first)


@pytest.mark.parametrize(("rows", "kept"), [(0, 0), (1, 1), (50, 50), (99, 50)])
def test_samples_of_none_and_of_all(tmp_path: Path, rows: int, kept: int) -> None:
    folder = write_dataset(tmp_path / "d", ROWS)
    assert len(ids_of(passed(Sample(rows=rows), folder, tmp_path / "out"))) == kept


def test_concat_joins_folders_under_one_schema(tmp_path: Path) -> None:
    left = write_dataset(tmp_path / "a", ROWS[:3])
    right = write_dataset(
        tmp_path / "b",
        [record("t/f#0", "q", "a", metadata={"team": "red"})],
        record_schema({"team": pa.string()}),
    )
    out = passed(Concat(), [left, right], tmp_path / "out")
    assert [(row["id"], row["metadata"]["team"]) for row in rows_of(out)] == [
        ("s/f#0", None),
        ("s/f#1", None),
        ("s/f#2", None),
        ("t/f#0", "red"),
    ]


def test_concat_refuses_folders_that_share_ids(tmp_path: Path) -> None:
    left = write_dataset(tmp_path / "a", ROWS[:3])
    right = write_dataset(tmp_path / "b", [ROWS[4], ROWS[2]])
    with pytest.raises(CuratorError) as caught:
        passed(Concat(), [left, right], tmp_path / "out")
    assert caught.value.message == f"{left} and {right} share ids, for example s/f#2"
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_b123_a_sample_is_not_the_head_and_hardly_changes_when_rows_come_behind(tmp_path: Path) -> None:
    rows = [record(f"s/f#{n}", f"topic {'ab'[n // 50]}", "x") for n in range(100)]
    folder = write_dataset(tmp_path / "d", rows, shard_rows=30)
    taken = rows_of(passed(Sample(rows=20), folder, tmp_path / "out"))
    topics = [row["messages"][0]["content"] for row in taken]
    assert len(topics) == 20 and 5 <= topics.count("topic a") <= 15
    more = [*rows, *(record(f"s/g#{n}", "topic c", "x") for n in range(50))]
    later = passed(Sample(rows=20), write_dataset(tmp_path / "more", more, shard_rows=30), tmp_path / "later")
    old = [name for name in ids_of(later) if name.startswith("s/f#")]
    assert 5 <= len(old) < 20 and set(old) < {row["id"] for row in taken}
