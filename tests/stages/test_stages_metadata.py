"""tag.metadata: fields by rule and from a side file."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from record_samples import passed, record, rows_of, through, write_dataset

from curator.errors import CuratorError, UsageError
from curator.schema.record import record_schema
from curator.stages.tag.metadata import Metadata

ROWS = [
    record("s/f#0", "q", "a", metadata={"source": "tickets", "domain": "ops", "original_id": "t1"}),
    record("s/f#1", "q", "a", metadata={"source": "tutor", "original_id": "t2"}),
    record("s/f#2", "q", "a", metadata=None),
]


def tagged(stage: Metadata, schema: pa.Schema | None = None, rows: list[dict[str, Any]] = ROWS) -> list[dict[str, Any]]:
    kept, dropped = through(stage, rows, schema or record_schema())
    assert dropped == []
    return [row["metadata"] for row in kept]


def field(stage: Metadata, name: str, schema: pa.Schema | None = None) -> list[Any]:
    return [metadata[name] for metadata in tagged(stage, schema)]


def test_a_rule_replaces_what_was_there() -> None:
    assert field(Metadata({"domain": "'devops'"}), "domain") == ["devops"] * 3


def test_where_leaves_the_other_rows_alone() -> None:
    assert field(Metadata({"domain": "'devops'"}, where="source = 'tutor'"), "domain") == ["ops", "devops", None]
    assert field(Metadata({"domain": "'devops'"}, where="source <> 'tutor'"), "domain") == ["devops", None, None]


def test_rules_read_columns_as_they_were() -> None:
    found = tagged(Metadata({"domain": "source", "task_type": "coalesce(domain, 'none')"}))
    assert [(row["domain"], row["task_type"]) for row in found] == [
        ("tickets", "ops"),
        ("tutor", "none"),
        (None, "none"),
    ]


def test_new_fields_have_the_type_of_their_expression() -> None:
    stage = Metadata({"words": "length(id)", "share": "1 / 4", "is_first": "id = 's/f#0'", "label": "upper(source)"})
    assert stage.writes(record_schema()) == {
        "metadata.words": pa.int64(),
        "metadata.share": pa.float64(),
        "metadata.is_first": pa.bool_(),
        "metadata.label": pa.string(),
    }
    assert tagged(stage)[1]["words"] == 5
    assert tagged(stage)[1]["share"] == 0.25
    assert tagged(stage)[1]["is_first"] is False
    assert field(stage, "label") == ["TICKETS", "TUTOR", None]


def test_a_field_that_is_there_keeps_its_type() -> None:
    schema = record_schema({"n": pa.int64()})
    assert Metadata({"n": "1"}).writes(schema) == {"metadata.n": pa.int64()}
    assert field(Metadata({"reasoning_trace": "source = 'tutor'"}), "reasoning_trace") == [False, True, None]
    for text, type_ in (("'many'", "string"), ("1.5::double", "double"), ("true", "bool")):
        with pytest.raises(UsageError, match=f"n is int64, its expression gives {type_}"):
            tagged(Metadata({"n": text}), schema)
    assert field(Metadata({"domain": "length(id)"}), "domain") == ["5"] * 3
    assert field(Metadata({"x": "7"}), "x", record_schema({"x": pa.float64()})) == [7.0] * 3


@pytest.mark.parametrize("text", ["[1, 2]", "messages", "metadata.turn_issues", "date '2024-01-01'"])
def test_a_value_that_is_no_tag_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="an expression gives"):
        tagged(Metadata({"x": text}))


def test_a_condition_must_be_one() -> None:
    with pytest.raises(UsageError, match="tag.metadata where gives string, not true or false"):
        tagged(Metadata({"x": "1"}, where="source"))


# --- the side file ------------------------------------------------------------------------------------------------


def csv_file(folder: Path, text: str) -> str:
    (folder / "labels.csv").write_bytes(text.encode())
    return str(folder / "labels.csv")


def test_a_join_fills_what_it_finds_and_keeps_the_rest(tmp_path: Path) -> None:
    path = csv_file(tmp_path, '\ufeffid,domain,team\r\ns/f#0,devops,red\r\n\r\ns/f#1,,"a, b"\r\nnobody,x,y\r\n')
    found = tagged(Metadata(join=path))
    assert [row["domain"] for row in found] == ["devops", None, None]
    assert [row["team"] for row in found] == ["red", "a, b", None]
    assert [row["source"] for row in found] == ["tickets", "tutor", None]


def test_a_join_on_a_metadata_field(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "domain,original_id\nmath,t2\n")
    assert field(Metadata(join=path, on="original_id"), "domain") == ["ops", "math", None]


def test_joined_text_becomes_the_type_of_the_field(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "id,reasoning_trace,n\ns/f#0,true,5\ns/f#1,false,\n")
    schema = record_schema({"n": pa.int64()})
    assert field(Metadata(join=path), "reasoning_trace", schema) == [True, False, None]
    assert field(Metadata(join=path), "n", schema) == [5, None, None]
    path = csv_file(tmp_path, "id,n\ns/f#0,many\n")
    with pytest.raises(CuratorError, match=r"labels\.csv: n: .*many"):
        tagged(Metadata(join=path), schema)


@pytest.mark.parametrize(
    ("text", "on", "message"),
    [
        ("id,domain\ns/f#0,a\ns/f#0,b\n", "id", "line 3: id 's/f#0' is there twice"),
        ("id,domain\ns/f#0,a,b\n", "id", "line 2: 3 fields, the header has 2"),
        ("ident,domain\nx,y\n", "id", "has no column id"),
        ("", "id", "has no column id"),
        ("team,domain\nx,y\n", "team", "records have no metadata.team"),
        ("id,turn_issues\nx,y\n", "id", "cannot set 'turn_issues'"),
        ("id,source\nx,y\n", "id", "cannot set"),
        ("id,a.b\nx,y\n", "id", "cannot set"),
        ("id,team,team\nx,y,z\n", "id", "two columns"),
    ],
)
def test_a_wrong_side_file_is_refused_before_any_work(tmp_path: Path, text: str, on: str, message: str) -> None:
    path = csv_file(tmp_path, text)
    with pytest.raises(CuratorError) as caught:
        tagged(Metadata(join=path, on=on))
    assert message in caught.value.message


def test_a_side_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_bytes(b"id,domain\ns/f#0,caf\xe9\n")
    with pytest.raises(CuratorError, match=r"labels\.csv: not text in UTF-8"):
        tagged(Metadata(join=str(tmp_path / "labels.csv")))


def test_a_missing_side_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CuratorError, match="nothing.csv: no such file"):
        Metadata(join=str(tmp_path / "nothing.csv")).describe()


def test_the_content_of_the_side_file_is_what_counts(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "id,domain\ns/f#0,a\n")
    (tmp_path / "moved.csv").write_bytes((tmp_path / "labels.csv").read_bytes())
    first = Metadata(join=path).describe()
    assert Metadata(join=str(tmp_path / "moved.csv")).describe() == first
    csv_file(tmp_path, "id,domain\ns/f#0,b\n")
    assert Metadata(join=path).describe() != first


def test_sample_labels_find_the_rows_that_the_truth_names(tmp_path: Path, sample_data: Path) -> None:
    import json

    from record_samples import ingested

    truth = json.loads((sample_data / "truth.json").read_text(encoding="utf-8"))["labels"]
    ingested(sample_data / truth["file"], tmp_path / "raw")
    stage = Metadata(join=str(sample_data / "tickets_labels.csv"), on="original_id")
    text = (sample_data / "tickets_labels.csv").read_text().splitlines()
    (tmp_path / "labels.csv").write_text("\n".join(["original_id,domain", *text[1:]]) + "\n")
    stage = Metadata(join=str(tmp_path / "labels.csv"), on="original_id")
    rows = rows_of(passed(stage, tmp_path / "raw", tmp_path / "out"))
    assert len(rows) == 121
    assert sum(row["metadata"]["domain"] is not None for row in rows) == truth["matched"]


def test_rows_of_an_empty_folder(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "d", [])
    assert rows_of(passed(Metadata({"team": "'x'"}), folder, tmp_path / "out")) == []
