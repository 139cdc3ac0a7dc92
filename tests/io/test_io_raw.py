"""Raw files: rows with their number, place and bytes, whatever the layout, packing or damage."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from curator.errors import CuratorError
from curator.io import raw
from curator.io.raw import BOM, Container, Counts, RawReader, base, container_of, expand, one_by_one, split_lines
from curator.io.raw.arrays import ArrayScanner
from curator.io.raw.lines import Lines

Row = tuple[int, int, bytes, str | None]


def read(path: Path, max_record_bytes: int = raw.MAX_RECORD_BYTES) -> list[Row]:
    with RawReader(str(path), max_record_bytes) as reader:
        return [(row.row, row.byte_offset, row.data, row.problem) for row in reader.rows()]


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def bytes_read(folder: Path, name: str, data: bytes) -> list[bytes]:
    rows = read(written(folder, name, data))
    assert [row[3] for row in rows] == [None] * len(rows)
    return [row[2] for row in rows]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BLOCK_BYTES", 7)


# --- JSON lines --------------------------------------------------------------------------------------------------


def test_lines_have_numbers_and_offsets(tmp_path: Path) -> None:
    data = b'{"a":1}\r\n\r\n   \n{"b":"x\\r\\ny"}\n\t{"c":3} \n{"d":4}'
    path = written(tmp_path, "a.jsonl", data)
    assert read(path) == [
        (0, 0, b'{"a":1}', None),
        (1, 15, b'{"b":"x\\r\\ny"}', None),
        (2, 30, b'{"c":3}', None),
        (3, 40, b'{"d":4}', None),
    ]
    with RawReader(str(path)) as reader:
        list(reader.rows())
        assert reader.blank_lines == 2
    for _, offset, text, _ in read(path):
        assert data[offset:].lstrip().startswith(text)


def test_only_line_feeds_end_a_row(tmp_path: Path) -> None:
    text = '{"a":"x\u2028y\u0085z\u2029w"}\n{"b":"\u000b\u000c"}\n'
    assert bytes_read(tmp_path, "a.jsonl", text.encode()) == text.encode().strip().split(b"\n")


def test_byte_order_marks_at_line_starts_are_taken_off_and_counted(tmp_path: Path) -> None:
    data = BOM + b'{"a":1}\n{"b":"\xef\xbb\xbf2"}\n' + BOM + b'{"c":3}\n' + BOM + b"\n"
    path = written(tmp_path, "a.jsonl", data)
    assert read(path) == [
        (0, 0, b'{"a":1}', None),
        (1, 11, b'{"b":"\xef\xbb\xbf2"}', None),
        (2, 24, b'{"c":3}', None),
    ]
    with RawReader(str(path)) as reader:
        list(reader.rows())
        assert (reader.byte_order_marks, reader.blank_lines) == (3, 1)


def test_a_line_longer_than_the_block_is_one_row(tmp_path: Path, small_blocks: None) -> None:
    long = b'{"text":"' + b"x" * 9000 + b'"}'
    assert bytes_read(tmp_path, "a.jsonl", b'{"a":1}\n' + long + b'\n{"b":2}') == [b'{"a":1}', long, b'{"b":2}']


@pytest.mark.parametrize("block", [7, 4096, 1 << 20])
def test_a_row_over_the_limit_is_bad_and_its_neighbours_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(base, "BLOCK_BYTES", block)
    monkeypatch.setattr(base, "KEPT_RAW_BYTES", 2000)
    long = b'{"text":"' + b"x" * 5000 + b'"}'
    path = written(tmp_path, "a.jsonl", b'{"a":1}\n' + long + b'\n{"b":2}\n' + long)
    assert read(path, 1024) == [
        (0, 0, b'{"a":1}', None),
        (1, 8, long[:2000], "too long: 5,011 bytes, the limit is 1,024"),
        (2, 5020, b'{"b":2}', None),
        (3, 5028, long[:2000], "too long: 5,011 bytes, the limit is 1,024"),
    ]
    assert [row[3] for row in read(path, 5011)] == [None] * 4


# --- JSON arrays --------------------------------------------------------------------------------------------------

ELEMENTS = [
    b'{"a":1}',
    b'{"b":[1,[2,{"c":"]"}]]}',
    b'"text with ], [ and \\" and \\\\"',
    b"[1, [2]]",
    b"12.50",
    b"null",
    b'{"d":"\\u005d \xe2\x80\xa8 {"}',
    b'{"e":"\\\\"}',
]


@pytest.mark.parametrize("gap", [b",", b" ,\n", b",\r\n\t "])
@pytest.mark.parametrize("block", [1, 3, 7, 64, 1 << 20])
def test_elements_of_an_array_come_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, gap: bytes
) -> None:
    monkeypatch.setattr(base, "BLOCK_BYTES", block)
    data = BOM + b" [ " + gap.join(ELEMENTS * 40) + b" ]\n"
    # The first 4,096 bytes come as one block; push the rest behind them.
    data = b" " * (4000 - len(data) % 50) + data if block < 64 else data
    data = data.replace(BOM, b"")
    rows = read(written(tmp_path, "a.json", data))
    assert [row[2] for row in rows] == ELEMENTS * 40
    assert [row[0] for row in rows] == list(range(len(ELEMENTS) * 40))
    for _, offset, text, problem in rows:
        assert problem is None
        assert data[offset : offset + len(text)] == text


def test_more_elements_than_one_scan_holds(tmp_path: Path) -> None:
    for count in (4095, 4096, 4097, 8192, 10_000):
        data = b"[" + b",".join(b"%d" % number for number in range(count)) + b"]"
        assert bytes_read(tmp_path, "a.json", data) == [b"%d" % number for number in range(count)]


def test_pretty_printed_and_empty_arrays(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": ["x", {"y": None}]}, {"c": "é"}]
    found = bytes_read(tmp_path, "a.json", json.dumps(rows, indent=2, ensure_ascii=False).encode())
    assert [json.loads(text) for text in found] == rows
    assert bytes_read(tmp_path, "b.json", b"[]") == []
    assert bytes_read(tmp_path, "c.json", b" [ \n ] \n") == []


@pytest.mark.parametrize("cut", [b'[{"a":1}, {"b":', b'[{"a":1}, {"b": "x]', b'[{"a":1}, '])
def test_a_cut_array_ends_with_a_bad_row(tmp_path: Path, cut: bytes) -> None:
    rows = read(written(tmp_path, "a.json", cut))
    assert rows == [
        (0, 1, b'{"a":1}', None),
        (1, min(10, len(cut)), cut[10:], "cut: the JSON array is not closed"),
    ]


@pytest.mark.parametrize("data", [b'[{"role":"user"},1]\n\n [{"role":"x"}]\n', b'[{"from":"a"}]\n[]\n'])
def test_lines_that_are_lists_of_turns(tmp_path: Path, data: bytes) -> None:
    rows = read(written(tmp_path, "a.json", data))
    assert [row[2] for row in rows] == [line.strip() for line in data.split(b"\n") if line] and not any(
        row[3] for row in rows
    )


def test_a_list_of_turns_that_fills_the_head(tmp_path: Path) -> None:
    line = b'[{"role":"user","content":"' + b"x" * 100_000 + b'"}]\n'
    assert [row[2] for row in read(written(tmp_path, "a.jsonl", line * 3))] == [line[:-1]] * 3


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("text", ['{"a":1}\n', '[{"a":1}]', "a,b\n"])
def test_other_encodings_are_named(tmp_path: Path, encoding: str, text: str) -> None:
    if not text.startswith(("{", "[")) and encoding not in ("utf-16", "utf-32"):
        pytest.skip("nothing tells")
    with pytest.raises(
        CuratorError, match=f"is {encoding.upper().replace('-LE', 'LE').replace('-BE', 'BE')} text"
    ) as bad:
        read(written(tmp_path, "a.csv", text.encode(encoding)))
    assert bad.value.hint is not None and bad.value.hint.startswith(f"iconv -f {encoding[:6].upper()}")


def test_bytes_behind_the_array_are_a_bad_row(tmp_path: Path) -> None:
    rows = read(written(tmp_path, "a.json", b'[{"a":1}]\n\n[{"b":2}]'))
    assert rows[1:] == [(1, 9, b'[{"b":2}]', "after the end: bytes behind the closing ] of the array")]


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
@pytest.mark.parametrize("end", [",]", " , \n ] \n", ",\n]x"])
def test_a_comma_behind_the_last_element_is_a_bad_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, block: int
) -> None:
    monkeypatch.setattr(base, "BLOCK_BYTES", block)
    data = b'[{"a":1},{"b":[1,2]}' + end.encode()
    rows = read(written(tmp_path, "a.json", data))
    assert [row[2] for row in rows[:2]] == [b'{"a":1}', b'{"b":[1,2]}']
    assert rows[2] == (2, data.rindex(b"]"), b"", "not JSON: nothing behind the last comma")
    assert [row[2] for row in rows[3:]] == ([b"x"] if end.endswith("x") else [])


def test_nothing_between_two_commas_is_a_bad_row(tmp_path: Path) -> None:
    rows = read(written(tmp_path, "a.json", b'[{"a":1},,{"b":2}]'))
    assert [(row[0], row[2], row[3]) for row in rows] == [
        (0, b'{"a":1}', None),
        (1, b"", "not JSON: nothing between two commas"),
        (2, b'{"b":2}', None),
    ]


@pytest.mark.parametrize("block", [50, 3000, 1 << 20])
def test_an_element_over_the_limit_is_bad_wherever_blocks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(base, "BLOCK_BYTES", block)
    long = b'{"text":"' + b"x" * 9000 + b'"}'
    path = written(tmp_path, "a.json", b'[{"a":1},' + long + b',{"b":2}]')
    rows = read(path, 1024)
    assert [(row[0], row[1], row[3]) for row in rows] == [
        (0, 1, None),
        (1, 9, "too long: 9,011 bytes, the limit is 1,024"),
        (2, 9021, None),
    ]
    assert long.startswith(rows[1][2])
    assert rows[2][2] == b'{"b":2}'
    assert [row[2] for row in read(path)] == [b'{"a":1}', long, b'{"b":2}']


def test_a_missing_quote_in_an_array_costs_rows_not_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BLOCK_BYTES", 512)
    monkeypatch.setattr(base, "KEPT_RAW_BYTES", 100)
    data = b'[{"a":1},{"b":"never closed},' + b'{"c":1},' * 2000 + b"]"
    rows = read(written(tmp_path, "a.json", data), 1024)
    assert rows[0] == (0, 1, b'{"a":1}', None)
    assert len(rows) == 2
    assert (rows[1][1], len(rows[1][2]), rows[1][3]) == (9, 100, "cut: the JSON array is not closed")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda child: st.lists(child, max_size=3) | st.dictionaries(st.text(max_size=3), child, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_JSON, max_size=12), st.integers(1, 40), st.booleans())
def test_any_array_gives_its_elements(values: list[object], block: int, indent: bool) -> None:
    data = json.dumps(values, indent=1 if indent else None).encode()
    blocks = iter([data[i : i + block] for i in range(0, len(data), block)])
    assert [json.loads(row.data) for row in one_by_one(ArrayScanner(Counts()).split(blocks))] == values


# --- tables -------------------------------------------------------------------------------------------------------


def test_table_rows_become_objects_with_the_place_of_their_line(tmp_path: Path) -> None:
    data = b'question,answer\r\n"a, b","1\n2"\r\n\r\nc,"say ""hi"""\r\nlast,'
    rows = read(written(tmp_path, "a.csv", data))
    assert [(row[0], row[1], json.loads(row[2])) for row in rows] == [
        (0, 17, {"question": "a, b", "answer": "1\n2"}),
        (1, 33, {"question": "c", "answer": 'say "hi"'}),
        (2, 49, {"question": "last", "answer": ""}),
    ]
    for _, offset, text, _ in rows:
        assert json.loads(text)["question"][0].encode() in data[offset : offset + 2]


