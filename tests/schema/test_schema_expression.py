"""Expressions: pure conditions over one record pass, everything that reaches further is refused."""

import math
from typing import Any

import pyarrow as pa
import pytest
from record_samples import batch_of, message, record

from curator.errors import UsageError
from curator.schema.expression import FUNCTIONS, Expression
from curator.schema.record import record_schema

SCHEMA = record_schema(
    {"team": pa.string(), "n": pa.int64(), "x": pa.float64()}, {"quality": pa.float64(), "is_refusal": pa.bool_()}
)


def score(value: Any) -> dict[str, Any]:
    return {"value": value, "status": "ok", "by": "t@1"}


BATCH = batch_of(
    [
        record(
            "s/f#0",
            "Hi there",
            "Hello.",
            metadata={"source": "a", "language": "en", "team": "red", "n": 3, "x": 0.5, "turn_issues": ["odd"]},
            scores={"quality": score(0.9), "is_refusal": score(True)},
        ),
        record(
            "s/f#1",
            "q",
            "a",
            metadata={"source": "b", "x": math.nan, "n": 0, "turn_issues": []},
            scores={"quality": score(math.nan), "is_refusal": score(False)},
        ),
        record("s/f#2", message("user", "only"), metadata=None, scores={"quality": None}),
    ],
    SCHEMA,
)


def values(text: str) -> list[Any]:
    return Expression(text, SCHEMA).evaluate(BATCH).to_pylist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("metadata.language = 'en'", [True, None, None]),
        ("language = 'en'", [True, None, None]),
        ("team = 'red' and n > 2", [True, False, None]),
        ("scores.quality.value >= 0.5", [True, None, None]),
        ("not scores.is_refusal.value", [False, True, None]),
        ("id in ('s/f#0', 's/f#2')", [True, False, True]),
        ("language is null", [False, True, True]),
        ("language is not null or source = 'b'", [True, True, None]),
        ("language is distinct from 'en'", [False, True, True]),
        ("n between 1 and 5", [True, False, None]),
        ("case when n > 1 then 'many' when n = 0 then 'none' else 'unknown' end", ["many", "none", "unknown"]),
        ("cast(n as varchar) || '!'", ["3!", "0!", None]),
        ("n::double / 2", [1.5, 0.0, None]),
        ("try_cast(team as int) is null", [True, True, True]),
        ("coalesce(language, 'unknown')", ["en", "unknown", "unknown"]),
        ("if(n > 1, 2, 1)", [2, 1, 1]),
        ("upper(team) = 'RED'", [True, None, None]),
        ("source like 'a%'", [True, False, None]),
        ("source ilike 'A'", [True, False, None]),
        ("source not like 'a%'", [False, True, None]),
        ("source similar to '[ab]'", [True, True, None]),
        ("regexp_matches(id, '#[01]$')", [True, True, False]),
        ("starts_with(id, 's/') and length(id) = 5", [True, True, True]),
        ("len(messages)", [2, 2, 1]),
        ("messages[1].content", ["Hi there", "q", "only"]),
        ("messages[-1].role = 'assistant'", [True, True, False]),
        ("'odd' in metadata.turn_issues", [True, False, None]),
        ("list_contains(turn_issues, 'odd')", [True, False, None]),
        ("drop is null", [True, True, True]),
        ('"group" is null', [True, True, True]),
        ("struct_extract(metadata, 'team')", ["red", None, None]),
        ("n // 2 + n % 2 - 1", [1, -1, None]),
        ("n / 0", [None, None, None]),
        ("1 -- the rest is a comment", [1, 1, 1]),
        ("true", [True, True, True]),
        ("null", [None, None, None]),
        ("kind = 'it''s'", [False, False, False]),
        ("sqrt(abs(n - 7))", [2.0, math.sqrt(7), None]),
    ],
)
def test_allowed_forms(text: str, expected: list[Any]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "metadata.x < 1",
        "metadata.x > 1",
        "metadata.x = metadata.x",
        "struct_extract(metadata, 'x') > 0.1",
        "scores.quality.value > 0.5",
        "struct_extract(scores.quality, 'value') > 0.5",
        "struct_extract(struct_extract(scores, 'quality'), 'value') > 0.5",
    ],
)
def test_nan_compares_as_null(text: str) -> None:
    assert values(text)[1] is None
    assert values(text.replace("> 1", "> 0.1"))[0] is True


