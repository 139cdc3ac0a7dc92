"""A folder into one file: everything counted, nothing half written, numbers and order as they came."""

import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from adapter_samples import exact
from record_samples import ingested, rows_of, write_dataset, write_lines

from curator.errors import CuratorError, UsageError
from curator.pipeline.export import ExportOutcome, ExportSettings, export

ALPACA = '{"instruction":"a","input":"","output":"b","n":1.50}'
CHAT = '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}'
CALLS = (
    '{"conversations":[{"from":"human","value":"q"},{"from":"function_call","value":"{\\"name\\":\\"f\\"}"},'
    '{"from":"observation","value":"1"},{"from":"gpt","value":"a"}]}'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_lines(tmp_path / "raw/a.jsonl", [ALPACA.encode()] * 3)
    write_lines(tmp_path / "raw/b.jsonl", [CHAT.encode(), CALLS.encode()])
    ingested(tmp_path / "raw", tmp_path / "d")
    return tmp_path / "d"


def exported(folder: Path, out: Path, target: str, **settings: Any) -> ExportOutcome:
    return export(str(folder), ExportSettings(target, **settings), out)


def lines_of(path: Path) -> Sequence[str]:
    return path.read_text().splitlines()


def test_the_account(folder: Path, tmp_path: Path) -> None:
    outcome = exported(folder, tmp_path / "out.jsonl", "alpaca", skips=True)
    assert (outcome.read, outcome.restored, outcome.rendered, outcome.skipped) == (5, 3, 1, {"tool calls": 1})
    assert len(lines_of(tmp_path / "out.jsonl")) == 4
    assert exact(lines_of(tmp_path / "out.jsonl")[0]) == exact(ALPACA)
    (named,) = lines_of(tmp_path / "out.jsonl.skipped.jsonl")
    assert json.loads(named) == {"id": "s/b.jsonl#1", "reason": "tool calls"}


def test_what_cannot_be_written_stops_and_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(
        CuratorError, match=r"1 of 5 records cannot be written as alpaca: tool calls 1; first s/b"
    ) as bad:
        exported(folder, tmp_path / "out.jsonl", "alpaca")
    assert bad.value.hint is not None and "--skip" in bad.value.hint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "raw"]


def test_names_of_an_earlier_run_are_gone(folder: Path, tmp_path: Path) -> None:
    exported(folder, tmp_path / "out.jsonl", "alpaca", skips=True)
    exported(folder, tmp_path / "out.jsonl", "messages", skips=True, overwrite=True)
    assert not (tmp_path / "out.jsonl.skipped.jsonl").exists()