def test_tsv_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = written(tmp_path, "a.tsv", BOM + b"question\tanswer\na, b\tc\n")
    assert [(row[1], json.loads(row[2])) for row in read(path)] == [(19, {"question": "a, b", "answer": "c"})]
    with RawReader(str(path)) as reader:
        assert reader.container == Container("none", "tsv")
        list(reader.rows())
        assert reader.byte_order_marks == 1


def test_bad_table_rows_are_named_and_the_others_read(tmp_path: Path) -> None:
    data = b'q,a\n1,2,3\nx,\xff\ny,z\n"u"v,w\nlast,"open\nto the end'
    assert [(row[0], row[1], row[2], row[3]) for row in read(written(tmp_path, "a.csv", data))] == [
        (0, 4, b"1,2,3\n", "wrong number of fields: 3, the header has 2"),
        (1, 10, b"x,\xff\n", "not UTF-8: the row holds invalid bytes"),
        (2, 14, b'{"q": "y", "a": "z"}', None),
        (3, 18, b'"u"v,w\n', "not CSV: ',' expected after '\"'"),
        (4, 25, b'last,"open\nto the end', "not CSV: unexpected end of data"),
    ]


def test_a_quote_that_never_closes_does_not_swallow_the_file(tmp_path: Path, small_blocks: None) -> None:
    data = b'q,a\n"open,x\n' + b"y,z\n" * 400 + b'"p",r\n'
    rows = read(written(tmp_path, "a.csv", data), 1024)
    assert rows[0][3] == "too long: 1,028 bytes, the limit is 1,024"
    assert [json.loads(row[2]) for row in rows[1:]] == [{"q": "y", "a": "z"}] * 145 + [{"q": "p", "a": "r"}]