def test_nan_inside_a_list_of_structs_is_null() -> None:
    schema = pa.schema([("id", pa.string()), ("spans", pa.list_(pa.struct([("score", pa.float64())])))])
    rows = [{"id": "a", "spans": [{"score": math.nan}, {"score": 1.0}]}, {"id": "b", "spans": None}]
    batch = pa.RecordBatch.from_pylist([*rows, {"id": "c", "spans": []}], schema)
    expression = Expression("spans[1].score > 0", schema)
    assert expression.evaluate(batch).to_pylist() == [None, None, None]
    assert expression.evaluate(batch.slice(1)).to_pylist() == [None, None]
    assert Expression("spans[2].score > 0", schema).evaluate(batch).to_pylist() == [True, None, None]


def test_a_null_struct_reads_as_null_not_as_an_error() -> None:
    assert values("metadata.team is null") == [False, True, True]
    assert values("metadata is null") == [False, False, True]


def test_the_columns_an_expression_reads_are_known() -> None:
    expression = Expression("language = 'en' and scores.quality.value > 0 and metadata.team = team", SCHEMA)
    assert expression.columns == ["metadata.language", "metadata.team", "scores.quality.value"]
    assert Expression("1 + 1", SCHEMA).columns == []


def test_sliced_batches_and_columns_without_the_rest() -> None:
    expression = Expression("n", SCHEMA)
    assert expression.evaluate(BATCH.slice(1, 2)).to_pylist() == [0, None]
    assert expression.evaluate(BATCH.slice(0, 0)).to_pylist() == []
    assert Expression("7", SCHEMA).evaluate(BATCH.slice(1, 1)).to_pylist() == [7]


# --- refusals ----------------------------------------------------------------------------------------------------

FORBIDDEN = {
    "a subquery": ["(select 1)", "select 1", "exists(select 1)", "id in (select 'a')", "n = all(select 1)"],
    "a window function": ["row_number() over ()", "sum(n) over (partition by id)", "list_sum([1]) over ()"],
    "*": ["*", "metadata.*", "columns('x')", "columns(*)", "*columns(*)", "count(columns(*))"],
    "a lambda": ["id -> 'x'", "extra -> '$.a'"],
    "a parameter": ["?", "$1", "$name", "n = ?"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in FORBIDDEN.items() for text in texts])
