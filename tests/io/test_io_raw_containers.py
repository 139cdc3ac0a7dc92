"""Containers: what each kind of file gives, and what damage in it becomes."""

import bz2
import csv
import datetime
import decimal
import gzip
import io
import json
import lzma
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curator.errors import CuratorError
from curator.io.raw import BOM, RawReader, base, container_of, expand, raw_file
from curator.io.raw.sniff import name_mismatch

Row = tuple[int, int, bytes, str | None]


def read(
    path: Path | str, limit: int = 1 << 20, header: bool | None = None, columns: tuple[str, ...] = ()
) -> list[Row]:
    with RawReader(str(path), limit, header, columns) as reader:
        return [(row.row, row.byte_offset, row.data, row.problem) for row in reader.rows()]


def put(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


# --- objects -------------------------------------------------------------------------------------------------------

_PRETTY = json.dumps({"a": [1, {"b": '}{ " \\'}], "c": {}}, indent=2).encode()


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("data", "layout", "expected"),
    [
        (b'{"a":1}{"a":2}', "objects", [b'{"a":1}', b'{"a":2}']),
        (b'{"a":1} {"a":2}\n{"a":3}', "objects", [b'{"a":1}', b'{"a":2}', b'{"a":3}']),
        (_PRETTY, "objects", [_PRETTY]),
        (_PRETTY + b"\n" + _PRETTY, "objects", [_PRETTY, _PRETTY]),
        (BOM + b'{\n"a":1}', "objects", [b'{\n"a":1}']),
        (b'{"a":[\n{"b":1}]}', "objects", [b'{"a":[\n{"b":1}]}']),
        (b'{"a":1\n,"b":2}', "objects", [b'{"a":1\n,"b":2}']),
        (b'{"a":1}', "jsonl", [b'{"a":1}']),
        (b'{"a":1}\n{"a":2}', "jsonl", [b'{"a":1}', b'{"a":2}']),
        (b'{"a":"' + b"x" * 9000 + b'"}{"b":1}', "objects", [b'{"a":"' + b"x" * 9000 + b'"}', b'{"b":1}']),
        (b'{"a":1,\n{"a":2}\n', "jsonl", [b'{"a":1,', b'{"a":2}']),
        (b'{"a":"cut\n{"a":2}\n', "jsonl", [b'{"a":"cut', b'{"a":2}']),
        (b"{'a': 1}", "jsonl", [b"{'a': 1}"]),
    ],
)
def test_B026_objects_are_told_from_lines_by_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, layout: str, expected: list[bytes], block: int
) -> None:
    monkeypatch.setattr(base, "BLOCK_BYTES", block)
    path = put(tmp_path, "a.json", data)
    assert container_of(str(path)).layout == layout
    rows = read(path)
    assert [row[2] for row in rows] == expected
    for _, offset, text, problem in rows:
        assert problem is None
        assert data[offset : offset + len(text)] == text


def test_B026_what_stands_between_objects_is_a_bad_row_with_line_and_column(tmp_path: Path) -> None:
    rows = read(put(tmp_path, "a.json", b'{"a":1}{"a":2}\n  ,{"a":3} junk'))
    assert [(row[2], row[3]) for row in rows] == [
        (b'{"a":1}', None),
        (b'{"a":2}', None),
        (b",", "not JSON: a comma between objects, is it an array without [ ]? (line 2, column 3)"),
        (b'{"a":3}', None),
        (b"junk", "not JSON: bytes between objects (line 2, column 12)"),
    ]


def test_an_object_that_is_not_closed_or_too_long_is_a_bad_row(tmp_path: Path) -> None:
    assert read(put(tmp_path, "a.json", b'{"a":1}{\n"a":'))[1] == (
        1, 7, b'{\n"a":', "cut: the JSON object that begins in line 1 is not closed",
    )  # fmt: skip
    data = b'{"a":1}{"b":"' + b"x" * 3000 + b'"}{"c":1}'
    assert [(row[2][:5], row[3]) for row in read(put(tmp_path, "b.json", data), 1024)] == [
        (b'{"a":', None),
        (b'{"b":', "too long: 3,008 bytes, the limit is 1,024"),
        (b'{"c":', None),
    ]