def test_nul_and_line_separators_inside_cells_stay(tmp_path: Path) -> None:
    rows = read(written(tmp_path, "a.csv", "q,a\nx\u2028y,p\x00q\n".encode()))
    assert json.loads(rows[0][2]) == {"q": "x\u2028y", "a": "p\x00q"}


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CuratorError, match="two columns have the same name"):
        read(written(tmp_path, "a.csv", b"q,q\n1,2\n"))


def test_header_alone_and_nothing_at_all(tmp_path: Path) -> None:
    assert read(written(tmp_path, "a.csv", b"q,a\n")) == []
    assert read(written(tmp_path, "b.csv", b"")) == []


def test_parquet_rows_in_order_through_all_row_groups(tmp_path: Path) -> None:
    table = pa.table({"question": [f"q{i}" for i in range(2500)], "answer": pa.array(["é"] * 2500).dictionary_encode()})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=700)
    rows = read(tmp_path / "a.parquet")
    assert [row[0] for row in rows] == list(range(2500))
    assert json.loads(rows[1234][2]) == {"question": "q1234", "answer": "é"}


@pytest.mark.parametrize("damage", ["cut", "half", "empty", "text"])
def test_a_damaged_parquet_file_is_named_before_any_row(tmp_path: Path, damage: str) -> None:
    pq.write_table(pa.table({"question": ["a"], "answer": ["b"]}), tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    changed = {"cut": data[:-8], "half": data[: len(data) // 2], "empty": b"", "text": b"hello"}[damage]
    path = written(tmp_path, "b.parquet", changed)
    with pytest.raises(CuratorError, match=r"b\.parquet is not a whole Parquet file"):
        read(path)


# --- compression ---------------------------------------------------------------------------------------------------

TWO = b'{"id":"1"}\n{"id":"2"}\n'


def test_all_members_of_a_gzip_file_are_read(tmp_path: Path) -> None:
    data = gzip.compress(b'{"id":"1"}\n') + gzip.compress(b'{"id":"2"}\n{"i') + gzip.compress(b'd":"3"}\n')
    assert bytes_read(tmp_path, "a.jsonl.gz", data) == [b'{"id":"1"}', b'{"id":"2"}', b'{"id":"3"}']


def test_all_frames_of_a_zstd_file_are_read(tmp_path: Path) -> None:
    data = zstandard.compress(b'{"id":"1"}\n{"i') + zstandard.compress(b'd":"2"}\n') + zstandard.compress(b"")
    assert bytes_read(tmp_path, "a.jsonl.zst", data) == [b'{"id":"1"}', b'{"id":"2"}']


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("name", ["a.jsonl", "a", "a.jsonl.gz", "a.jsonl.zst", "a.bin"])
def test_content_tells_the_compression_not_the_name(tmp_path: Path, name: str, pack: object) -> None:
    path = written(tmp_path, name, pack(TWO))  # type: ignore[operator]
    assert [row[2] for row in read(path)] == [b'{"id":"1"}', b'{"id":"2"}']
    assert container_of(str(path)).compression == ("gzip" if pack is gzip.compress else "zstd")


def test_plain_text_behind_a_gz_name(tmp_path: Path) -> None:
    assert bytes_read(tmp_path, "a.jsonl.gz", TWO) == [b'{"id":"1"}', b'{"id":"2"}']


_NOISE = b"".join(b'{"id":%d}\n' % (number * number * 7919 % 104729) for number in range(5000))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("junk.gz", gzip.compress(_NOISE) + b"junk"),
        ("cut.gz", gzip.compress(_NOISE)[:-20]),
        ("half.gz", gzip.compress(_NOISE)[:9000]),
        ("flip.gz", gzip.compress(_NOISE)[:9000] + b"\xff\xff\x00\xff" + gzip.compress(_NOISE)[9004:]),
        ("sum.gz", gzip.compress(_NOISE)[:-8] + b"\0\0\0\0" + gzip.compress(_NOISE)[-4:]),
        ("junk.zst", zstandard.compress(_NOISE) + b"junk"),
        ("cut.zst", zstandard.compress(_NOISE)[:-6]),
        ("half.zst", zstandard.compress(_NOISE)[:9000]),
        ("second.zst", zstandard.compress(_NOISE) + zstandard.compress(_NOISE)[:-1]),
    ],
)
def test_damaged_compression_is_an_error_and_never_a_short_file(tmp_path: Path, name: str, data: bytes) -> None:
    with pytest.raises(CuratorError) as caught:
        read(written(tmp_path, name, data))
    assert caught.value.message.startswith(f"{tmp_path / name}: the compressed data is damaged or cut: ")


@pytest.mark.parametrize("data", [b"", gzip.compress(b""), zstandard.compress(b""), b"\n \n", BOM])
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.json", "a"])
def test_files_of_nothing_have_no_rows(tmp_path: Path, name: str, data: bytes) -> None:
    assert read(written(tmp_path, name, data)) == []


@pytest.mark.parametrize("data", [b"\x00\x05\x16\x07", b"hello", b"<html>"])
def test_what_is_no_format_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(CuratorError) as caught:
        read(written(tmp_path, "a.bin", data))
    assert caught.value.message == f"{tmp_path}/a.bin: not a format that is read (it begins with {data!r})"


# --- parts ---------------------------------------------------------------------------------------------------------

_LINES = st.lists(
    st.sampled_from(
        [b"{}", b'{"a":1}', b"", b"  ", b"\r", BOM, BOM + b"{}", b" " + BOM, BOM + b" ", b"\xef\xbb", b"x"]
    ),
    max_size=25,
)


@settings(max_examples=200, deadline=None)
@given(_LINES, st.integers(1, 30), st.integers(1, 9), st.booleans(), st.sampled_from([4, 1000]))
def test_parts_hold_the_rows_of_the_stream(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    part_bytes: int,
    block: int,
    ends_with_newline: bool,
    limit: int,
) -> None:
    path = tmp_path_factory.getbasetemp() / "parts.jsonl"
    path.write_bytes(b"\n".join(lines) + (b"\n" if ends_with_newline else b""))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "BLOCK_BYTES", block)
        whole = list(one_by_one(Lines(Counts(), limit).split(iter([path.read_bytes()]))))
        with RawReader(str(path), limit) as reader:
            parts = split_lines(str(path), part_bytes, limit)
            found = [row for start, stop, first in parts for row in one_by_one(reader.part(start, stop, first))]
    assert found == whole
    assert parts[0][0] == 0
    assert parts[-1][1] == path.stat().st_size
    assert [part[1] for part in parts[:-1]] == [part[0] for part in parts[1:]]
    for start, _, _ in parts[1:]:
        assert path.read_bytes()[start - 1 : start] == b"\n"
    for row, (start, stop, _) in (
        (row, part) for part in parts for row in whole if part[0] <= row.byte_offset < part[1]
    ):
        assert row.byte_offset // part_bytes == start // part_bytes or stop > row.byte_offset