def test_refused_by_shape(name: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Expression(text, SCHEMA, "filter.where")
    message = caught.value.message
    assert message.startswith("filter.where ")
    assert name in message or "not on the list" in message, message


CALLS = [
    "read_text('/etc/passwd')",
    "read_csv('/etc/passwd')",
    "read_blob('x')",
    "read_json('x')",
    "read_parquet('x')",
    "parquet_scan('x')",
    "glob('*')",
    "getenv('HOME')",
    "current_setting('threads')",
    "sleep(1)",
    "now()",
    "today()",
    "current_date()",
    "transaction_timestamp()",
    "random()",
    "setseed(0.1)",
    "uuid()",
    "gen_random_uuid()",
    "nextval('s')",
    "count(*)",
    "sum(n)",
    "max(n)",
    "avg(n)",
    "list(id)",
    "string_agg(id, ',')",
    "any_value(n)",
    "unnest([1, 2])",
    "range(1000000000)",
    "generate_series(1, 10)",
    "repeat('a', 1000000000)",
    "query('select 1')",
    "query_table('records')",
    "getvariable('x')",
    "error('x')",
    "list_transform([1], x -> x)",
    "list_filter([1], lambda x: true)",
    "list_reduce([1], (x, y) -> x)",
    "list_aggregate([1], 'sum')",
    "duckdb_settings()",
    "pragma_version()",
    "version()",
    "write_log('x')",
    "json_execute_serialized_sql('x')",
    "json_serialize_sql('select 1')",
    "struct_pack(a := 1)",
    "{'a': 1}",
    "map {'a': 1}",
    "row(1, 2)",
    "[x for x in [1]]",
    "hash(id)",
    "md5(id)",
    "interval 1 day",
    "extract(year from date '2024-01-01')",
    "1 at time zone 'utc'",
    "id collate nocase = 'x'",
    "#1",
    "default",
    "main.read_text('x')",
    "system.main.read_text('x')",
    "pg_catalog.current_user()",
    "'x'.read_text()",
    "\"read_text\"('x')",
    "\"READ_TEXT\"('x')",
]


@pytest.mark.parametrize("text", CALLS)
def test_refused_calls(text: str) -> None:
    with pytest.raises(UsageError):
        Expression(text, SCHEMA)


CALLS_TO_HIDE = ["read_text('x')", "random()", "now()", "(select 1)", "count(*)"]


@pytest.mark.parametrize(
    "wrapped",
    [
        "case when {} is null then 1 else 2 end",
        "case when true then {} else null end",
        "case {} when 1 then 2 end",
        "cast({} as varchar)",
        "try_cast({} as int)",
        "[{}]",
        "list_value(1, {})",
        "coalesce(null, {})",
        "'x' between '' and {}",
        "'x' in ('y', {})",
        "not ({} is null)",
        "lower(lower(lower({})))",
        "'a' || {}",
        "messages[{}]",
        "messages[1:{}]",
        "try({})",
        "{} = any([1])",
        "lower(id, {})",
        "concat_ws(',', 'a', {})",
        "if(true, 1, {})",
    ],
)
def test_refused_calls_are_found_wherever_they_hide(wrapped: str) -> None:
    call = CALLS_TO_HIDE[len(wrapped) % len(CALLS_TO_HIDE)]
    with pytest.raises(UsageError, match="not allowed|not on the list|aggregate"):
        Expression(wrapped.format(call), SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "1; drop table records",
        "1); drop table records; select (1",
        "1) from read_csv('/etc/passwd'",
        "1) from records where (true",
        "1) from (values (1)",
        "1), (2",
        "1, 2",
        "1) union select (2",
        "1) union all (select 2",
        "1) intersect select (1",
        "1) order by (1",
        "1) limit (1",
        "1) offset (1",
        "1) where (true",
        "1) group by (1",
        "1) having (true",
        "1) qualify (true",
        "1) using sample (10",
        "1) window w as (",
        "1) as x, (2",
        "distinct 1",
        "lower(id) filter (where true)",
        "list_sum(distinct [1])",
        "list_sum([1] order by 1)",
        "grouping(id)",
        "1 --)\n from records",
        "create table t(a int)",
        "attach 'x'",
        "copy records to 'x'",
        "install httpfs",
        "set threads = 1",
        "pragma version",
        "",
        "   ",
        ";",
        "1 +",
        "'unclosed",
        "(1",
        "1)",
        'id = "',
        "a b c",
        "\x00",
        "records.id = 'x'",
        "records",
        "rowid",
        "current_date",
        "current_timestamp > '2020-01-01'",
        "current_user",
        "localtime",
    ],
)
def test_one_expression_and_nothing_else(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Expression(text, SCHEMA)
    assert "\n" not in caught.value.message.replace(text, "")


@pytest.mark.parametrize("word", ["today", "now", "tomorrow", "yesterday"])
@pytest.mark.parametrize("type_", ["date", "timestamp", "timestamptz", "time"])
def test_no_cast_reads_the_clock(word: str, type_: str) -> None:
    with pytest.raises(UsageError, match="fails"):
        Expression(f"'{word}'::{type_}", SCHEMA).evaluate(BATCH)


def test_no_file_is_read_even_past_the_check(tmp_path: Any) -> None:
    (tmp_path / "f.csv").write_text("a\n1\n")
    expression = Expression("1", SCHEMA)
    for sql in (f"SELECT (SELECT count(*) FROM '{tmp_path}/f.csv')", f"SELECT content FROM read_text('{tmp_path}/*')"):
        expression._sql = sql  # what a hole in the check would let through
        with pytest.raises(UsageError, match="fails"):
            expression.evaluate(BATCH)


def test_no_python_variable_is_read() -> None:
    secret = pa.table({"a": [1]})
    expression = Expression("1", SCHEMA)
    expression._sql = "SELECT (SELECT count(*) FROM secret)"
    with pytest.raises(UsageError, match="secret"):
        expression.evaluate(BATCH)
    assert secret.num_rows == 1


def test_deep_nesting_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError):
        Expression("(" * 3000 + "1" + ")" * 3000, SCHEMA)
    with pytest.raises(UsageError):
        Expression("not " * 900 + "true", SCHEMA)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("langage = 'en'", "no column langage in the records", "did you mean language?"),
        ("metadata.langage = 'en'", "no column metadata.langage in the records", "did you mean metadata.language?"),
        (
            "scores.qualty.value > 1",
            "no column scores.qualty.value in the records",
            "did you mean scores.quality.value?",
        ),
        (
            "nothing_like_it > 1",
            "no column nothing_like_it in the records",
            "text stands in single quotes: 'nothing_like_it'; ",
        ),
        ("messages.role = 'user'", "no column messages.role in the records", "did you mean messages?"),
        ("Metadata.Language = 'en'", "no column Metadata.Language in the records", "did you mean metadata.language?"),
    ],
)
def test_an_unknown_column_is_named(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        Expression(text, SCHEMA, "filter.where")
    assert caught.value.message == f"filter.where: {message}"
    assert (caught.value.hint or "").startswith(hint)


def test_a_score_that_is_not_there_says_which_step_is_missing() -> None:
    with pytest.raises(UsageError) as caught:
        Expression("scores.fluency.zzz > 1", record_schema())
    assert caught.value.hint == "a tag or classify step writes scores; curator stats shows the columns of a folder"


def test_conditions_and_numbers_are_told_apart() -> None:
    with pytest.raises(UsageError, match="w gives int64, not true or false: n"):
        Expression("n", SCHEMA, "w").evaluate_bool(BATCH)
    with pytest.raises(UsageError, match="w gives string, not a number: id"):
        Expression("id", SCHEMA, "w").evaluate_number(BATCH)
    assert Expression("n > 1", SCHEMA).evaluate_number(BATCH).to_pylist() == [1.0, 0.0, None]
    assert Expression("1.5 * n", SCHEMA).evaluate_number(BATCH).to_pylist() == [4.5, 0.0, None]
    assert Expression("n > 1", SCHEMA).evaluate_bool(BATCH).to_pylist() == [True, False, None]


def test_an_error_in_the_data_is_one_line_with_a_way_out() -> None:
    with pytest.raises(UsageError) as caught:
        Expression("ln(n) > 0", SCHEMA).evaluate(BATCH)
    assert caught.value.message == "expression fails: Out of Range Error: cannot take logarithm of zero: ln(n) > 0"
    assert caught.value.hint == "try(...) gives null where a value does not fit"
    assert values("try(ln(n)) > 0") == [True, None, None]


def test_the_list_of_functions_holds_no_aggregate_and_nothing_volatile() -> None:
    import duckdb

    connection = duckdb.connect()
    names = ", ".join(f"'{name}'" for name in sorted(FUNCTIONS))
    found = connection.execute(
        "SELECT DISTINCT function_name, function_type, stability FROM duckdb_functions() "
        f"WHERE function_name IN ({names})"
    ).fetchall()
    assert [row for row in found if row[1] not in ("scalar", "macro") or row[2] == "VOLATILE"] == []