# --- compression ---------------------------------------------------------------------------------------------------

_TEXT = b"".join(b'{"id":%d}\n' % (n * n * 7919 % 104729) for n in range(3000))
_PACKERS: list[Callable[[bytes], bytes]] = [gzip.compress, bz2.compress, lzma.compress]


@pytest.mark.parametrize("pack", _PACKERS)
def test_B011_all_streams_are_read_and_damage_is_an_error(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    whole = pack(_TEXT[:5000]) + pack(b"") + pack(_TEXT[5000:])
    path = put(tmp_path, "a.jsonl", whole)
    assert b"\n".join(row[2] for row in read(path)) + b"\n" == _TEXT
    offset = len(whole)
    for name, data in (("junk", whole + b"junkjunk"), ("cut", whole[:-9]), ("half", whole[: offset // 2])):
        with pytest.raises(CuratorError, match="the compressed data is damaged or cut") as caught:
            read(put(tmp_path, name, data))
        assert name != "junk" or f"at byte {offset:,} stands b'junkjunk'" in caught.value.message
    flipped = bytearray(whole)
    flipped[len(pack(_TEXT[:5000])) // 2] ^= 255
    with pytest.raises(CuratorError, match="damaged or cut"):
        read(put(tmp_path, "flip", bytes(flipped)))


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.jsonl", gzip.compress(b"{}"), "a.jsonl: the name promises no compression, it is gzip inside"),
        ("a.jsonl.gz", b"{}", "a.jsonl.gz: the name promises gzip, it is not compressed"),
        ("a.jsonl.gz", bz2.compress(b"{}"), "a.jsonl.gz: the name promises gzip, it is bzip2 inside"),
        ("a.jsonl.XZ", lzma.compress(b"{}"), None),
    ],
)
def test_B010_a_name_that_promises_another_compression_is_told(
    tmp_path: Path, name: str, data: bytes, told: str | None
) -> None:
    assert name_mismatch(name, container_of(str(put(tmp_path, name, data)))) == told


# --- tables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.tsv", "How many?\t18\n", [{"column_1": "How many?", "column_2": "18"}]),
        ("a.csv", "Find all c,0,B\n", [{"column_1": "Find all c", "column_2": "0", "column_3": "B"}]),
        ("a.csv", "question;answer\r\n\"a;b\";c\r\n", [{"question": "a;b", "answer": "c"}]),
        ("a.csv", "Find c,B\nx,B\n", [{"column_1": "Find c", "column_2": "B"}, {"column_1": "x", "column_2": "B"}]),
        ("a.csv", "Best Answer,Question\nx,y\n", [{"Best Answer": "x", "Question": "y"}]),
    ],
)  # fmt: skip
def test_tables_with_and_without_header(tmp_path: Path, name: str, data: str, expected: list[dict[str, str]]) -> None:
    assert [json.loads(row[2]) for row in read(put(tmp_path, name, data.encode()))] == expected


def test_a_first_row_in_doubt_stops_and_settings_settle_it(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", b"big cat,small dog\nx,y\n")
    with pytest.raises(CuratorError, match="is the first row a header or data"):
        container_of(str(path))
    assert [json.loads(row[2]) for row in read(path, header=True)] == [{"big cat": "x", "small dog": "y"}]
    assert len(read(path, header=False)) == 2
    assert json.loads(read(path, columns=("p", "q"))[0][2]) == {"p": "big cat", "q": "small dog"}


# --- YAML ----------------------------------------------------------------------------------------------------------


def test_yaml_text_stays_text(tmp_path: Path) -> None:
    text = (
        "- {a: no, b: 2024-01-01, c: 0o17, d: 010, e: 1_000, f: 12.50, g: null, h: true, i: '1', j: .inf, k: 1:30}\n"
        "- a: !!str 5\n  b: |\n    x\n    y\n---\nq: z\n"
    )
    rows = read(put(tmp_path, "a.yaml", text.encode()))
    assert [row[3] for row in rows] == [None] * 3
    assert b'"f": 12.50' in rows[0][2]
    assert json.loads(rows[0][2]) == {
        "a": "no", "b": "2024-01-01", "c": "0o17", "d": "010", "e": "1_000", "f": 12.5, "g": None, "h": True,
        "i": "1", "j": ".inf", "k": "1:30",
    }  # fmt: skip
    assert [json.loads(row[2]) for row in rows[1:]] == [{"a": "5", "b": "x\ny\n"}, {"q": "z"}]
    assert rows[1][1] == text.index("- a: !!str")


def test_yaml_bombs_tags_and_damage_are_bad_rows(tmp_path: Path) -> None:
    bomb = "- a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    names = "abcdefghi"
    for before, name in zip(names, names[1:], strict=False):
        bomb += f"- {name}: &{name} [{', '.join(['*' + before] * 10)}]\n"
    problems = [row[3] for row in read(put(tmp_path, "a.yaml", bomb.encode()), 1 << 14)]
    assert problems[0] is None
    assert problems[-1] == "too long: aliases make the row longer than max_record_bytes"
    rows = read(put(tmp_path, "b.yaml", b"- a: 1\n- !!python/object:os.system {a: 1}\n- &x [*x]\n- b: 2\n"))
    assert [row[3] and row[3].split(":")[0] for row in rows] == [None, "not JSON", "not JSON", None]
    assert read(put(tmp_path, "c.yaml", b"a: 'open\n"))[0][3].startswith("not YAML: ")  # type: ignore[union-attr]
    with pytest.raises(CuratorError, match="YAML is read whole"):
        read(put(tmp_path, "d.yaml", b"- a: 1\n" * 1000), 1024)


# --- columns -------------------------------------------------------------------------------------------------------

_TABLE = pa.table(
    {
        "date": pa.array([datetime.date(2024, 1, 2)]),
        "when": pa.array([datetime.datetime(2024, 1, 2, 3, 4, 5, 6)]),
        "fine": pa.array([1_700_000_000_000_000_123], pa.timestamp("ns")),
        "span": pa.array([datetime.timedelta(days=1, microseconds=5)]),
        "fine_span": pa.array([7], pa.duration("ns")),
        "price": pa.array([decimal.Decimal("1.10")]),
        "score": pa.array([float("nan")]),
        "big": pa.array([(1 << 64) - 1], pa.uint64()),
        "raw": pa.array(["é".encode()]),
        "large": pa.array(["x"], pa.large_string()),
        "kind": pa.array(["y"]).dictionary_encode(),
        "nested": pa.array([[{"a": None, "b": [1]}]]),
        "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
    }
)
_EXPECTED = {
    "date": "2024-01-02", "when": "2024-01-02T03:04:05.000006", "fine": "2023-11-14 22:13:20.000000123",
    "span": 86_400_000_005, "fine_span": 7, "price": "1.10", "score": "NaN",
    "big": (1 << 64) - 1, "raw": "é", "large": "x", "kind": "y", "nested": [{"a": None, "b": [1]}], "map": [["k", 1]],
}  # fmt: skip


@pytest.mark.parametrize("kind", ["parquet", "file", "stream", "stream.gz"])
def test_columns_become_json_without_loss(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pq.write_table(_TABLE, path)
    else:
        sink = io.BytesIO()
        with (pa.ipc.new_file if kind == "file" else pa.ipc.new_stream)(sink, _TABLE.schema) as writer:
            writer.write_table(_TABLE)
        path.write_bytes(gzip.compress(sink.getvalue()) if kind == "stream.gz" else sink.getvalue())
    rows = read(path)
    assert [row[3] for row in rows] == [None]
    assert json.loads(rows[0][2]) == _EXPECTED


def test_bytes_that_are_no_text_are_a_data_uri_and_cut_arrow_is_an_error(tmp_path: Path) -> None:
    table = pa.table({"raw": pa.array([b"\xff", b"x"])})
    pq.write_table(table, tmp_path / "a.parquet")
    values = [json.loads(row[2])["raw"] for row in read(tmp_path / "a.parquet")]
    assert values == ["data:application/octet-stream;base64,/w==", "x"]
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    data = (tmp_path / "a.arrow").read_bytes()
    with pytest.raises(CuratorError, match=r"b\.arrow is not a whole Arrow file"):
        container_of(str(put(tmp_path, "b.arrow", data[:-20])))


def test_a_datasets_folder_gives_its_data_files_only(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        with pa.ipc.new_stream(str(tmp_path / split / "data-00000-of-00001.arrow"), _TABLE.schema) as writer:
            writer.write_table(_TABLE)
        put(tmp_path / split, "state.json", b'{"_split": "x"}')
        put(tmp_path / split, "dataset_info.json", b"{}")
    put(tmp_path, "dataset_dict.json", b"{}")
    files, skipped = expand([str(tmp_path)])
    assert [name for _, name in files] == [f"{split}/data-00000-of-00001.arrow" for split in ("test", "train")]
    assert len(skipped) == 5


# --- zip -----------------------------------------------------------------------------------------------------------


def zipped(path: Path, entries: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


def test_members_of_a_zip_are_files_of_their_own(tmp_path: Path) -> None:
    buffer = io.StringIO()
    csv.writer(buffer).writerows([["question", "answer"], ["a", "b"]])
    entries = {
        "d/": b"", "d/a.csv": buffer.getvalue().encode(), "../up.jsonl": b'{"a":1}\n',
        "b.jsonl.gz": gzip.compress(b'{"b":1}\n'), "__MACOSX/._x": b"\0", "LICENSE": b"Permission",
    }  # fmt: skip
    path = zipped(tmp_path / "x.zip", entries)
    files, skipped = expand([str(path)])
    assert [name for _, name in files] == ["x.zip!../up.jsonl", "x.zip!b.jsonl.gz", "x.zip!d/a.csv"]
    assert skipped == [f"{path}!LICENSE", f"{path}!__MACOSX/._x"]
    assert [row[2] for full, _ in files for row in read(full)] == [
        b'{"a":1}', b'{"b":1}', b'{"question": "a", "answer": "b"}',
    ]  # fmt: skip
    assert raw_file(*files[0]).size == 8
    assert len({raw_file(*file).digest for file in files}) == 3
    assert sorted(os.listdir(tmp_path)) == ["x.zip"]


def test_zip_damage_bombs_and_passwords_are_named(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", {"a.jsonl": _TEXT})
    data = path.read_bytes()
    with pytest.raises(CuratorError, match="is not a whole zip file"):
        expand([str(put(tmp_path, "cut.zip", data[:-30]))])
    flipped = bytearray(data)
    flipped[5000] ^= 255
    with pytest.raises(CuratorError, match="damaged or cut"):
        read(f"{put(tmp_path, 'flip.zip', bytes(flipped))}!a.jsonl")
    secret = bytearray(data)
    secret[6] |= 1
    secret[data.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(CuratorError, match="is encrypted"):
        read(f"{put(tmp_path, 'secret.zip', bytes(secret))}!a.jsonl")
    bomb = zipped(tmp_path / "bomb.zip", {"a.jsonl": b" " * (65 << 20)})
    with pytest.raises(CuratorError, match="more than 1000 times its packed size"):
        read(f"{bomb}!a.jsonl")
