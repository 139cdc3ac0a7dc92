"""What a stage gives is put in place: edited content gets a new hash, dropped rows leave after each step."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from record_samples import batch_of, message, record

from curator.io.build import message_lists
from curator.pipeline.apply import Chain, output_schema
from curator.schema.record import DROP_TYPE, MESSAGE_TYPE, RECORD_SCHEMA, content_hashes, drop_array
from curator.stages.base import RowFunction, RowStage
from curator.stages.filter.where import Where
from curator.stages.tag.signals import Signals


@dataclass(frozen=True)
class Shout(RowStage):
    """Edits content: the answers of some records in capitals."""

    name: ClassVar[str] = "test.shout"

    def reads(self, schema: pa.Schema) -> list[str]:
        return ["messages"]

    def writes(self, schema: pa.Schema) -> Mapping[str, pa.DataType]:
        return {"messages": pa.list_(MESSAGE_TYPE)}

    def open(self) -> RowFunction:
        from curator.io.adapters.base import Message

        def edit(batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
            lists = [
                [Message(turn["role"], turn["content"].upper()) for turn in messages]
                for messages in batch.column("messages").to_pylist()
            ]
            return {"messages": message_lists(lists)}

        return edit


@dataclass(frozen=True)
class DropEvery(RowStage):
    """Drops the rows whose id ends with a digit."""

    name: ClassVar[str] = "test.drop"
    decides: ClassVar[bool] = True
    digit: str = "0"

    def reads(self, schema: pa.Schema) -> list[str]:
        return ["id"]

    def writes(self, schema: pa.Schema) -> Mapping[str, pa.DataType]:
        return {"drop": DROP_TYPE}

    def open(self) -> RowFunction:
        def decide(batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
            return {
                "drop": drop_array(pc.ends_with(batch.column("id"), self.digit), self.name, f"ends with {self.digit}")
            }

        return decide


def test_edited_content_has_a_new_hash_and_says_who_edited_it() -> None:
    rows = [record("a", "hi", "hello"), record("b", "HI", "HELLO")]
    before = batch_of(rows)
    after, dropped = Chain([Shout()], RECORD_SCHEMA)(before)
    assert dropped == []
    assert after.schema.equals(RECORD_SCHEMA)
    assert after.column("content_hash").equals(content_hashes(after))
    assert after.column("content_hash")[0] != before.column("content_hash")[0]
    assert after.column("content_hash")[1] == before.column("content_hash")[1]
    assert [row["provenance"]["edited_by"] for row in after.to_pylist()] == ["test.shout", None]


def test_rows_leave_after_the_step_that_dropped_them() -> None:
    rows = [record(f"s/f#{n}", "q", "a") for n in range(30)]
    kept, dropped = Chain([DropEvery("1"), DropEvery("2"), DropEvery("1")], RECORD_SCHEMA)(batch_of(rows))
    assert kept.column("id").to_pylist() == [f"s/f#{n}" for n in range(30) if n % 10 not in (1, 2)]
    # In the order of the rows, whichever step dropped them.
    assert [[(row["id"], row["drop"]["rule"]) for row in part.to_pylist()] for part in dropped] == [
        [(f"s/f#{n}", f"ends with {n % 10}") for n in (1, 2, 11, 12, 21, 22)]
    ]


def test_kept_and_dropped_have_the_schema_of_the_whole_chain() -> None:
    chain = Chain([DropEvery(), Signals()], RECORD_SCHEMA)
    kept, (dropped,) = chain(batch_of([record("s#0", "q"), record("s#1", "q", message("assistant", None))]))
    assert kept.schema.equals(dropped.schema)
    assert kept.schema.equals(chain.schema)
    assert set((dropped.column("scores").to_pylist()[0] or {}).values()) <= {None}
    assert output_schema(RECORD_SCHEMA, [DropEvery(), Signals()]).equals(chain.schema)


def test_a_step_sees_what_the_steps_before_it_wrote() -> None:
    rows: list[dict[str, Any]] = [record("s#0", "q", "one two"), record("s#1", "q", "one")]
    kept, dropped = Chain([Signals(), Where("scores.num_response_words.value > 1")], RECORD_SCHEMA)(batch_of(rows))
    assert kept.column("id").to_pylist() == ["s#0"]
    assert dropped[0].to_pylist()[0]["drop"]["value"] == 1.0
