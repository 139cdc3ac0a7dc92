"""ingest into a folder: shards by position, ids that never change, nothing lost."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from record_samples import files_of, ids_of, ingested, ledger_of, quarantine_of, rows_of, write_lines

from curator.errors import CuratorError
from curator.io.dataset import Dataset
from curator.io.raw import base
from curator.pipeline.passes import Options
from curator.schema.record import ids_digest

ROWS = [{"instruction": f"question {n}", "output": "x" * (n % 40)} for n in range(200)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows: list[Any] = [*ROWS[:50], b"broken", b"", b"   ", *ROWS[50:]]
    return write_lines(tmp_path / "raw.jsonl", rows)


EXPECTED = [f"s/raw.jsonl#{n}" for n in range(201) if n != 50]


def shards(folder: Path) -> list[tuple[str, int]]:
    return [(shard.path.name, shard.num_rows) for shard in Dataset.open(folder).shards]


@pytest.mark.parametrize("shard_bytes", [1024, 3000, 1 << 20])
@pytest.mark.parametrize("block", [64, 1000, 8 << 20])
def test_same_rows_in_the_same_order_for_any_shard_size_and_block(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch, shard_bytes: int, block: int
) -> None:
    ingested(path, tmp_path / "whole")
    monkeypatch.setattr(base, "BLOCK_BYTES", block)
    ingested(path, tmp_path / "out", shard_bytes=shard_bytes)
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "whole")
    assert ids_of(tmp_path / "out") == EXPECTED
    assert quarantine_of(tmp_path / "out") == quarantine_of(tmp_path / "whole")
    assert ledger_of(tmp_path / "out") == ledger_of(tmp_path / "whole")
    assert len(shards(tmp_path / "out")) == -(-path.stat().st_size // shard_bytes)


def test_shards_hold_the_records_that_begin_in_their_stretch(tmp_path: Path, path: Path) -> None:
    ingested(path, tmp_path / "out", shard_bytes=2048)
    for number, shard in enumerate(Dataset.open(tmp_path / "out").shards):
        assert shard.path.name == f"part-00000-{number:05d}.parquet"
        offsets = [
            row["provenance"]["byte_offset"]
            for batch in shard.batches(Dataset.open(tmp_path / "out").schema)
            for row in batch.to_pylist()
        ]
        assert {offset // 2048 for offset in offsets} == {number}


def test_packed_plain_and_array_files_give_the_same_records(tmp_path: Path) -> None:
    plain = write_lines(tmp_path / "a" / "raw.jsonl", ROWS)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "raw.jsonl").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "raw.jsonl").write_text(json.dumps(ROWS))
    for name in "abc":
        ingested(tmp_path / name / "raw.jsonl", tmp_path / f"out-{name}", shard_bytes=2000)
    a, b, c = (rows_of(tmp_path / f"out-{name}") for name in "abc")
    assert a == b
    for left, right in zip(a, c, strict=True):
        left["provenance"]["byte_offset"] = right["provenance"]["byte_offset"] = 0
        assert left == right
    assert shards(tmp_path / "out-a") == shards(tmp_path / "out-b")


def test_one_and_two_workers_write_the_same_bytes(tmp_path: Path, path: Path) -> None:
    other = write_lines(tmp_path / "other.jsonl", ROWS[:9])
    for workers in (1, 2):
        ingested([path, other], tmp_path / f"{workers}", Options(workers=workers), shard_bytes=4096)
    assert files_of(tmp_path / "1") == files_of(tmp_path / "2")
    assert ids_of(tmp_path / "1") == [*(f"s/other.jsonl#{n}" for n in range(9)), *EXPECTED]


def test_the_order_in_which_files_are_named_does_not_matter(tmp_path: Path, path: Path) -> None:
    other = write_lines(tmp_path / "other.jsonl", ROWS[:9])
    ingested([path, other], tmp_path / "1")
    ingested([other, path], tmp_path / "2")
    assert files_of(tmp_path / "1") == files_of(tmp_path / "2")


def test_each_file_has_its_account(tmp_path: Path, path: Path) -> None:
    write_lines(tmp_path / "other.jsonl", ROWS[:9])
    (tmp_path / "empty.jsonl").write_bytes(b"")
    outcome = ingested([path, tmp_path / "other.jsonl", tmp_path / "empty.jsonl"], tmp_path / "out")
    manifest = Dataset.open(tmp_path / "out").manifest
    accounts = {task.label: (task.ledger.read, task.ledger.kept, task.ledger.quarantined) for task in manifest.tasks}
    assert accounts == {
        "empty.jsonl": (0, 0, {}),
        "other.jsonl": (9, 9, {}),
        "raw.jsonl": (201, 200, {"not JSON": 1}),
    }
    ids = [*(f"s/other.jsonl#{n}" for n in range(9)), *(f"s/raw.jsonl#{n}" for n in range(201))]
    assert outcome.ledger.read_ids == ids_digest(ids)
    assert outcome.notes["detected"]["rows as alpaca"] == 209
    assert outcome.notes["detected"]["blank lines"] == 2
    assert outcome.notes["quarantined_by_reason"] == {"not JSON": 1}


def test_quarantine_has_place_reason_and_bytes(tmp_path: Path, path: Path) -> None:
    ingested(path, tmp_path / "out")
    (row,) = quarantine_of(tmp_path / "out")
    assert (row["id"], row["file"], row["row"], row["raw"]) == ("s/raw.jsonl#50", "raw.jsonl", 50, b"broken")
    assert row["reason"] == "not JSON: invalid character (byte 0)"
    assert path.read_bytes()[row["byte_offset"] :].startswith(b"broken\n")


def test_a_source_of_bad_rows_alone_is_an_error_that_shows_one(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "raw.jsonl", [{"instruction": "x", "output": {"a": None, "b": 57}}] * 3)
    with pytest.raises(CuratorError) as caught:
        ingested(path, tmp_path / "out")
    assert caught.value.message == (
        "source s: none of 3 rows could be read; row 0 of raw.jsonl: wrong type: output is object, expected text"
    )
    assert caught.value.hint is not None and caught.value.hint.startswith('the row begins: {"instruction": "x"')
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_changed_file_is_noticed_even_with_its_old_size_and_time(tmp_path: Path, path: Path) -> None:
    import os

    ingested(path, tmp_path / "out")
    assert ingested(path, tmp_path / "out").reused
    stat = path.stat()
    path.write_bytes(path.read_bytes().replace(b"question 7", b"question 8", 1))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(
        CuratorError, match=r"other inputs or settings: input 1 has other content now \(inputs\[0\]\.digest"
    ):
        ingested(path, tmp_path / "out")
    ingested(path, tmp_path / "out", Options(workers=1, overwrite=True))
    assert rows_of(tmp_path / "out")[7]["messages"][0]["content"] == "question 8"


def test_settings_are_part_of_the_fingerprint(tmp_path: Path, path: Path) -> None:
    ingested(path, tmp_path / "out")
    with pytest.raises(CuratorError, match=r'steps\[0\]\.settings\.license: was null, now "mit"'):
        ingested(path, tmp_path / "out", license="mit")
    with pytest.raises(CuratorError, match=r"settings\.shard_bytes"):
        ingested(path, tmp_path / "out", shard_bytes=4096)


def test_a_damaged_file_stops_before_it_is_called_complete(tmp_path: Path, path: Path) -> None:
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"instruction":"a","output":"b"}\n' * 50_000)[:-30])
    with pytest.raises(CuratorError, match=r"cut\.jsonl\.gz: the compressed data is damaged or cut") as caught:
        ingested([path, tmp_path / "cut.jsonl.gz"], tmp_path / "out")
    assert caught.value.exit_code == 3
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_rows_too_long_are_quarantined_and_the_limit_is_a_setting(tmp_path: Path) -> None:
    rows = [{"instruction": "q", "output": "abc " * (2000 if n == 10 else 1)} for n in range(21)]
    path = write_lines(tmp_path / "raw.jsonl", rows)
    ingested(path, tmp_path / "all")
    assert ledger_of(tmp_path / "all").kept == 21
    for shard_bytes in (1 << 20, 1024):
        ingested(path, tmp_path / f"{shard_bytes}", max_record_bytes=1024, shard_bytes=shard_bytes)
        assert ids_of(tmp_path / f"{shard_bytes}") == [f"s/raw.jsonl#{n}" for n in range(21) if n != 10]
        (bad,) = quarantine_of(tmp_path / f"{shard_bytes}")
        assert bad["reason"].startswith("too long: 8,")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("b001.jsonl", [{**ROWS[0], "meta": {"title": value}} for value in ["t"] * 40 + [1984, ["a", 1], None]]),
        ("b003.jsonl", [{**ROWS[0], "system": None}] * 60 + [{**ROWS[0], "system": "Be brief."}]),
        ("b004.jsonl", [*ROWS[:100], *({**row, "source": "s"} for row in ROWS[100:])]),
        ("b038.jsonl", [{**ROWS[0], "meta": value} for value in ({}, {}, {"k": 1})]),
        ("b039.jsonl", [{**ROWS[0], "tools": value} for value in ([], [{"a": 1}], None, [{"b": None}])]),
    ],
)
def test_late_keys_and_changing_types_lose_nothing(tmp_path: Path, name: str, content: list[dict[str, Any]]) -> None:
    for order in (content, content[::-1]):
        path = write_lines(tmp_path / name, order)
        out = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
        ingested(path, out)
        rows = rows_of(out)
        assert len(rows) == len(order)
        for row, source in zip(rows, order, strict=True):
            rest = {key: value for key, value in source.items() if key not in ("instruction", "output", "system")}
            assert (json.loads(row["extra"]) if row["extra"] else {}) == rest
            system = [turn["content"] for turn in row["messages"] if turn["role"] == "system"]
            assert system == ([source["system"]] if source.get("system") else [])


def test_hidden_files_are_said_to_be_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(tmp_path / "raw" / "en.jsonl", ROWS[:2])
    (tmp_path / "raw" / "._en.jsonl").write_bytes(b"\x00\x05\x16\x07" + bytes(20))
    (tmp_path / "raw" / "_SUCCESS").write_bytes(b"")
    ingested(tmp_path / "raw", tmp_path / "out")
    assert ids_of(tmp_path / "out") == ["s/en.jsonl#0", "s/en.jsonl#1"]
    assert "skipped (hidden, or of no known format): " in capsys.readouterr().err
