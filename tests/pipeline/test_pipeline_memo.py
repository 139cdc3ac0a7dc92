"""The memo: results by content, whole files only, the same with and without."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from record_samples import batch_of, message, record

from curator.errors import CuratorError
from curator.pipeline.apply import Chain
from curator.pipeline.memo import memo_folder
from curator.schema.record import RECORD_SCHEMA, score_array, score_type
from curator.stages.base import RowFunction, RowStage

CALLS: list[list[str]] = []
FAILING: set[str] = set()


@dataclass(frozen=True)
class Length(RowStage):
    """Costly: the length of the conversation."""

    name: ClassVar[str] = "test.length"
    costly: ClassVar[bool] = True
    factor: int = 1

    def reads(self, schema: pa.Schema) -> list[str]:
        return ["messages"]

    def writes(self, schema: pa.Schema) -> Mapping[str, pa.DataType]:
        return {"scores.length": score_type(pa.int64())}

    def open(self) -> RowFunction:
        def measure(batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
            if batch.num_rows:
                CALLS.append(batch.column("id").to_pylist())
                if FAILING & {*CALLS[-1]}:
                    raise CuratorError("the tagger is away")
            lengths = [
                self.factor * sum(len(turn["content"] or "") for turn in messages or ())
                for messages in batch.column("messages").to_pylist()
            ]
            return {"scores.length": score_array(pa.array(lengths, pa.int64()), "length@1")}

        return measure


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()
    FAILING.clear()


ROWS = [record(f"s/f#{n}", "q" * n, "a") for n in range(8)]


def lengths(memo: Path | None, rows: list[dict[str, Any]], factor: int = 1, cut: int = 99) -> list[int]:
    chain = Chain([Length(factor)], RECORD_SCHEMA, memo)
    batch = batch_of(rows)
    parts = [chain(batch.slice(0, cut))[0], chain(batch.slice(cut))[0]]
    return [row["scores"]["length"]["value"] for part in parts for row in part.to_pylist()]


def test_a_known_record_is_not_measured_again(tmp_path: Path) -> None:
    expected = [n + 1 for n in range(8)]
    assert lengths(tmp_path, ROWS[:5]) == expected[:5]
    assert lengths(tmp_path, ROWS) == expected
    assert [name for call in CALLS for name in call] == [row["id"] for row in ROWS]
    CALLS.clear()
    assert lengths(tmp_path, ROWS[::-1], cut=3) == expected[::-1]
    assert CALLS == []


def test_records_of_equal_content_share_a_result(tmp_path: Path) -> None:
    rows = [record(f"s/f#{n}", "same", "a", metadata={"source": str(n)}) for n in range(4)]
    assert lengths(tmp_path, rows) == [5] * 4
    assert lengths(tmp_path, [record("t/f#9", "same", "a")]) == [5]
    assert sum(map(len, CALLS)) <= 4
    assert len(CALLS) == 1


def test_settings_have_a_folder_each(tmp_path: Path) -> None:
    assert lengths(tmp_path, ROWS) != lengths(tmp_path, ROWS, factor=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        memo_folder(tmp_path, Length(factor)).name for factor in (1, 2)
    )
    assert memo_folder(tmp_path, Length()).name.startswith("test.length-")


def test_sliced_and_empty_batches(tmp_path: Path) -> None:
    for cut in range(9):
        assert lengths(tmp_path, ROWS, cut=cut) == [n + 1 for n in range(8)]


def test_weights_and_marks_of_traces_are_part_of_the_key(tmp_path: Path) -> None:
    answers = [
        message("assistant", "a", reasoning="r"),
        message("assistant", "a", reasoning="r", weight=0.5),
        message("assistant", "a", reasoning="r", wrap={"open": "<think>", "close": "</think>"}),
        message("assistant", "a", reasoning="r", wrap={"open": "<think>\n", "close": "</think>"}),
    ]
    lengths(tmp_path, [record(f"s/f#{n}", "q", answer) for n, answer in enumerate(answers)])
    lengths(tmp_path, [record(f"t/f#{n}", "q", answer) for n, answer in enumerate(answers)])
    assert list(CALLS) == [[f"s/f#{n}" for n in range(4)]]


def test_b146_a_call_that_failed_is_no_result(tmp_path: Path) -> None:
    """What was measured before the failure is known afterwards; what failed is measured again."""
    FAILING.update({"s/f#3", "s/f#7"})
    with pytest.raises(CuratorError, match="the tagger is away"):
        lengths(tmp_path, ROWS, cut=3)
    FAILING.clear()
    CALLS.clear()
    assert lengths(tmp_path, ROWS, cut=3) == [n + 1 for n in range(8)]
    assert list(CALLS) == [[f"s/f#{n}" for n in range(3, 8)]]
    assert lengths(tmp_path, ROWS) == [n + 1 for n in range(8)] and len(CALLS) == 1


def test_without_a_memo_nothing_is_kept(tmp_path: Path) -> None:
    lengths(None, ROWS)
    lengths(None, ROWS)
    assert sum(map(len, CALLS)) == 16
    assert list(tmp_path.iterdir()) == []
