"""Law 6, declared, never inferred: nothing depends on which row comes first."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from law_samples import parquet_rows, raw_rows
from record_samples import ingested, passed, write_lines

from curator.errors import CuratorError
from curator.io.dataset import Dataset
from curator.stages.concat import Concat
from curator.stages.tag.signals import Signals

TALK = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def chat(**fields: Any) -> dict[str, Any]:
    return {**fields, "messages": TALK}


def schemas(folder: Path) -> set[str]:
    return {str(pq.read_schema(path)) for path in (folder / "data").iterdir()}


def essence(row: dict[str, Any]) -> str:
    """A record without its place in the file."""
    place = dict.fromkeys(("file", "row", "byte_offset"))
    return json.dumps({**row, "id": None, "provenance": {**row["provenance"], **place}}, default=bytes.hex)


def only(folder: Path) -> dict[str, Any]:
    (row,) = parquet_rows(folder)
    return row


MIXED = [
    *(
        line
        for name in ("alpaca_metadata.jsonl", "preference.jsonl", "transcripts.jsonl.gz")
        for line in raw_rows(name)
    ),
    *(json.dumps(row).encode() for row in [*raw_rows("qa.csv")][:20]),
    *(line for line in raw_rows("broken.jsonl") if b"\n" not in line),
    json.dumps(chat(tools=[], weight=None, note={})).encode(),
    json.dumps(chat(tools=None, note=[])).encode(),
    json.dumps(chat(note=None, id=7)).encode(),
    json.dumps(chat(id="7", team=3)).encode(),
    json.dumps(chat(id=7.0, team="red")).encode(),
]


@pytest.fixture(scope="module")
def in_order(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[bytes]]:
    folder = tmp_path_factory.mktemp("declared")
    ingested(write_lines(folder / "m.jsonl", MIXED), folder / "d", fields={"team": "string"})
    bad = [row["raw"] for row in parquet_rows(folder / "d", "quarantine")]
    rows = parquet_rows(folder / "d")
    assert len(rows) + len(bad) == len(MIXED) and bad
    assert len({row["provenance"]["adapter"] for row in rows}) >= 5
    return [essence(row) for row in rows], bad


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_permuted_rows_are_the_same_records(
    tmp_path: Path, in_order: tuple[list[str], list[bytes]], seed: int | None
) -> None:
    order = list(range(len(MIXED)))[::-1]
    if seed is not None:
        random.Random(seed).shuffle(order)
    rows = [MIXED[place] for place in order]
    ingested(write_lines(tmp_path / "m.jsonl", rows), tmp_path / "d", fields={"team": "string"}, shard_bytes=8192)
    found = {row["provenance"]["row"]: essence(row) for row in parquet_rows(tmp_path / "d")}
    bad = {row["row"]: row["raw"] for row in parquet_rows(tmp_path / "d", "quarantine")}
    good_places = [place for place in range(len(MIXED)) if MIXED[place] not in set(in_order[1])]
    expected = dict(zip(good_places, in_order[0], strict=True))
    assert {order[row]: text for row, text in found.items()} == expected
    assert sorted(bad.values()) == sorted(in_order[1])
    assert len(schemas(tmp_path / "d")) == 1


def test_every_row_alone_is_what_it_is_among_others(tmp_path: Path, in_order: tuple[list[str], list[bytes]]) -> None:
    rows = [line for line in MIXED if line not in set(in_order[1])]
    for place in (0, len(rows) // 2, len(rows) - 5, len(rows) - 1):
        ingested(write_lines(tmp_path / "m.jsonl", [rows[place]]), tmp_path / f"d{place}", fields={"team": "string"})
        assert essence(only(tmp_path / f"d{place}")) == in_order[0][place]


@pytest.mark.parametrize(
    "value", ["null", "[]", "{}", '""', "0", "false", "[null]", "[[]]", "[{}]", '{"a":null}', '{"a":{}}', None]
)
def test_null_absent_empty_list_and_empty_object_stay_apart(tmp_path: Path, value: str | None) -> None:
    """B038 and B039: what no adapter maps is the text that came, and a row without it is told from a null."""
    head = b'{"instruction":"q","input":"","output":"a"'
    note = b"" if value is None else b',"note":' + value.encode()
    ingested(write_lines(tmp_path / "r.jsonl", [head + note + b"}"]), tmp_path / "d")
    row = only(tmp_path / "d")
    assert row["extra"] == (None if value is None else '{"note":' + value + "}")
    assert ("note" in json.loads(row["provenance"]["form"])["keys"]) == (value is not None)


@pytest.mark.parametrize(("given", "form"), [("null", None), ('""', ""), (None, "absent")])
def test_an_input_that_is_null_empty_or_absent_is_told_apart(tmp_path: Path, given: str | None, form: Any) -> None:
    middle = "" if given is None else f'"input":{given},'
    ingested(
        write_lines(tmp_path / "r.jsonl", [f'{{"instruction":"q",{middle}"output":"a"}}'.encode()]), tmp_path / "d"
    )
    stored = json.loads(only(tmp_path / "d")["provenance"]["form"])
    assert stored.get("input", "absent") == form
    assert ("input" in stored["keys"]) == (given is not None)


@pytest.mark.parametrize("shard_bytes", [20_000, 64 << 20])
def test_B001_a_type_that_changes_far_into_the_file_loses_no_row(tmp_path: Path, shard_bytes: int) -> None:
    titles: list[Any] = [f"t{n}" for n in range(1500)]
    titles[1233], titles[1400] = 1984, ["a", 1]
    rows = [chat(id=f"r{n}", meta={"title": title}) for n, title in enumerate(titles)]
    ingested(write_lines(tmp_path / "r.jsonl", rows), tmp_path / "d", shard_bytes=shard_bytes)
    kept = parquet_rows(tmp_path / "d")
    assert [json.loads(row["extra"])["meta"]["title"] for row in kept] == titles
    assert len(schemas(tmp_path / "d")) == 1
    assert parquet_rows(tmp_path / "d", "quarantine") == []


def test_B001_a_declared_field_takes_what_fits_and_keeps_the_rest(tmp_path: Path) -> None:
    values: list[Any] = [*range(800), "many", 801, None, 1.5]
    rows = [chat(id=str(n), level=value) for n, value in enumerate(values)]
    ingested(write_lines(tmp_path / "r.jsonl", rows), tmp_path / "d", fields={"level": "int"})
    kept = parquet_rows(tmp_path / "d")
    assert [row["metadata"]["level"] for row in kept] == [*range(800), None, 801, None, None]
    assert [row["extra"] for row in kept[800:]] == ['{"level":"many"}', None, '{"level":null}', '{"level":1.5}']


@pytest.mark.parametrize("shard_bytes", [200_000, 64 << 20])
def test_B003_a_field_that_is_null_until_the_last_row(tmp_path: Path, shard_bytes: int) -> None:
    rows = [
        {"instruction": f"q{n}", "output": "a", "system": "Be brief." if n == 8_999 else None, "note": None}
        for n in range(9_000)
    ]
    rows[-1]["note"] = "text"
    ingested(write_lines(tmp_path / "r.jsonl", rows), tmp_path / "d", shard_bytes=shard_bytes)
    dataset = Dataset.open(tmp_path / "d")
    systems = extras = row = 0
    for batch in dataset.batches(["id", "messages", "extra"]):
        for line in batch.to_pylist():
            has_system = line["messages"][0]["role"] == "system"
            systems += has_system
            assert has_system == (row == 8_999)
            extras += line["extra"] == '{"note":null}'
            row += 1
    assert (row, systems, extras) == (9_000, 1, 8_999)
    assert line["messages"][0]["content"] == "Be brief." and line["extra"] == '{"note":"text"}'


@pytest.mark.parametrize("first", [100, 999])
def test_B004_a_key_that_comes_late_is_kept(tmp_path: Path, first: int) -> None:
    rows = [chat(id=str(n), **({"origin": f"s{n}", "team": f"t{n}"} if n >= first else {})) for n in range(1000)]
    ingested(write_lines(tmp_path / "r.jsonl", rows), tmp_path / "d", fields={"team": "string"})
    kept = parquet_rows(tmp_path / "d")
    late = [row for row in kept if row["extra"]]
    assert [json.loads(row["extra"]) for row in late] == [{"origin": f"s{n}"} for n in range(first, 1000)]
    assert [row["metadata"]["team"] for row in kept] == [f"t{n}" if n >= first else None for n in range(1000)]


TOOLS = {"empty": [[], []], "some": [[{"name": "f", "x": None}]] * 2, "null": [None, None], "absent": ["absent"] * 2}


@pytest.mark.parametrize("order", [["empty", "some", "null", "absent"], ["absent", "null", "some", "empty"]])
def test_B039_no_tools_null_tools_and_empty_tools(tmp_path: Path, order: list[str]) -> None:
    folders = []
    for name in order:
        rows = [chat() if tools == "absent" else chat(tools=tools) for tools in TOOLS[name]]
        # Separators as a person writes them: the text must come back, not a re-formatted one.
        ingested(write_lines(tmp_path / name / "r.jsonl", rows), tmp_path / f"d-{name}", name=name)
        folders.append(tmp_path / f"d-{name}")
    passed(Concat(), folders, tmp_path / "all")
    stored = {"empty": "[]", "some": '[{"name": "f", "x": null}]', "null": None, "absent": None}
    rows = parquet_rows(tmp_path / "all")
    assert [row["tools"] for row in rows] == [stored[name] for name in order for _ in range(2)]
    forms = [json.loads(row["provenance"]["form"]) for row in rows]
    assert [("tools" in form["keys"], form.get("tools")) for form in forms] == [
        {"empty": (True, None), "some": (True, None), "null": (True, "null"), "absent": (False, None)}[name]
        for name in order
        for _ in range(2)
    ]
    hashes = {row["tools"]: row["content_hash"] for row in rows}
    assert len(set(hashes.values())) == 3
    assert len({*schemas(tmp_path / "all"), *(text for folder in folders for text in schemas(folder))}) == 1


def test_B035_ids_as_numbers_texts_and_floats_stay_apart(tmp_path: Path) -> None:
    shards = [["1", "2", "3"], ['"1"', '"2"', '"a-7"'], ["1.0"]]
    paths = [
        write_lines(tmp_path / f"{n}.jsonl", [f'{{"id":{i},"question":"q","answer":"a"}}'.encode() for i in texts])
        for n, texts in enumerate(shards)
    ]
    ingested(paths, tmp_path / "d")
    rows = parquet_rows(tmp_path / "d")
    assert len({row["id"] for row in rows}) == 7
    assert [row["metadata"]["original_id"] for row in rows] == ["1", "2", "3", "1", "2", "a-7", "1.0"]
    kinds = [json.loads(row["provenance"]["form"])["id"] for row in rows]
    assert kinds == ["number"] * 3 + ["text"] * 3 + ["number"]


def test_B024_large_integers_keep_every_digit(tmp_path: Path) -> None:
    texts = ["9007199254740993", "9007199254740992", "9223372036854775808", "18446744073709551616", "1e3", "1E3"]
    rows = [f'{{"id":{text},"n":{text},"question":"q","answer":"a"}}'.encode() for text in texts]
    ingested(write_lines(tmp_path / "r.jsonl", rows), tmp_path / "d")
    kept = parquet_rows(tmp_path / "d")
    assert [row["metadata"]["original_id"] for row in kept] == texts
    assert [row["extra"] for row in kept] == [f'{{"n":{text}}}' for text in texts]


def test_a_folder_without_a_score_meets_one_that_has_it(tmp_path: Path) -> None:
    """The union of two schemas has every field of both, in either order; a missing score is null, not 0."""
    for name in ("a", "b"):
        ingested(write_lines(tmp_path / f"{name}.jsonl", [chat(id=name)]), tmp_path / name, name=name)
    tagged = passed(Signals(), tmp_path / "a", tmp_path / "tagged")
    for number, folders in enumerate(([tagged, tmp_path / "b"], [tmp_path / "b", tagged])):
        out = passed(Concat(), folders, tmp_path / f"both{number}")
        scores = {row["metadata"]["original_id"]: row["scores"] for row in parquet_rows(out)}
        assert scores["a"]["num_turns"]["value"] == 2
        assert scores["b"] is None or all(score is None or score["value"] is None for score in scores["b"].values())


def test_fields_of_two_types_never_become_one(tmp_path: Path) -> None:
    folders = []
    for type_ in ("int", "string"):
        path = write_lines(tmp_path / f"{type_}.jsonl", [chat(level=1 if type_ == "int" else "1")])
        ingested(path, tmp_path / type_, name=type_, fields={"level": type_})
        folders.append(tmp_path / type_)
    with pytest.raises(CuratorError, match=r"column metadata\.level is string, but int64"):
        passed(Concat(), folders, tmp_path / "both")