def test_a_part_is_the_lines_that_begin_in_its_stretch(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", b"".join(b'{"n":%d}\n' % number for number in range(10, 30)))
    assert split_lines(str(path), 36) == [(0, 36, 0), (36, 72, 4), (72, 108, 8), (108, 144, 12), (144, 180, 16)]
    assert split_lines(str(path), 40) == [(0, 45, 0), (45, 81, 5), (81, 126, 9), (126, 162, 14), (162, 180, 18)]
    assert split_lines(str(written(tmp_path, "b.jsonl", b"")), 40) == [(0, 0, 0)]


# --- finding files --------------------------------------------------------------------------------------------------


def names(*patterns: Path | str) -> list[str]:
    return [relative for _, relative in expand([str(pattern) for pattern in patterns])[0]]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "raw"
    for name in ("b/2.jsonl", "b/1.jsonl", "a.jsonl", "._a.jsonl", "_SUCCESS", ".hidden/x.jsonl", "b/.tmp", "c.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"{}\n")
    return root


def test_a_folder_gives_all_but_hidden_files_and_says_which(tree: Path) -> None:
    files, skipped = expand([str(tree)])
    assert files == [(f"{tree}/{name}", name) for name in ("a.jsonl", "b/1.jsonl", "b/2.jsonl", "c.txt")]
    assert skipped == [f"{tree}/._a.jsonl", f"{tree}/_SUCCESS", f"{tree}/b/.tmp"]


def test_inside_a_folder_files_of_no_known_format_are_skipped_and_damaged_ones_are_not(tree: Path) -> None:
    (tree / "LICENSE.upstream").write_text("Permission is hereby granted, free of charge\n")
    (tree / "cut.parquet").write_bytes(b"PAR1")
    files, skipped = expand([str(tree)])
    assert f"{tree}/LICENSE.upstream" in skipped
    assert (f"{tree}/cut.parquet", "cut.parquet") in files
    with pytest.raises(CuratorError, match="not a format that is read"):
        RawReader(str(tree / "LICENSE.upstream"))


def test_globs_are_relative_to_the_folder_before_the_first_star(tree: Path) -> None:
    assert names(tree / "b" / "*.jsonl") == ["1.jsonl", "2.jsonl"]
    assert names(tree / "*" / "*.jsonl") == ["b/1.jsonl", "b/2.jsonl"]
    assert names(f"{tree}/**/*.jsonl") == ["a.jsonl", "b/1.jsonl", "b/2.jsonl"]
    with pytest.raises(CuratorError, match="no file matches"):
        expand([f"{tree}/.*.jsonl"])


def test_files_named_one_by_one_are_relative_to_their_common_parent(tree: Path) -> None:
    assert names(tree / "b" / "1.jsonl") == ["1.jsonl"]
    assert names(tree / "b" / "2.jsonl", tree / "a.jsonl") == ["a.jsonl", "b/2.jsonl"]
    assert names(tree / "._a.jsonl") == ["._a.jsonl"]


def test_the_order_of_creation_and_of_patterns_does_not_matter(tmp_path: Path) -> None:
    for folder, order in (("x", "abcé"), ("y", "écba")):
        (tmp_path / folder).mkdir()
        for name in order:
            (tmp_path / folder / f"{name}.jsonl").write_bytes(b"{}\n")
    assert names(tmp_path / "x") == names(tmp_path / "y") == ["a.jsonl", "b.jsonl", "c.jsonl", "é.jsonl"]
    assert names(tmp_path / "x" / "c.jsonl", tmp_path / "x" / "a.jsonl") == ["a.jsonl", "c.jsonl"]


def test_a_file_named_twice_is_read_once(tree: Path) -> None:
    assert names(tree / "a.jsonl", tree / "a.jsonl") == ["a.jsonl"]
    assert names(tree, f"{tree}/**/*.jsonl") == ["a.jsonl", "b/1.jsonl", "b/2.jsonl", "c.txt"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("nope/*.jsonl", "no file matches "), ("nope.jsonl", ": no such file"), ("empty", " holds no file that is read")],
)
def test_a_pattern_that_matches_nothing_is_an_error(tree: Path, pattern: str, message: str) -> None:
    (tree / "empty").mkdir()
    (tree / "empty" / ".only-hidden").write_bytes(b"")
    with pytest.raises(CuratorError) as caught:
        expand([str(tree / "a.jsonl"), str(tree / pattern)])
    assert message in caught.value.message and str(tree / pattern) in caught.value.message
    assert caught.value.hint == f"looked in {Path.cwd()}"


def test_two_files_of_one_relative_name_are_refused(tree: Path) -> None:
    (tree / "c" / "deep").mkdir(parents=True)
    (tree / "c" / "1.jsonl").write_bytes(b"{}\n")
    with pytest.raises(CuratorError, match=r"two files would be called 1\.jsonl"):
        expand([str(tree / "b"), str(tree / "c")])


def test_a_name_that_is_not_utf8_is_refused_in_one_line(tree: Path) -> None:
    path = bytes(tree) + b"/caf\xe9.jsonl"
    try:
        Path(path.decode("utf-8", "surrogateescape")).write_bytes(b"{}\n")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    with pytest.raises(CuratorError, match="the name is not UTF-8"):
        expand([str(tree)])
