"""Dataset folders: bytes that depend on rows alone, interruptions that leave whole shards, and one writer at a time."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from record_samples import HOLLOW, batch_of, files_of, ids_of, record, rows_of, write_dataset, write_task

from curator.errors import CuratorError
from curator.io import dataset as module
from curator.io.dataset import Dataset, OutputFolder, Shard, ShardWriter, TaskWriter, check_columns
from curator.io.manifest import Fingerprint, Manifest, TaskResult
from curator.schema.record import (
    QUARANTINE_SCHEMA,
    RECORD_SCHEMA,
    column_array,
    drop_array,
    ids_digest,
    record_schema,
    set_columns,
)

RECORDS = [record(f"s/f#{n}", f"question {n}", "answer " * (n % 5), extra=None if n % 3 else "{}") for n in range(40)]
BATCH = batch_of(RECORDS)


def shard_bytes(folder: Path, cuts: list[int]) -> bytes:
    writer = ShardWriter(folder, "f.parquet", RECORD_SCHEMA)
    for start, stop in zip([0, *cuts], [*cuts, BATCH.num_rows], strict=True):
        writer.write(BATCH.slice(start, stop - start))
    assert writer.close().rows == BATCH.num_rows
    return (folder / "f.parquet").read_bytes()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 40), max_size=8).map(sorted), row_limit=st.sampled_from([7, 8192]))
def test_bytes_of_a_shard_do_not_depend_on_how_rows_arrive(tmp_path: Path, cuts: list[int], row_limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BATCH_ROWS", row_limit)
        assert shard_bytes(tmp_path, cuts) == shard_bytes(tmp_path, [])


def groups(path: Path) -> list[int]:
    metadata = pq.ParquetFile(path).metadata
    return [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]


def test_row_groups_end_at_fixed_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_ROWS", 16)
    shard_bytes(tmp_path, [3, 20])
    assert groups(tmp_path / "f.parquet") == [16, 16, 8]


def test_row_groups_end_at_the_record_that_reaches_the_limit_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [10, 10, 10, 100, 5, 30, 1, 1, 29]
    rows = [record(str(index), "x" * size) for index, size in enumerate(sizes)]
    monkeypatch.setattr(module, "BATCH_BYTES", 30)
    for step in (1, 2, 9):
        writer = ShardWriter(tmp_path, "f.parquet", RECORD_SCHEMA)
        for start in range(0, len(rows), step):
            writer.write(batch_of(rows[start : start + step]))
        writer.close()
        assert groups(tmp_path / "f.parquet") == [3, 1, 2, 3]


def test_repeating_columns_have_a_dictionary_and_text_has_none(tmp_path: Path) -> None:
    shard_bytes(tmp_path, [])
    group = pq.ParquetFile(tmp_path / "f.parquet").metadata.row_group(0)
    encodings = {
        group.column(index).path_in_schema: "RLE_DICTIONARY" in group.column(index).encodings
        for index in range(group.num_columns)
    }
    assert encodings["kind"] and encodings["metadata.source"] and encodings["messages.list.element.role"]
    assert not encodings["messages.list.element.content"] and not encodings["id"] and not encodings["extra"]
    assert group.column(0).compression == "ZSTD"


def test_a_folder_opens_in_other_tools(tmp_path: Path) -> None:
    import duckdb
    import polars

    write_dataset(tmp_path / "d", RECORDS, shard_rows=15)
    pattern = str(tmp_path / "d" / "data" / "*.parquet")
    assert polars.read_parquet(pattern)["id"].to_list() == [row["id"] for row in RECORDS]
    assert duckdb.sql(f"select count(*), count(messages[1].content) from '{pattern}'").fetchall() == [(40, 40)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.fixed_dictionaries({name: st.sampled_from(values) for name, values in HOLLOW.items()}), min_size=1
    ),
    full=st.booleans(),
)
def test_columns_without_values_come_back_as_they_were(tmp_path: Path, rows: list[dict[str, Any]], full: bool) -> None:
    records = [{"id": str(number), **row} for number, row in enumerate(rows)]
    batch = pa.RecordBatch.from_pylist([*records, *RECORDS[:full]], RECORD_SCHEMA)
    writer = ShardWriter(tmp_path, "f.parquet", RECORD_SCHEMA)
    writer.write(batch)
    shard = Shard(tmp_path / "f.parquet", writer.close().rows, 0)
    (read,) = shard.batches(RECORD_SCHEMA)
    read.validate(full=True)
    assert read.schema.equals(RECORD_SCHEMA, check_metadata=True)
    assert read.to_pylist() == batch.to_pylist()
    for name in (*HOLLOW, "metadata.turn_issues", "drop.keeper"):
        (alone,) = shard.batches(RECORD_SCHEMA, [name])
        assert column_array(alone, name).to_pylist() == column_array(batch, name).to_pylist()


# --- tasks ----------------------------------------------------------------------------------------------------------


def writer(folder: Path, count: int, **options: Any) -> TaskWriter:
    task = TaskWriter(folder, TaskResult("00000", "raw.jsonl"), RECORD_SCHEMA, **options)
    task.begin_shard("part-00000")
    task.result.ledger.read = count
    task.result.ledger.read_ids = ids_digest(row["id"] for row in RECORDS[:count])
    return task


def dropped(batch: pa.RecordBatch) -> pa.RecordBatch:
    drop = drop_array(pa.repeat(True, batch.num_rows), "step", "rule", detail="why")
    return set_columns(batch, {"drop": drop}, RECORD_SCHEMA)


def bad_rows(*ids: str) -> pa.RecordBatch:
    rows = [{"id": id_, "file": "f", "row": 1, "byte_offset": 0, "reason": "r: x", "raw": b"\xff"} for id_ in ids]
    return pa.RecordBatch.from_pylist(rows, QUARANTINE_SCHEMA)


def test_a_task_accounts_for_every_row(tmp_path: Path) -> None:
    task = writer(tmp_path, 10)
    task.keep(BATCH.slice(0, 6))
    task.begin_shard("part-00001")
    task.keep(BATCH.slice(6, 1))
    task.reject(dropped(BATCH.slice(7, 2)))
    task.quarantine(bad_rows("s/f#9"))
    result = task.close()
    assert [(entry.path, entry.rows) for entry in result.files()] == [
        ("data/part-00000.parquet", 6),
        ("data/part-00001.parquet", 1),
        ("rejects/00000.parquet", 2),
        ("quarantine/00000.parquet", 1),
    ]
    assert (result.ledger.kept, result.ledger.dropped, result.ledger.quarantined) == (7, {"step/rule": 2}, {"r": 1})
    assert pq.read_table(tmp_path / "quarantine/00000.parquet").to_pylist()[0]["raw"] == b"\xff"


def test_rows_that_vanish_stop_the_task(tmp_path: Path) -> None:
    task = writer(tmp_path, 10)
    task.keep(BATCH.slice(0, 9))
    with pytest.raises(CuratorError, match=r"raw\.jsonl: 10 rows were read, 9 are accounted for"):
        task.close()
    task = writer(tmp_path, 10)
    task.keep(BATCH.slice(0, 9))
    task.keep(BATCH.slice(0, 1))
    with pytest.raises(CuratorError, match="the ids that went in are not the ids that came out"):
        task.close()


def test_a_rejected_row_must_say_why(tmp_path: Path) -> None:
    task = writer(tmp_path, 10)
    with pytest.raises(AssertionError, match="does not say why"):
        task.reject(BATCH.slice(0, 2))


def test_rejects_that_are_not_stored_are_counted(tmp_path: Path) -> None:
    task = writer(tmp_path, 2, stores_rejects=False)
    task.keep(BATCH.slice(0, 1))
    task.reject(dropped(BATCH.slice(1, 1)))
    result = task.close()
    assert result.rejects == [] and result.ledger.dropped == {"step/rule": 1}


def test_a_task_without_records_leaves_an_empty_shard_with_the_schema(tmp_path: Path) -> None:
    write_dataset(tmp_path / "d", [])
    dataset = Dataset.open(tmp_path / "d")
    assert [shard.num_rows for shard in dataset.shards] == [0]
    assert pq.read_schema(dataset.shards[0].path).equals(RECORD_SCHEMA)
    assert list(dataset.batches()) == []


# --- reading --------------------------------------------------------------------------------------------------------


def test_reading_keeps_order_and_counts_rows_through_shards(tmp_path: Path) -> None:
    write_dataset(tmp_path / "d", RECORDS, shard_rows=15)
    dataset = Dataset.open(tmp_path / "d")
    assert [(shard.num_rows, shard.first_row) for shard in dataset.shards] == [(15, 0), (15, 15), (10, 30)]
    assert ids_of(tmp_path / "d") == [row["id"] for row in RECORDS]
    assert pa.Table.from_batches(dataset.batches()).combine_chunks().to_batches()[0].equals(BATCH)


def test_columns_are_read_without_the_rest(tmp_path: Path) -> None:
    write_dataset(tmp_path / "d", RECORDS[:2])
    rows = rows_of(tmp_path / "d", ["metadata.source", "id", "dedup"])
    assert rows[0] == {"id": "s/f#0", "metadata": {"source": "s"}, "dedup": None}


def test_several_folders_read_as_one_under_the_union_of_their_schemas(tmp_path: Path) -> None:
    left = write_dataset(
        tmp_path / "a", [record("a#0", "q", "a", metadata={"team": "red"})], record_schema({"team": pa.string()})
    )
    right = write_dataset(tmp_path / "b", [record("b#0", "q", "a")])
    dataset = Dataset.open(right, left)
    assert dataset.schema.field("metadata").type.get_field_index("team") >= 0
    rows = [row for batch in dataset.batches() for row in batch.to_pylist()]
    assert [(row["id"], row["metadata"]["team"]) for row in rows] == [("b#0", None), ("a#0", "red")]
    assert [list(batch.schema) for batch in dataset.batches()][0] == list(dataset.schema)
    only = [column_array(batch, "metadata.team").to_pylist() for batch in dataset.batches(["metadata.team"])]
    assert only == [[None], ["red"]]


def test_a_folder_named_twice_is_refused(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "a", RECORDS)
    with pytest.raises(CuratorError, match="the same folder is named twice"):
        Dataset.open(folder, tmp_path / "." / "a")


@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_shard_is_named_when_read(tmp_path: Path, damage: str) -> None:
    folder = write_dataset(tmp_path / "d", RECORDS)
    path = folder / "data" / "part-00000.parquet"
    damage_file(path, damage)
    with pytest.raises(CuratorError, match=r"part-00000\.parquet (is damaged|is missing|has [\d,]+ bytes)"):
        rows_of(folder)


def damage_file(path: Path, damage: str) -> None:
    data = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    else:
        for index in range(100, 400):
            data[index] ^= 255
        path.write_bytes(data)


def test_missing_columns_are_named_with_the_closest() -> None:
    check_columns(RECORD_SCHEMA, ["id", "metadata", "metadata.domain", "messages"], "step")
    with pytest.raises(CuratorError) as caught:
        check_columns(RECORD_SCHEMA, ["id", "metadata.domian"], "filter.where")
    assert str(caught.value) == (
        "filter.where reads metadata.domian, which the input does not have\nhint: did you mean metadata.domain?"
    )


# --- writing folders ------------------------------------------------------------------------------------------------

FINGERPRINT = Fingerprint(({"step": "t", "settings": {"on": "prompt", "n": 1}},), ({"digest": "d"},))
NAMES = ["00000", "00001", "00002"]


def work(folder: Path, stop_after: int = 3, **options: Any) -> list[str]:
    """Write what is missing of three shards; returns what was written. Stops without a manifest before the last."""
    output = OutputFolder.prepare(folder, FINGERPRINT, **options)
    done = []
    try:
        for index, name in enumerate(NAMES):
            if output.complete is not None or name in output.finished:
                continue
            if len(done) == stop_after:
                return done
            output.record(write_task(folder, name, RECORDS[index * 10 : index * 10 + 10], RECORD_SCHEMA))
            done.append(name)
        if output.complete is None:
            output.finish(NAMES, RECORD_SCHEMA, [], {"seconds": os.getpid()})
    finally:
        output.release()
    return done


def times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "data").iterdir()}


def test_an_interrupted_folder_goes_on_where_it_stopped(tmp_path: Path) -> None:
    assert work(tmp_path / "whole") == NAMES
    assert work(tmp_path / "d", stop_after=1) == ["00000"]
    with pytest.raises(CuratorError, match="it is not complete"):
        Dataset.open(tmp_path / "d")
    before = times(tmp_path / "d")
    assert work(tmp_path / "d") == ["00001", "00002"]
    assert before.items() <= times(tmp_path / "d").items()
    assert files_of(tmp_path / "d") == files_of(tmp_path / "whole")
    assert work(tmp_path / "d") == []


@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
@pytest.mark.parametrize("finished", [True, False])
def test_only_what_is_damaged_is_written_again(tmp_path: Path, damage: str, finished: bool) -> None:
    work(tmp_path / "whole")
    work(tmp_path / "d", stop_after=3 if finished else 2)
    damage_file(tmp_path / "d" / "data" / "part-00001.parquet", damage)
    before = times(tmp_path / "d")
    assert work(tmp_path / "d") == (["00001"] if finished else ["00001", "00002"])
    after = times(tmp_path / "d")
    assert after["part-00000.parquet"] == before["part-00000.parquet"]
    assert after["part-00001.parquet"] != before.get("part-00001.parquet")
    assert files_of(tmp_path / "d") == files_of(tmp_path / "whole")


def test_a_planted_shard_without_an_account_is_not_taken_for_a_finished_one(tmp_path: Path) -> None:
    work(tmp_path / "whole")
    work(tmp_path / "d", stop_after=1)
    planted = tmp_path / "d" / "data" / "part-00001.parquet"
    shutil.copy(tmp_path / "whole" / "data" / "part-00000.parquet", planted)
    shutil.copy(planted, tmp_path / "d" / "data" / "part-00009.parquet")
    (tmp_path / "d" / "data" / ".tmp-1-part-00002.parquet").write_bytes(b"half")
    assert work(tmp_path / "d") == ["00001", "00002"]
    assert files_of(tmp_path / "d") == files_of(tmp_path / "whole")


def test_nothing_is_called_complete_while_a_damaged_shard_is_redone(tmp_path: Path) -> None:
    work(tmp_path / "d")
    (tmp_path / "d" / "data" / "part-00001.parquet").unlink()
    work(tmp_path / "d", stop_after=0)
    assert not (tmp_path / "d" / "manifest.json").exists()
    with pytest.raises(CuratorError, match="it is not complete"):
        Dataset.open(tmp_path / "d")


@pytest.mark.parametrize("finished", [True, False])
def test_other_settings_are_refused_naming_the_first(tmp_path: Path, finished: bool) -> None:
    work(tmp_path / "d", stop_after=3 if finished else 1)
    before = files_of(tmp_path / "d")
    other = Fingerprint(({"step": "t", "settings": {"on": "response", "n": 2}},), ({"digest": "e"},))
    with pytest.raises(CuratorError) as caught:
        OutputFolder.prepare(tmp_path / "d", other)
    assert caught.value.message == (
        f"{tmp_path}/d was made with other inputs or settings: "
        'input 1 has other content now (inputs[0].digest: was "d", now "e")'
    )
    assert files_of(tmp_path / "d") == before
    output = OutputFolder.prepare(tmp_path / "d", other, overwrite=True)
    assert output.finished == {} and not list((tmp_path / "d").glob("data/*"))
    output.release()


def test_overwrite_with_the_same_settings_does_nothing_twice(tmp_path: Path) -> None:
    work(tmp_path / "d")
    assert work(tmp_path / "d", overwrite=True) == []


def test_a_folder_that_is_not_ours_is_never_emptied(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(CuratorError) as caught:
            OutputFolder.prepare(tmp_path / "home", FINGERPRINT, overwrite)
        assert caught.value.message == (f"{tmp_path}/home is not empty and not a dataset folder (it holds thesis.txt)")
    assert (tmp_path / "home" / "thesis.txt").read_text() == "years of work"


def test_overwriting_a_dataset_leaves_what_a_person_put_there(tmp_path: Path) -> None:
    work(tmp_path / "d")
    (tmp_path / "d" / "notes.md").write_text("mine")
    other = Fingerprint(({"step": "u"},), ())
    OutputFolder.prepare(tmp_path / "d", other, overwrite=True).release()
    assert (tmp_path / "d" / "notes.md").read_text() == "mine"
    assert not list((tmp_path / "d").glob("data/*"))


def test_leftovers_without_manifest_need_overwrite(tmp_path: Path) -> None:
    work(tmp_path / "d")
    (tmp_path / "d" / "manifest.json").unlink()
    with pytest.raises(CuratorError) as caught:
        work(tmp_path / "d")
    assert caught.value.hint == "choose another --out, or --overwrite to replace it"
    assert work(tmp_path / "d", overwrite=True) == NAMES


def test_out_must_not_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    with pytest.raises(CuratorError, match=r"/f is a file"):
        OutputFolder.prepare(tmp_path / "f", FINGERPRINT)


def test_a_newer_folder_is_not_touched(tmp_path: Path) -> None:
    work(tmp_path / "d")
    path = tmp_path / "d" / "manifest.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 9'))
    with pytest.raises(CuratorError, match="has schema version 9"):
        work(tmp_path / "d")
    assert (tmp_path / "d" / "data" / "part-00000.parquet").exists()


HOLD = """
import sys
from pathlib import Path
from curator.io.dataset import OutputFolder
from curator.io.manifest import Fingerprint
folder = OutputFolder.prepare(Path(sys.argv[1]), Fingerprint(({"step": "t"},), ()))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_folder_has_one_writer_and_a_killed_one_frees_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "d")]
    fingerprint = Fingerprint(({"step": "t"},), ())
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(CuratorError, match="is being written by another process"):
            OutputFolder.prepare(tmp_path / "d", fingerprint)
        process.kill()
        process.wait()
        OutputFolder.prepare(tmp_path / "d", fingerprint).release()
    assert not (tmp_path / "d" / ".lock").exists()


def test_the_manifest_names_every_file_and_nothing_else_stays(tmp_path: Path) -> None:
    work(tmp_path / "d")
    known = {entry.path for task in Manifest.read(tmp_path / "d").tasks for entry in task.files()}
    assert set(files_of(tmp_path / "d")) == {*known, "manifest.json"}
    assert not (tmp_path / "d" / ".partial").exists()
