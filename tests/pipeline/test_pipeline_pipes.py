"""Pipes: a stream goes through stages to the same records that a folder would hold."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from record_samples import ids_of, ledger_of, quarantine_of, record, rejects_of, rows_of, write_dataset, write_lines

from curator.errors import CuratorError, UsageError
from curator.io.build import SourceSettings
from curator.io.stream import StreamReader
from curator.pipeline.passes import Options, run_pass
from curator.pipeline.pipes import as_folders, ingest_to_stream, is_stream, run_command
from curator.stages.base import Stage
from curator.stages.dedup.exact import Exact
from curator.stages.filter.where import Where
from curator.stages.sample import Sample
from curator.stages.tag.signals import Signals

ONE = Options(workers=1)
ROWS = [record(f"s/f#{n}", f"q{n % 7}", "a" * (n % 7)) for n in range(30)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "d", ROWS, shard_rows=12)


def piped(stages: list[Stage], source: Path | str, rejects: Path | None = None) -> bytes:
    sink = io.BytesIO()
    run_command([str(source)], stages, None, sink, rejects, ONE)
    return sink.getvalue()


def read(data: bytes) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    reader = StreamReader(io.BytesIO(data), "stdin")
    rows = [row for batch in reader.batches() for row in batch.to_pylist()]
    return rows, reader.passes


@pytest.mark.parametrize(
    "stage",
    [Signals(), Where("scores.num_response_chars.value > 2"), Exact(), Exact(on="prompt"), Sample(rows=5)],
)
def test_a_stream_carries_what_the_folder_holds(tmp_path: Path, folder: Path, stage: Stage) -> None:
    run_pass([folder], [Signals()], tmp_path / "tagged", ONE)
    run_pass([tmp_path / "tagged"], [stage], tmp_path / "out", ONE)
    rows, passes = read(piped([stage], tmp_path / "tagged"))
    assert rows == rows_of(tmp_path / "out")
    assert passes[-1]["steps"] == [json.loads(json.dumps(stage.describe()))]
    assert passes[-1]["ledger"] == ledger_of(tmp_path / "out").to_json()
    assert [entry["steps"][0]["step"] for entry in passes] == ["test", "tag.signals", stage.name]


@pytest.mark.parametrize("stage", [Where("id <> 's/f#3'"), Exact()])
def test_a_stream_goes_through_and_into_a_folder(tmp_path: Path, folder: Path, stage: Stage) -> None:
    (tmp_path / "in.arrow").write_bytes(piped([Signals()], folder))
    run_pass([folder], [Signals()], tmp_path / "tagged", ONE)
    run_pass([tmp_path / "tagged"], [stage], tmp_path / "direct", ONE)
    rows, _ = read(piped([stage], tmp_path / "in.arrow"))
    assert rows == rows_of(tmp_path / "direct")
    outcome = run_command([str(tmp_path / "in.arrow")], [stage], tmp_path / "out", io.BytesIO(), None, ONE)
    assert rows_of(tmp_path / "out") == rows
    assert outcome.ledger == ledger_of(tmp_path / "direct")


@pytest.mark.parametrize("stage", [Where("scores.num_response_chars.value > 2"), Exact()])
def test_rejects_of_a_pipe_are_a_folder_that_says_why(tmp_path: Path, folder: Path, stage: Stage) -> None:
    run_pass([folder], [Signals()], tmp_path / "tagged", ONE)
    run_pass([tmp_path / "tagged"], [stage], tmp_path / "out", ONE)
    piped([stage], tmp_path / "tagged", tmp_path / "rejects")
    assert rejects_of(tmp_path / "rejects") == rejects_of(tmp_path / "out")
    assert ids_of(tmp_path / "rejects") == []
    assert ledger_of(tmp_path / "rejects").dropped == ledger_of(tmp_path / "out").dropped
    with pytest.raises(CuratorError, match="holds the rejects of an earlier run|was made with other inputs"):
        piped([stage], tmp_path / "tagged", tmp_path / "rejects")


def test_a_killed_producer_stops_every_consumer(tmp_path: Path, folder: Path) -> None:
    data = piped([Signals()], folder)
    (tmp_path / "cut.arrow").write_bytes(data[: len(data) - 300])
    for stage in (Signals(), Exact()):
        with pytest.raises(CuratorError, match="ended without its end mark"):
            piped([stage], tmp_path / "cut.arrow")
        with pytest.raises(CuratorError, match="ended without its end mark"):
            run_command([str(tmp_path / "cut.arrow")], [stage], tmp_path / "out", io.BytesIO(), None, ONE)
        assert not (tmp_path / "out" / "manifest.json").exists()


def test_what_does_not_go_together_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(UsageError, match="--rejects is for pipes"):
        run_command([str(folder)], [Signals()], tmp_path / "o", io.BytesIO(), tmp_path / "r", ONE)
    with pytest.raises(UsageError, match="a stream cannot be read together with other inputs"):
        run_command(["-", str(folder)], [Signals()], None, io.BytesIO(), None, ONE)
    assert is_stream("-") and is_stream("x.arrow") and not is_stream(str(folder))


def test_a_stream_as_a_folder_for_commands_that_read_twice(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "in.arrow").write_bytes(piped([Signals()], folder))
    with as_folders([str(tmp_path / "in.arrow")]) as folders:
        assert ids_of(folders[0]) == [row["id"] for row in ROWS]
        kept = folders[0]
    assert not kept.exists()
    with as_folders([str(folder)]) as folders:
        assert folders == [folder]


# --- ingest -----------------------------------------------------------------------------------------------------------

RAW = [{"instruction": f"q{n}", "output": "a"} for n in range(5)]


def test_raw_files_become_a_stream(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "raw.jsonl", [*RAW[:2], b"broken", *RAW[2:]])
    sink = io.BytesIO()
    outcome = ingest_to_stream([str(path)], SourceSettings("s"), sink, tmp_path / "bad", ONE)
    rows, passes = read(sink.getvalue())
    assert [row["id"] for row in rows] == [f"s/raw.jsonl#{n}" for n in (0, 1, 3, 4, 5)]
    assert outcome.ledger.quarantined == {"not JSON": 1}
    assert passes[0]["ledger"]["read"] == 6
    assert [row["raw"] for row in quarantine_of(tmp_path / "bad")] == [b"broken"]
    from record_samples import ingested

    ingested(path, tmp_path / "folder")
    assert rows == rows_of(tmp_path / "folder")
    assert passes[0]["ledger"] == ledger_of(tmp_path / "folder").to_json()


def test_only_bad_rows_are_a_failure(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "raw.jsonl", [b"broken", b"{}"])
    with pytest.raises(CuratorError) as caught:
        ingest_to_stream([str(path)], SourceSettings("s"), io.BytesIO(), None, ONE)
    assert caught.value.message == (
        "source s: none of 2 rows could be read; row 0 of raw.jsonl: not JSON: invalid character (byte 0)"
    )
