"""Streams: a producer that was killed must not look like a short file."""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from record_samples import batch_of, record

from curator.errors import CuratorError
from curator.io.manifest import Ledger
from curator.io.stream import StreamReader, StreamWriter, pass_entry
from curator.schema.record import RECORD_SCHEMA

BATCHES = [batch_of([record(f"s/f#{n}", "q", "a") for n in range(start, start + 3)]) for start in (0, 3, 6)]
PASSES = [pass_entry([{"step": "ingest"}], Ledger(9, 9))]


def stream(batches: list[pa.RecordBatch] = BATCHES) -> bytes:
    sink = io.BytesIO()
    writer = StreamWriter(sink, RECORD_SCHEMA)
    for batch in batches:
        writer.write(batch)
    writer.close(PASSES)
    return sink.getvalue()


def read(data: bytes) -> tuple[list[str], StreamReader]:
    reader = StreamReader(io.BytesIO(data), "stdin")
    return [name for batch in reader.batches() for name in batch.column("id").to_pylist()], reader


def test_a_stream_gives_its_rows_and_the_account_behind_them() -> None:
    ids, reader = read(stream())
    assert ids == [f"s/f#{n}" for n in range(9)]
    assert reader.schema.equals(RECORD_SCHEMA)
    assert reader.passes == PASSES


def test_an_empty_stream_is_whole() -> None:
    ids, reader = read(stream([BATCHES[0].slice(0, 0)]))
    assert ids == []
    assert reader.passes == PASSES


def test_a_stream_without_its_end_mark_is_an_error() -> None:
    sink = io.BytesIO()
    writer = StreamWriter(sink, RECORD_SCHEMA)
    writer.write(BATCHES[0])
    writer._writer.close()
    with pytest.raises(CuratorError) as caught:
        read(sink.getvalue())
    assert caught.value.message == "stdin ended without its end mark after 3 records: the producer failed"


def test_a_stream_cut_anywhere_is_an_error() -> None:
    whole = stream()
    end = len(whole) - 8  # Arrow's own end of stream; all before it is needed
    for length in {*range(0, end, 97), *range(end - 40, end)}:
        with pytest.raises(CuratorError):
            read(whole[:length])


@pytest.mark.parametrize("change", [{"rows": 8}, {"ids": "0" * 32}])
def test_rows_that_are_not_those_of_the_mark_are_an_error(change: dict[str, Any]) -> None:
    sink = io.BytesIO()
    writer = StreamWriter(sink, RECORD_SCHEMA)
    for batch in BATCHES:
        writer.write(batch)
    writer._rows = change.get("rows", writer._rows)
    writer._ids = 0 if "ids" in change else writer._ids
    writer.close(PASSES)
    with pytest.raises(CuratorError, match="stdin holds 9 records"):
        read(sink.getvalue())


@pytest.mark.parametrize("data", [b"hello", b'{"a": 1}\n', stream()[:3]])
def test_what_is_no_stream_is_refused_at_once(data: bytes) -> None:
    with pytest.raises(CuratorError) as caught:
        StreamReader(io.BytesIO(data), "stdin")
    assert caught.value.message == "stdin is not a stream of records"


def test_nothing_at_all_is_told_apart() -> None:
    with pytest.raises(CuratorError) as caught:
        StreamReader(io.BytesIO(b""), "stdin")
    assert caught.value.message == "stdin is empty: no records came"


def test_a_stream_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "kept.arrow").write_bytes(stream())
    reader = StreamReader.open(str(tmp_path / "kept.arrow"))
    assert sum(batch.num_rows for batch in reader.batches()) == 9
