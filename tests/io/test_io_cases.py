"""Awkward raw files through ingest, by their numbers in COVERAGE.toml."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from record_samples import (
    ids_of,
    ingested,
    ledger_of,
    message,
    passed,
    quarantine_of,
    record,
    rows_of,
    write_dataset,
    write_lines,
    write_task,
)

from curator.errors import CuratorError
from curator.io.dataset import OutputFolder
from curator.io.manifest import Fingerprint
from curator.schema.record import RECORD_SCHEMA
from curator.stages.base import Stage
from curator.stages.concat import Concat
from curator.stages.dedup.exact import Exact
from curator.stages.dedup.near import Near
from curator.stages.filter.where import Where
from curator.stages.sample import Sample
from curator.stages.tag.signals import Signals

TWO = [{"question": "q1", "answer": "a1"}, {"question": "q2", "answer": "a2"}]
LINES = b"".join(json.dumps(row).encode() + b"\n" for row in TWO)


def files(folder: Path, **contents: bytes) -> Path:
    """Files by name, `__` standing for a dot."""
    folder.mkdir(exist_ok=True)
    for name, data in contents.items():
        (folder / name.replace("__", ".")).write_bytes(data)
    return folder


def without_place(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("id", "provenance")}


def test_b010_compression_that_the_name_does_not_tell(tmp_path: Path) -> None:
    raw = files(tmp_path / "raw", a__jsonl=gzip.compress(LINES), b__jsonl__gz=LINES)
    files(raw, c__jsonl__gz=zstandard.compress(LINES))
    ingested(raw, tmp_path / "d")
    names = ["a.jsonl", "b.jsonl.gz", "c.jsonl.gz"]
    assert ids_of(tmp_path / "d") == [f"s/{name}#{row}" for name in names for row in range(2)]
    rows = [without_place(row) for row in rows_of(tmp_path / "d")]
    assert rows[0:2] == rows[2:4] == rows[4:6]


def test_b016_line_ends_blank_lines_and_no_last_line_feed(tmp_path: Path) -> None:
    data = b'{"question":"1","answer":"a"}\r\n\r\n   \n{"question":"x\\r\\ny","answer":"a"}'
    ingested(files(tmp_path / "raw", r__jsonl=data), tmp_path / "d")
    assert [row["messages"][0]["content"] for row in rows_of(tmp_path / "d")] == ["1", "x\r\ny"]
    assert ids_of(tmp_path / "d") == ["s/r.jsonl#0", "s/r.jsonl#1"]
    assert quarantine_of(tmp_path / "d") == []


def test_b017_a_byte_order_mark_changes_nothing(tmp_path: Path) -> None:
    one = '{"messages":[{"role":"user","content":"\ufeffq"}],"tools":[{"a":1}]}\n'.encode()
    two = b'{"messages":[{"role":"user","content":"r"}],"tools":[{"b":2}]}\n'
    mark = b"\xef\xbb\xbf"
    kept = []
    for name, data in (("plain", one + two), ("marked", mark + one + two), ("joined", mark + one + mark + two)):
        ingested(files(tmp_path / name, r__jsonl=data), tmp_path / f"d-{name}")
        kept.append([without_place(row) for row in rows_of(tmp_path / f"d-{name}")])
        assert quarantine_of(tmp_path / f"d-{name}") == []
    assert kept[0] == kept[1] == kept[2]
    assert [row["tools"] for row in kept[0]] == ['[{"a":1}]', '[{"b":2}]']
    assert kept[0][0]["messages"][0]["content"] == "\ufeffq"


def test_b018_numbers_that_json_has_not(tmp_path: Path) -> None:
    scores = ["NaN", "-Infinity", "null", "1e999", "Infinity"]
    rows = [f'{{"question":"q","answer":"a","score":{score}}}'.encode() for score in scores]
    ingested(write_lines(tmp_path / "r.jsonl", rows), tmp_path / "d")
    assert [row["extra"] for row in rows_of(tmp_path / "d")] == ['{"score":null}', '{"score":1e999}']
    bad = quarantine_of(tmp_path / "d")
    assert [(row["row"], row["raw"]) for row in bad] == [(0, rows[0]), (1, rows[1]), (4, rows[4])]
    assert all("NaN and Infinity are not JSON" in row["reason"] for row in bad)


def test_b022_a_bad_line_is_no_row_of_nulls(tmp_path: Path) -> None:
    bad = rb'{"question":"2","answer":"a","path":"C:\path"}'
    path = write_lines(tmp_path / "r.jsonl", [TWO[0], bad, TWO[1]])
    outcome = ingested(path, tmp_path / "d")
    assert ids_of(tmp_path / "d") == ["s/r.jsonl#0", "s/r.jsonl#2"]
    assert (outcome.ledger.read, outcome.ledger.kept, sum(outcome.ledger.quarantined.values())) == (3, 2, 1)
    (row,) = quarantine_of(tmp_path / "d")
    assert (row["file"], row["row"], row["raw"]) == ("r.jsonl", 1, bad)
    assert row["reason"].startswith("not JSON: invalid escape")


def test_b023_files_of_nothing_among_shards(tmp_path: Path) -> None:
    raw = files(tmp_path / "raw", a__jsonl=LINES, b__jsonl=b"", c__jsonl__gz=gzip.compress(b""), d__jsonl__gz=b"")
    ingested(raw, tmp_path / "d")
    assert ids_of(tmp_path / "d") == ["s/a.jsonl#0", "s/a.jsonl#1"]
    files(raw, e__parquet=b"")
    with pytest.raises(CuratorError, match=r"e\.parquet is not a whole Parquet file"):
        ingested(raw, tmp_path / "e")


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("r.jsonl", LINES.replace(b"\n", b""), "trailing characters (byte 35); it looks like several objects"),
        ("r.jsonl", b"{'question': 'q', 'answer': 'a'}", "it looks like a Python dictionary (single quotes)"),
        ("r.jsonl", b'{"question":"q","answer":"a",}', "trailing comma in object (byte 29)"),
        ("r.json", b'[{"question":"q","answer":"a"},]', "nothing behind the last comma"),
    ],
)
def test_b026_what_almost_is_json_is_named_and_not_repaired(
    tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    good = LINES if name == "r.jsonl" else b""
    (tmp_path / name).write_bytes(good + data)
    ingested(tmp_path / name, tmp_path / "d")
    (bad,) = quarantine_of(tmp_path / "d")
    assert reason in bad["reason"]
    assert (bad["file"], bad["row"]) == (name, 2 if good else 1)
    # Bytes in a reason count from the row's own beginning, whose place in the file stands beside it.
    assert (good + data)[bad["byte_offset"] :].startswith(bad["raw"])
    assert len(rows_of(tmp_path / "d")) == bad["row"]


def test_b030_arguments_keep_the_keys_they_came_with(tmp_path: Path) -> None:
    arguments = ['{"location":"home"}', '{"mode":"on"}', "{}", '{"mode":null}']
    rows = []
    for text in arguments:
        calls = f'[{{"function":{{"name":"f","arguments":{text}}}}}]'
        turns = f'[{{"role":"assistant","content":null,"tool_calls":{calls}}}]'
        rows.append(f'{{"messages":{turns},"tools":[{{"name":"f","parameters":{text}}}]}}'.encode())
    ingested(write_lines(tmp_path / "r.jsonl", rows), tmp_path / "d")
    kept = rows_of(tmp_path / "d")
    stored = [f'[{{"function":{{"name":"f","arguments":{text}}}}}]' for text in arguments]
    assert [row["messages"][0]["tool_calls"] for row in kept] == stored
    assert [row["tools"] for row in kept] == [f'[{{"name":"f","parameters":{text}}}]' for text in arguments]


def test_b031_an_answer_that_is_an_object(tmp_path: Path) -> None:
    row = {"instruction": "x", "input": "", "output": {"a": None, "b": 57}}
    path = write_lines(tmp_path / "r.jsonl", [row] * 3)
    with pytest.raises(CuratorError, match="none of 3 rows could be read") as caught:
        ingested(path, tmp_path / "d")
    assert "row 0 of r.jsonl: wrong type: output is object, expected text" in caught.value.message
    write_lines(path, [row, TWO[0], row, row])
    outcome = ingested(path, tmp_path / "e")
    assert outcome.ledger.quarantined == {"wrong type": 3}


def test_b032_every_known_role_and_one_that_is_not(tmp_path: Path) -> None:
    roles = {"human": "user", "user": "user", "gpt": "assistant", "model": "assistant", "Assistant": "assistant"}
    roles |= {"function_call": "assistant", "observation": "tool"}
    names = [*roles, "hummany", "hummany"]
    rows = [{"conversations": [{"from": name, "value": "x"}, {"from": "gpt", "value": "y"}]} for name in names]
    rows += [{"messages": [message("hummany", "x")]}]
    outcome = ingested(write_lines(tmp_path / "r.jsonl", rows), tmp_path / "d")
    kept = rows_of(tmp_path / "d")
    assert [row["messages"][0]["role"] for row in kept] == [*roles.values(), *["hummany"] * 3]
    odd = ["unknown_role" in (row["metadata"]["turn_issues"] or ()) for row in kept]
    assert odd == [False] * len(roles) + [True] * 3
    assert outcome.ledger.quarantined == {}
    assert outcome.notes["detected"]["turn issue unknown_role"] == 3


# --- Parquet ------------------------------------------------------------------------------------------------------


def test_b037_columns_in_another_order_with_other_metadata(tmp_path: Path) -> None:
    tables = [
        pa.table({"question": ["q1"], "answer": ["a1"], "note": ["n1"]}),
        pa.table({"note": ["n2"], "answer": ["a2"], "question": ["q2"]}).replace_schema_metadata({"pandas": "{}"}),
    ]
    (tmp_path / "raw").mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / "raw" / f"{number}.parquet")
    ingested(tmp_path / "raw", tmp_path / "d")
    rows = rows_of(tmp_path / "d")
    assert [[turn["content"] for turn in row["messages"]] for row in rows] == [["q1", "a1"], ["q2", "a2"]]
    assert [json.loads(row["extra"]) for row in rows] == [{"note": "n1"}, {"note": "n2"}]


def test_b040_text_in_any_physical_form(tmp_path: Path) -> None:
    values = ["a", "b", None, "b"]
    forms = [pa.array(values, pa.string()), pa.array(values, pa.large_string())]
    for codes, words in (([0, 1, None, 1], ["a", "b"]), ([1, 0, None, 0], ["b", "a"])):
        forms.append(pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(words)))
    (tmp_path / "raw").mkdir()
    for number, array in enumerate(forms):
        table = pa.table({"question": ["q"] * 4, "answer": ["x"] * 4, "note": array})
        pq.write_table(table, tmp_path / "raw" / f"{number}.parquet")
    ingested(tmp_path / "raw", tmp_path / "d", fields={"note": "string"})
    assert [row["metadata"]["note"] for row in rows_of(tmp_path / "d")] == values * 4


STAGES: list[Stage] = [Signals(), Exact(), Near(), Where("true"), Sample(rows=9), Concat()]


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_b043_shards_of_no_rows_beside_one_of_three(tmp_path: Path, stage: Stage) -> None:
    records = [record(f"s/f#{n}", f"question {n}", f"answer {n}") for n in range(3)]
    output = OutputFolder.prepare(tmp_path / "d", Fingerprint(({"step": "test"},), ()))
    for name, part in (("00000", []), ("00001", records), ("00002", [])):
        output.record(write_task(tmp_path / "d", name, part, RECORD_SCHEMA))
    output.finish(["00000", "00001", "00002"], RECORD_SCHEMA, [], {})
    assert ids_of(passed(stage, tmp_path / "d", tmp_path / "out")) == ["s/f#0", "s/f#1", "s/f#2"]
    empty = passed(stage, write_dataset(tmp_path / "none", []), tmp_path / "nothing")
    assert ids_of(empty) == [] and ledger_of(empty).problem() is None
    (shard,) = (empty / "data").iterdir()
    assert set(pq.read_schema(shard).names) >= set(RECORD_SCHEMA.names)


def test_b043_a_raw_parquet_file_of_no_rows(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    table = pa.table({"question": ["q"], "answer": ["a"]})
    pq.write_table(table.slice(0, 0), tmp_path / "raw" / "a.parquet")
    pq.write_table(table, tmp_path / "raw" / "b.parquet")
    ingested(tmp_path / "raw", tmp_path / "d")
    assert ids_of(tmp_path / "d") == ["s/b.parquet#0"]


def test_b044_cut_files_are_all_named_before_any_work(tmp_path: Path) -> None:
    raw = files(tmp_path / "raw", text__parquet=b"hello", none__parquet=b"")
    pq.write_table(pa.table({"question": ["q"] * 50, "answer": ["a"] * 50}), raw / "good.parquet")
    data = (raw / "good.parquet").read_bytes()
    files(raw, cut__parquet=data[:-8], half__parquet=data[: len(data) // 2])
    with pytest.raises(CuratorError, match=r"cut\.parquet is not a whole Parquet file: ") as caught:
        ingested(raw, tmp_path / "d")
    assert caught.value.message.endswith(" (nor can be read: half.parquet, none.parquet, text.parquet)")
    assert not (tmp_path / "d").exists()
    for name in ("cut", "half", "none", "text"):
        (raw / f"{name}.parquet").unlink()
    ingested(raw, tmp_path / "d")
    assert len(ids_of(tmp_path / "d")) == 50