@pytest.mark.parametrize("ending", ["jsonl", "json", "jsonl.gz", "json.gz", "jsonl.zst", "json.zst"])
def test_endings(folder: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"out.{ending}"
    exported(folder, out, "source")
    data = out.read_bytes()
    if ending.endswith(".gz"):
        data = gzip.decompress(data)
    elif ending.endswith(".zst"):
        data = pa.CompressedInputStream(pa.py_buffer(data), "zstd").read()
    text = data.decode()
    rows = exact(text) if "json." in f"{ending}." else [exact(line) for line in text.splitlines()]
    assert list(rows) == [exact(ALPACA)] * 3 + [exact(CHAT), exact(CALLS)]
    # Read again, it is the dataset that it was.
    ingested(out, tmp_path / "again")
    columns = ["messages", "tools", "extra", "content_hash"]
    assert rows_of(tmp_path / "again", columns) == rows_of(folder, columns)


def test_the_same_bytes_twice(folder: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "one.jsonl.gz", tmp_path / "two.jsonl.gz"
    exported(folder, first, "sharegpt")
    exported(folder, second, "sharegpt")
    assert first.read_bytes() == second.read_bytes()


def test_no_records_are_an_empty_file(tmp_path: Path) -> None:
    write_dataset(tmp_path / "d", [])
    exported(tmp_path / "d", tmp_path / "out.jsonl", "messages")
    exported(tmp_path / "d", tmp_path / "out.json", "messages")
    assert (tmp_path / "out.jsonl").read_bytes() == b"" and (tmp_path / "out.json").read_bytes() == b"[]\n"


def test_a_sink_gets_lines(folder: Path) -> None:
    sink = io.BytesIO()
    outcome = export(str(folder), ExportSettings("source"), None, sink)
    assert outcome.out == "-" and len(sink.getvalue().splitlines()) == 5


@pytest.mark.parametrize(
    ("name", "problem"), [("out.csv", "what should be written"), ("d", "what should"), ("here.jsonl", "exists")]
)
def test_names_that_are_refused(folder: Path, tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "here.jsonl").write_text("mine\n")
    with pytest.raises(UsageError, match=problem):
        exported(folder, tmp_path / name, "source")
    assert (tmp_path / "here.jsonl").read_text() == "mine\n"


def test_a_target_that_is_not_known() -> None:
    with pytest.raises(UsageError, match="no export target 'alpacca'") as bad:
        ExportSettings("alpacca")
    assert bad.value.hint is not None and "alpaca" in bad.value.hint


def test_a_failure_leaves_the_file_that_was_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from curator.pipeline import export as module

    out = tmp_path / "out.jsonl"
    exported(folder, out, "source")
    before = out.read_bytes()

    def full(path: str) -> Any:
        yield from rows_of(folder)[:2]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_records", full)
    with pytest.raises((OSError, CuratorError)):
        exported(folder, out, "source", overwrite=True)
    assert out.read_bytes() == before and not list(tmp_path.glob(".tmp-*"))


def test_images_go_back_into_the_row_they_came_in(tmp_path: Path) -> None:
    data = "data:image/png;base64,iVBORw0KGgo="
    part = {"type": "image_url", "image_url": {"url": data}}
    row = {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "what?"}, part]},
            {"role": "assistant", "content": "a dot"},
        ]
    }
    ingested(write_lines(tmp_path / "raw.jsonl", [row]), tmp_path / "d")
    (record,) = rows_of(tmp_path / "d")
    assert record["messages"][0]["images"] and data not in json.dumps(record["messages"])
    outcome = exported(tmp_path / "d", tmp_path / "out.jsonl", "messages")
    assert outcome.restored == 1 and json.loads((tmp_path / "out.jsonl").read_text()) == row


# --- B048: integers with nulls ----------------------------------------------------------------------------------------

NUMBERS = [9007199254740993, None, 5]


@pytest.mark.parametrize("fields", [{}, {"n": "int"}], ids=["in extra", "declared"])
@pytest.mark.parametrize("target", ["alpaca", "source"])
def test_b048_integers_with_nulls_stay_integers(tmp_path: Path, fields: dict[str, str], target: str) -> None:
    table = pa.table(
        {"instruction": ["a"] * 3, "output": ["b"] * 3, "n": pa.array(NUMBERS, pa.int64()), "m": [1.0, None, -0.0]}
    )
    pq.write_table(table, tmp_path / "raw.parquet")
    ingested(tmp_path / "raw.parquet", tmp_path / "d", fields=fields)
    exported(tmp_path / "d", tmp_path / "out.jsonl", target)
    rows = [dict(exact(line)) for line in lines_of(tmp_path / "out.jsonl")]
    assert [row["n"] for row in rows] == ["9007199254740993", None, "5"]
    assert [row["m"] for row in rows] == ["1.0", None, "-0.0"]


def test_b048_tags_and_scores_too(tmp_path: Path) -> None:
    rows = [{"instruction": "a", "output": "b", "n": number} for number in NUMBERS]
    ingested(write_lines(tmp_path / "raw.jsonl", rows), tmp_path / "d", fields={"n": "int"})
    exported(tmp_path / "d", tmp_path / "out.jsonl", "messages", with_tags=True)
    tags = [dict(dict(exact(line))["metadata"]) for line in lines_of(tmp_path / "out.jsonl")]
    assert [tag.get("n") for tag in tags] == ["9007199254740993", None, "5"]
