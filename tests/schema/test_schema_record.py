"""The record: its columns, content hash, digests of ids, and how schemas and batches meet."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from record_samples import HOLLOW, batch_of, message, record

from curator.errors import CuratorError
from curator.io.adapters.base import Message
from curator.schema.record import (
    CONTENT_COLUMNS,
    DEDUP_TYPE,
    MESSAGE_TYPE,
    RECORD_SCHEMA,
    add_digests,
    cast_array,
    cast_batch,
    column_array,
    column_type,
    content_hash,
    content_hashes,
    drop_array,
    extend_schema,
    field_names,
    filled_fields,
    filter_batch,
    has_column,
    id_sort_keys,
    ids_digest,
    prune_schema,
    record_schema,
    row_bytes,
    schema_from_json,
    schema_to_json,
    score_array,
    score_type,
    set_columns,
    unify_schemas,
)

_MESSAGE = {
    "role": "string",
    "content": "string",
    "reasoning": "string",
    "tool_calls": "string",
    "tool_call_id": "string",
    "name": "string",
    "wrap": {"open": "string", "close": "string"},
    "weight": "float",
    "images": [{"sha256": "string", "mime": "string", "offset": "int64"}],
}


def test_record_schema_is_the_one_of_the_design() -> None:
    assert schema_to_json(RECORD_SCHEMA) == {
        "id": "string",
        "content_hash": "fixed_size_binary[16]",
        "kind": "string",
        "group": "string",
        "messages": [_MESSAGE],
        "tools": "string",
        "rejected": [_MESSAGE],
        "verifier": {"kind": "string", "payload": "string"},
        "metadata": {
            "source": "string",
            "domain": "string",
            "task_type": "string",
            "difficulty": "string",
            "language": "string",
            "reasoning_trace": "bool",
            "license": "string",
            "teacher": "string",
            "split": "string",
            "original_id": "string",
            "turn_issues": ["string"],
        },
        "dedup": {"of": "string", "similarity": "double", "component": "string", "component_size": "int64"},
        "loss_weight": "float",
        "drop": {
            "step": "string",
            "rule": "string",
            "value": "double",
            "threshold": "double",
            "keeper": "string",
            "detail": "string",
        },
        "extra": "string",
        "provenance": {
            "file": "string",
            "row": "int64",
            "byte_offset": "int64",
            "adapter": "string",
            "generation": "int32",
            "form": "string",
            "edited_by": "string",
        },
    }


# --- content hash -----------------------------------------------------------------------------------------------


def hashed(*messages: Message, **rest: object) -> str:
    return content_hash(messages, **rest).hex()  # type: ignore[arg-type]


HELLO = (Message("user", "Hi"), Message("assistant", "Hello."))


def test_content_hash_is_xxh3_over_tags_lengths_and_bytes() -> None:
    encoded = b"curator-content-1Mr4:userc2:HiMr9:assistantc6:Hello."
    assert hashed(*HELLO) == xxhash.xxh3_128_hexdigest(encoded)


def test_content_hash_stays_what_it_was() -> None:
    assert hashed(*HELLO) == "112ece836afe095b626556de6ab3dfa3"
    full = Message(
        "assistant",
        "é",
        reasoning="r",
        tool_calls="[]",
        tool_call_id="1",
        name="n",
        images=[{"sha256": "ab", "mime": "image/png", "offset": 0}],
    )
    assert (
        hashed(full, tools="[]", rejected=[Message("assistant", "no")], verifier=("exact", "{}"))
        == "d644ca57e0576eba0b8929eefbdae8f8"
    )


@pytest.mark.parametrize("field", ["content", "reasoning", "tool_calls", "tool_call_id", "name"])
def test_null_empty_and_text_hash_apart(field: str) -> None:
    hashes = {hashed(Message("user", **{field: value})) for value in (None, "", "x")}
    assert len(hashes) == 3


def test_every_place_of_a_text_has_its_own_hash() -> None:
    fields = ["content", "reasoning", "tool_calls", "tool_call_id", "name"]
    hashes = {hashed(Message("user", **{field: "x"})) for field in fields}
    hashes |= {hashed(Message("x")), hashed(Message("user"), tools="x")}
    hashes |= {hashed(Message("user"), rejected=[Message("x")]), hashed(Message("user"), verifier=("x", ""))}
    hashes |= {hashed(Message("user", images=[{"sha256": "x"}]))}
    assert len(hashes) == len(fields) + 5


def test_texts_cannot_move_between_fields_or_turns() -> None:
    hashes = {
        hashed(Message("user", "ab"), Message("user", "c")),
        hashed(Message("user", "a"), Message("user", "bc")),
        hashed(Message("user", "abc")),
        hashed(Message("user", "a"), Message("user", "b"), Message("user", "c")),
        hashed(Message("user", "ac1:b")),
        hashed(Message("user", "a", reasoning="b")),
        hashed(Message("user", "at1:b")),
    }
    assert len(hashes) == 7


def test_order_of_turns_counts() -> None:
    assert hashed(*HELLO) != hashed(*reversed(HELLO))


def test_null_and_empty_lists_of_rejected_turns_hash_apart() -> None:
    assert len({hashed(*HELLO), hashed(*HELLO, rejected=[]), hashed(*HELLO, rejected=[Message("user")])}) == 3
    assert hashed(*HELLO, rejected=[Message("user", "x")]) != hashed(*HELLO, Message("user", "x"))


def test_weights_marks_and_metadata_do_not_change_the_hash() -> None:
    plain = record("a", "Hi", "Hello.")
    other = {
        **record("b", "Hi", message("assistant", "Hello.", weight=0.0, wrap={"open": "<", "close": ">"})),
        "metadata": {"source": "t", "domain": "code"},
        "loss_weight": 3.0,
        "extra": "{}",
        "kind": "feedback",
    }
    batch = batch_of([plain, other])
    assert batch.column("content_hash")[0].as_py() == batch.column("content_hash")[1].as_py()
    assert batch.column("content_hash")[0].as_py().hex() == hashed(*HELLO)


def test_a_batch_hashes_as_its_rows_do_even_when_sliced() -> None:
    rows = [
        record("a", "Hi", "Hello.", tools="[]"),
        record("b", "x", "y", rejected=[message("assistant", None, reasoning="r")]),
        record("c", "x", "y", verifier={"kind": "exact", "payload": "{}"}),
        {**record("d"), "messages": None},
    ]
    expected = [
        hashed(*HELLO, tools="[]"),
        hashed(Message("user", "x"), Message("assistant", "y"), rejected=[Message("assistant", reasoning="r")]),
        hashed(Message("user", "x"), Message("assistant", "y"), verifier=("exact", "{}")),
        hashed(),
    ]
    batch = batch_of(rows)
    assert [value.hex() for value in content_hashes(batch).to_pylist()] == expected
    assert [value.hex() for value in content_hashes(batch.slice(1, 2)).to_pylist()] == expected[1:3]


_TEXT = st.none() | st.text(max_size=6)
_MESSAGES = st.lists(
    st.builds(Message, st.sampled_from(["user", "assistant"]), _TEXT, _TEXT, _TEXT, _TEXT, _TEXT), max_size=3
)


@settings(max_examples=60, deadline=None)
@given(_MESSAGES, _MESSAGES)
def test_hashes_are_equal_exactly_when_the_content_is(left: list[Message], right: list[Message]) -> None:
    assert (hashed(*left) == hashed(*right)) == (left == right)


# --- ids ---------------------------------------------------------------------------------------------------------


def test_id_digests_add_up_in_any_order() -> None:
    ids = [f"s/f#{row}" for row in range(50)]
    assert ids_digest(ids) == ids_digest(reversed(ids))
    assert add_digests(ids_digest(ids[:20]), ids_digest(ids[20:])) == ids_digest(ids)
    assert ids_digest([]) == 0


def test_one_lost_and_one_doubled_id_do_not_cancel() -> None:
    assert ids_digest(["a", "b", "c"]) != ids_digest(["a", "b", "b"])
    assert ids_digest(["a", "a"]) != 0
    assert ids_digest(["a", "a", "b"]) != ids_digest(["b"])
    assert 0 <= ids_digest(str(i) for i in range(1000)) < 1 << 128


def test_the_digest_is_the_sum_of_the_hashes_modulo_2_to_the_128() -> None:
    ids = [f"s/f#{row}" for row in range(5_000)]
    expected = sum(xxhash.xxh3_128_intdigest(name.encode()) for name in ids) % (1 << 128)
    assert ids_digest(pa.array(ids)) == ids_digest(pa.chunked_array([ids[:7], ids[7:]])) == ids_digest(ids) == expected


def test_ids_sort_by_row_number() -> None:
    ids = pa.array(["s/a#10", "s/a#2", "s/b#1", "s/a#x", "s/a#3.1", "no mark", "s/#5/f#7"])
    prefixes, numbers = id_sort_keys(ids)
    assert prefixes.to_pylist() == ["s/a", "s/a", "s/b", "s/a", "s/a", "no mark", "s/#5/f"]
    assert numbers.to_pylist() == [10, 2, 1, 0, 3, 0, 7]


# --- schemas -----------------------------------------------------------------------------------------------------


def test_schema_survives_json() -> None:
    schema = record_schema(
        {"team": pa.string(), "n": pa.int64(), "x": pa.float64(), "b": pa.bool_()},
        {"quality": pa.float64(), "is_refusal": pa.bool_(), "language": pa.string()},
    )
    assert schema_from_json(schema_to_json(schema)).equals(schema)


def test_extend_adds_scores_behind_metadata_and_fields_at_the_end_of_their_struct() -> None:
    schema = extend_schema(RECORD_SCHEMA, {"scores.n": score_type(pa.int64()), "metadata.team": pa.string()})
    names = schema.names
    assert names.index("scores") == names.index("metadata") + 1
    assert schema.field("metadata").type[-1] == pa.field("team", pa.string())
    assert schema.field("scores").type == pa.struct([("n", score_type(pa.int64()))])
    assert extend_schema(schema, {"scores.n": score_type(pa.int64()), "drop": pa.null()}).equals(schema)


def test_extend_refuses_another_type_and_unknown_columns() -> None:
    schema = extend_schema(RECORD_SCHEMA, {"scores.n": score_type(pa.int64())})
    with pytest.raises(CuratorError, match=r"scores\.n is struct<value: int64.* and struct<value: double"):
        extend_schema(schema, {"scores.n": score_type(pa.float64())})
    with pytest.raises(ValueError, match="a record has no column nothing"):
        extend_schema(schema, {"nothing": pa.string()})
    with pytest.raises(ValueError, match="only one level"):
        extend_schema(schema, {"metadata.a.b": pa.string()})


def test_union_of_schemas_keeps_the_order_of_first_appearance() -> None:
    left = record_schema({"a": pa.string()}, {"x": pa.int64()})
    right = record_schema({"b": pa.string(), "a": pa.string()}, {"y": pa.float64()})
    union = unify_schemas([left, right], ["left", "right"])
    assert [field.name for field in union.field("metadata").type][-2:] == ["a", "b"]
    assert [field.name for field in union.field("scores").type] == ["x", "y"]
    assert unify_schemas([RECORD_SCHEMA, left], ["plain", "left"]).names == left.names


def test_union_names_the_column_and_the_folder_that_differ() -> None:
    left, right = record_schema({"n": pa.int64()}), record_schema({"n": pa.string()})
    with pytest.raises(CuratorError) as caught:
        unify_schemas([RECORD_SCHEMA, left, right], ["d/a", "d/b", "d/c"])
    assert caught.value.message == "d/c: column metadata.n is string, but int64 in the folders before it"


def test_cast_fills_missing_fields_with_nulls() -> None:
    wide = record_schema({"team": pa.string()}, {"q": pa.float64()})
    batch = batch_of([record("a", "Hi", "Hello.", metadata=None), record("b", "x", "y")])
    cast = cast_batch(batch, wide)
    assert cast.schema.equals(wide)
    assert column_array(cast, "metadata.team").to_pylist() == [None, None]
    assert cast.column("metadata").is_null().to_pylist() == [True, False]
    assert cast.column("scores").to_pylist() == [None, None]
    assert cast.column("messages").to_pylist() == batch.column("messages").to_pylist()


def test_cast_reads_by_name_and_never_by_place() -> None:
    shuffled = pa.schema(list(reversed(list(RECORD_SCHEMA))), metadata={b"pandas": b"{}"})
    batch = batch_of([record("a", "Hi", "Hello.")])
    moved = pa.RecordBatch.from_arrays([batch.column(name) for name in shuffled.names], schema=shuffled)
    assert cast_batch(moved, RECORD_SCHEMA).equals(batch)


def test_cast_takes_text_in_any_physical_form() -> None:
    for array in (pa.array(["a", None], pa.large_string()), pa.array(["a", None]).dictionary_encode()):
        assert cast_array(array, pa.string()).equals(pa.array(["a", None]))


def test_cast_never_loses_a_field() -> None:
    struct = pa.array([{"a": 1, "b": 2}])
    with pytest.raises(ValueError, match=r"lose \['b'\]"):
        cast_array(struct, pa.struct([("a", pa.int64())]))


def test_cast_of_sliced_lists_with_nulls_and_empties() -> None:
    narrow = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    rows = [[{"role": "a", "content": "1"}], None, [], [{"role": "b", "content": None}, None]]
    array = pa.array(rows, narrow)
    wide = [None if row is None else [None if m is None else {**_NULLS, **m} for m in row] for row in rows]
    for start in range(len(rows)):
        for stop in range(start, len(rows) + 1):
            cast = cast_array(array.slice(start, stop - start), pa.list_(MESSAGE_TYPE))
            assert cast.to_pylist() == wide[start:stop]


_NULLS = {field.name: None for field in MESSAGE_TYPE}


def test_set_columns_replaces_adds_and_keeps_on_a_sliced_batch() -> None:
    schema = extend_schema(RECORD_SCHEMA, {"scores.n": score_type(pa.int64()), "metadata.team": pa.string()})
    rows = [record(str(i), "q", "a", metadata=None if i == 1 else {"source": f"s{i}"}) for i in range(5)]
    batch = batch_of(rows).slice(1, 3)
    scores = score_array(pa.array([1, 2, 3]), "t@1")
    edited = set_columns(batch, {"scores.n": scores, "metadata.domain": pa.array(["x", None, "z"])}, schema)
    assert edited.schema.equals(schema)
    assert edited.column("id").to_pylist() == ["1", "2", "3"]
    assert column_array(edited, "scores.n").to_pylist() == [
        {"value": n, "status": "ok", "by": "t@1"} for n in (1, 2, 3)
    ]
    assert column_array(edited, "metadata.source").to_pylist() == [None, "s2", "s3"]
    assert column_array(edited, "metadata.domain").to_pylist() == ["x", None, "z"]
    assert column_array(edited, "metadata.team").to_pylist() == [None] * 3
    assert edited.column("messages").equals(batch.column("messages"))


def test_drop_is_null_where_a_row_stays() -> None:
    drop = drop_array(pa.array([True, False]), "s", "r", pa.array([1, 2]), 0.5, pa.array(["k", "l"]), "why")
    assert drop.to_pylist() == [
        {"step": "s", "rule": "r", "value": 1.0, "threshold": 0.5, "keeper": "k", "detail": "why"},
        None,
    ]


def test_columns_are_found_by_dotted_path() -> None:
    assert column_type(RECORD_SCHEMA, "dedup.similarity") == pa.float64()
    assert column_type(RECORD_SCHEMA, "dedup") == DEDUP_TYPE
    assert not has_column(RECORD_SCHEMA, "dedup.nothing")
    assert not has_column(RECORD_SCHEMA, "messages.role")
    assert not has_column(RECORD_SCHEMA, "id.x")
    assert "messages" in field_names(RECORD_SCHEMA)
    assert "metadata.turn_issues" in field_names(RECORD_SCHEMA)


def test_pruning_keeps_schema_order_and_whole_structs() -> None:
    pruned = prune_schema(RECORD_SCHEMA, ["metadata.domain", "id", "metadata.source", "dedup"])
    assert pruned.names == ["id", "metadata", "dedup"]
    assert [field.name for field in pruned.field("metadata").type] == ["source", "domain"]
    assert pruned.field("dedup").type == DEDUP_TYPE
    assert prune_schema(RECORD_SCHEMA, ["metadata.domain", "metadata"]).field("metadata").type == (
        RECORD_SCHEMA.field("metadata").type
    )


def test_filled_fields_look_into_lists_and_structs() -> None:
    rows = [
        record("a", "Hi", message("assistant", None, reasoning="r")),
        record("b", metadata={"source": None, "turn_issues": []}),
    ]
    assert filled_fields(batch_of(rows)) == {
        "id",
        "content_hash",
        "kind",
        "messages",
        "messages.role",
        "messages.content",
        "messages.reasoning",
        "metadata.source",
        "metadata.turn_issues",
    }
    assert filled_fields(batch_of(rows).slice(1)) == {
        "id",
        "content_hash",
        "kind",
        "messages",
        "metadata.turn_issues",
    }


def test_row_bytes_count_utf8_of_all_long_texts() -> None:
    rows = [
        record("a", "é", "b", tools="[1]", extra="{}"),
        record("b", message("assistant", None, reasoning="rrr", tool_calls="[]"), rejected=[message("user", "xx")]),
        {**record("c"), "messages": None},
        record("d"),
    ]
    batch = batch_of(rows)
    assert row_bytes(batch).tolist() == [2 + 1 + 3 + 2, 3 + 2 + 2, 0, 0]
    assert row_bytes(batch.slice(1, 2)).tolist() == [7, 0]
    assert row_bytes(batch).dtype == np.int64


_HOLLOW_ROWS = st.lists(st.fixed_dictionaries({name: st.sampled_from(values) for name, values in HOLLOW.items()}))


@settings(max_examples=100, deadline=None)
@given(_HOLLOW_ROWS, st.lists(st.booleans(), min_size=3, max_size=3), st.data())
def test_filtered_batches_are_those_of_arrow(rows: list[dict[str, Any]], full: list[bool], data: st.DataObject) -> None:
    records = [{"id": str(number), **row} for number, row in enumerate(rows)]
    samples = [record("x", "a", "b"), record("y", message("user", None, images=[{"mime": "m"}, None])), record("z")]
    records += [sample for sample, is_there in zip(samples, full, strict=True) if is_there]
    batch = pa.RecordBatch.from_pylist(records, RECORD_SCHEMA)
    batch = batch.slice(data.draw(st.integers(0, batch.num_rows)))
    kept = pa.array(data.draw(st.lists(st.booleans(), min_size=batch.num_rows, max_size=batch.num_rows)), pa.bool_())
    filtered = filter_batch(batch, kept)
    filtered.validate(full=True)
    assert filtered.equals(batch.filter(kept), check_metadata=True)


def test_content_columns_are_columns() -> None:
    assert set(CONTENT_COLUMNS) <= set(RECORD_SCHEMA.names)
