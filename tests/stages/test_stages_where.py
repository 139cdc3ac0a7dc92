"""filter.where: what is dropped says why, and unknown is a case of its own."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from record_samples import passed, record, rejects_of, through, write_dataset

from curator.errors import CuratorError, UsageError
from curator.schema.record import record_schema
from curator.stages.filter.where import Where

SCHEMA = record_schema(None, {"quality": pa.float64()})


def scored(record_id: str, value: float | None) -> dict[str, Any]:
    score = {"value": value, "status": "ok" if value is not None else "too_short", "by": "t@1"}
    return record(record_id, "q", "a", scores={"quality": score})


ROWS = [scored("high", 0.9), scored("low", 0.25), scored("none", None), scored("nan", math.nan)]


def filtered(**settings: Any) -> tuple[list[str], dict[str, Any]]:
    kept, dropped = through(Where(**settings), ROWS, SCHEMA)
    return [row["id"] for row in kept], {row["id"]: row["drop"] for row in dropped}


TEXT = "scores.quality.value >= 0.5"


def test_dropped_rows_say_which_value_failed() -> None:
    kept, dropped = filtered(expression=TEXT)
    assert kept == ["high"]
    usual = {"step": "filter.where", "threshold": None, "keeper": None, "detail": TEXT}
    assert dropped["low"] == {**usual, "rule": "where", "value": 0.25}
    assert dropped["none"] == {**usual, "rule": "unknown", "value": None}
    assert dropped["nan"]["rule"] == "unknown"


def test_unknown_rows_may_stay() -> None:
    kept, dropped = filtered(expression=TEXT, null="keep")
    assert kept == ["high", "none", "nan"]
    assert {name: drop["rule"] for name, drop in dropped.items()} == {"low": "where"}


def test_unknown_rows_may_be_an_error_that_names_one() -> None:
    with pytest.raises(CuratorError, match="filter.where is unknown for none: a column it reads is null"):
        filtered(expression=TEXT, null="error")


def test_no_value_is_shown_when_more_than_one_number_was_read() -> None:
    _, dropped = filtered(expression="scores.quality.value >= 0.5 and id <> 'x'")
    assert dropped["low"]["value"] is None
    _, dropped = filtered(expression="id = 'high'")
    assert dropped["low"]["value"] is None


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("scores.quality.value", "filter.where gives double, not true or false"),
        ("scores.fluency.value > 1", "filter.where: no column scores.fluency.value"),
        ("1 +", "filter.where does not parse"),
        ("read_text('x') = ''", "filter.where calls read_text"),
    ],
)
def test_a_wrong_expression_stops_before_any_work(tmp_path: Path, expression: str, message: str) -> None:
    folder = write_dataset(tmp_path / "d", ROWS, SCHEMA)
    with pytest.raises(UsageError) as caught:
        passed(Where(expression), folder, tmp_path / "out")
    assert caught.value.message.startswith(message)
    assert not (tmp_path / "out").exists()


def test_everything_may_go(tmp_path: Path) -> None:
    folder = passed(Where("false"), write_dataset(tmp_path / "d", ROWS, SCHEMA), tmp_path / "out")
    assert sorted(rejects_of(folder)) == ["high", "low", "nan", "none"]
    again = passed(Where("true"), folder, tmp_path / "again")
    assert rejects_of(again) == {}
