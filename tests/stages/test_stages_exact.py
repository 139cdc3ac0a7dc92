"""dedup.exact: of equal records one stays, by a rule that order, shards and workers cannot change."""

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from record_samples import ids_of, message, passed, record, rejects_of, rows_of, write_dataset

from curator.errors import CuratorError, UsageError
from curator.schema.record import record_schema
from curator.stages.dedup.exact import Exact
from curator.stages.dedup.keep import parse_keep


def dedup(tmp_path: Path, rows: list[dict[str, Any]], **settings: Any) -> Path:
    number = len(list(tmp_path.iterdir()))
    schema = record_schema(None, {"q": pa.float64()}) if "scores" in rows[0] else record_schema()
    folder = write_dataset(tmp_path / f"in-{number}", rows, schema, settings.pop("shard_rows", 3))
    return passed(Exact(**settings), folder, tmp_path / f"out-{number}")


def row(number: int, text: str, **columns: Any) -> dict[str, Any]:
    return record(f"s/f#{number}", text, f"answer to {text}", **columns)


def test_the_first_of_equal_records_stays(tmp_path: Path) -> None:
    out = dedup(tmp_path, [row(n, text) for n, text in enumerate("abacabd")])
    assert ids_of(out) == ["s/f#0", "s/f#1", "s/f#3", "s/f#6"]
    assert {name: rejected["drop"] for name, rejected in rejects_of(out).items()} == {
        name: {
            "step": "dedup.exact",
            "rule": "duplicate",
            "value": 1.0,
            "threshold": 1.0,
            "keeper": keeper,
            "detail": "equal conversation",
        }
        for name, keeper in [("s/f#2", "s/f#0"), ("s/f#4", "s/f#0"), ("s/f#5", "s/f#1")]
    }


def test_components_name_all_that_belonged_together(tmp_path: Path) -> None:
    out = dedup(tmp_path, [row(n, text) for n, text in enumerate("abacabd")])
    assert [kept["dedup"] for kept in rows_of(out)] == [
        {"of": None, "similarity": None, "component": "s/f#0", "component_size": 3},
        {"of": None, "similarity": None, "component": "s/f#1", "component_size": 2},
        None,
        None,
    ]
    assert rejects_of(out)["s/f#4"]["dedup"] == {
        "of": "s/f#0",
        "similarity": 1.0,
        "component": "s/f#0",
        "component_size": 3,
    }


def test_rows_are_numbers_so_2_comes_before_10(tmp_path: Path) -> None:
    rows = [row(n, "same") for n in (10, 9, 2, 33)]
    assert ids_of(dedup(tmp_path, rows)) == ["s/f#2"]
    assert ids_of(dedup(tmp_path, rows, keep="id desc")) == ["s/f#33"]


def test_all_other_columns_pass_untouched(tmp_path: Path) -> None:
    rows = [
        row(0, "a", extra='{"n": 1.10}', metadata={"source": "x", "turn_issues": []}, loss_weight=0.5),
        row(1, "a", extra=None),
        row(2, "b", tools="[]", rejected=[message("assistant", None)]),
    ]
    out = dedup(tmp_path, rows)
    before = {kept["id"]: kept for kept in rows_of(tmp_path / "in-0")}
    for after in rows_of(out):
        assert {**after, "dedup": None} == before[after["id"]]
    assert [kept["id"] for kept in rows_of(out)] == ["s/f#0", "s/f#2"]


def test_empty_text_is_never_a_duplicate(tmp_path: Path) -> None:
    rows = [record(f"s/f#{n}", "same question", answer) for n, answer in enumerate(["", None, "", "x", "x"])]
    assert ids_of(dedup(tmp_path, rows, on="response")) == ["s/f#0", "s/f#1", "s/f#2", "s/f#3"]
    assert ids_of(dedup(tmp_path, rows, on="reasoning")) == [f"s/f#{n}" for n in range(5)]
    assert ids_of(dedup(tmp_path, rows, on="system", normalise=("space",))) == [f"s/f#{n}" for n in range(5)]
    blank = [record(f"s/f#{n}", "q", text) for n, text in enumerate([" ", " ", "\n", "\t\t"])]
    assert ids_of(dedup(tmp_path, blank, on="response", normalise=("case",))) == [f"s/f#{n}" for n in range(4)]
    assert ids_of(dedup(tmp_path, blank, on="response")) == ["s/f#0", "s/f#2", "s/f#3"]


@pytest.mark.parametrize(
    ("normalise", "kept"),
    [
        ((), [0, 1, 2, 3, 4, 5, 6]),
        (("space",), [0, 2, 3, 5, 6]),
        (("case",), [0, 1, 3, 4, 5, 6]),
        (("case", "space"), [0, 3, 5, 6]),
    ],
)
def test_normalisation_is_only_what_was_asked(tmp_path: Path, normalise: tuple[str, ...], kept: list[int]) -> None:
    texts = [
        "What is 12+30?",
        " What  is\n12+30? ",
        "what is 12+30?",
        "Straße",
        "\u2003Straße",
        "What is 1+230?",
        "What is 12*30?",
    ]
    rows = [record(f"s/f#{n}", text, f"{n}") for n, text in enumerate(texts)]
    out = dedup(tmp_path, rows, on="prompt", normalise=normalise)
    assert ids_of(out) == [f"s/f#{n}" for n in kept]
    for rejected in rejects_of(out).values():
        assert rejected["drop"]["detail"] == "equal prompt but for " + " and ".join(normalise)


def test_case_is_folded_for_any_script(tmp_path: Path) -> None:
    texts = ["STRASSE", "straße", "ΣΊΣΥΦΟΣ", "σίσυφος", "İ", "i"]
    rows = [record(f"s/f#{n}", text, "a") for n, text in enumerate(texts)]
    assert ids_of(dedup(tmp_path, rows, on="prompt", normalise=("case",))) == ["s/f#0", "s/f#2", "s/f#4", "s/f#5"]


def score(value: float | None) -> dict[str, Any]:
    return {"q": {"value": value, "status": "ok", "by": "t@1"}}


@pytest.mark.parametrize(
    ("keep", "keeper"),
    [
        ("id", "s/f#0"),
        ("id desc", "s/f#4"),
        ("scores.q.value desc, id", "s/f#2"),
        ("scores.q.value desc", "s/f#2"),
        ("scores.q.value desc, id desc", "s/f#3"),
        ("scores.q.value", "s/f#1"),
        ("metadata.license, id", "s/f#3"),
        ("metadata.license desc", "s/f#1"),
        ("metadata.reasoning_trace desc, id", "s/f#4"),
        ("metadata.domain, scores.q.value", "s/f#1"),
    ],
)
def test_keep_orders_with_nulls_last_either_way(tmp_path: Path, keep: str, keeper: str) -> None:
    values = [(None, None, None), (0.1, "mit", False), (0.9, None, None), (0.9, "apache", False), (0.5, "gpl", True)]
    rows = [
        row(n, "same", scores=score(q), metadata={"license": license_, "reasoning_trace": trace})
        for n, (q, license_, trace) in enumerate(values)
    ]
    # In the table above "mit" is the greatest text of the three.
    for order in (rows, rows[::-1], rows[2:] + rows[:2]):
        assert ids_of(dedup(tmp_path, order, keep=keep)) == [keeper]


@pytest.mark.parametrize(
    ("keep", "message", "hint"),
    [
        ("scores.q", "dedup.exact: keep names scores.q, which has no order", "did you mean scores.q.value?"),
        ("metadata.turn_issues", "dedup.exact: keep names metadata.turn_issues, which has no order", None),
        ("messages", "dedup.exact: keep names messages, which has no order", None),
        ("scores.quality.value", "dedup.exact reads scores.quality.value, ", "did you mean scores.q.value?"),
        ("nothing", "dedup.exact reads nothing, which the input does not have", "a tag step may have to run first"),
    ],
)
def test_a_keep_order_must_be_one(tmp_path: Path, keep: str, message: str, hint: str | None) -> None:
    rows = [row(n, "same", scores=score(1.0)) for n in range(2)]
    with pytest.raises(CuratorError) as caught:
        dedup(tmp_path, rows, keep=keep)
    assert caught.value.message.startswith(message)
    assert caught.value.hint == hint


def test_keep_is_parsed_with_the_id_behind() -> None:
    assert parse_keep("scores.q.value desc,  kind") == [("scores.q.value", "desc"), ("kind", "asc"), ("id", "asc")]
    assert parse_keep("id") == [("id", "asc")]
    for text in ("", "a b", "a desc asc", "a,,b", "a.b-c", "-a"):
        with pytest.raises(UsageError, match="keep order"):
            parse_keep(text)


def test_a_second_step_unions_components_and_counts_dropped_rows(tmp_path: Path) -> None:
    rows = [
        record("s/f#0", "p1", "a"),
        record("s/f#1", "p1", "a"),
        record("s/f#2", "p1", "b"),
        record("s/f#3", "p2", "b"),
        record("s/f#4", "p2", "b"),
        record("s/f#5", "p3", "c"),
        record("s/f#6", "p3", "c"),
        record("s/f#7", "p4", "d"),
    ]
    first = dedup(tmp_path, rows)
    assert ids_of(first) == ["s/f#0", "s/f#2", "s/f#3", "s/f#5", "s/f#7"]
    on_prompt = passed(Exact(on="prompt"), first, tmp_path / "prompt")
    assert ids_of(on_prompt) == ["s/f#0", "s/f#3", "s/f#5", "s/f#7"]
    on_response = passed(Exact(on="response"), first, tmp_path / "response")
    assert ids_of(on_response) == ["s/f#0", "s/f#2", "s/f#5", "s/f#7"]
    found = {kept["id"]: (kept["dedup"] or {}) for kept in rows_of(on_prompt)}
    assert [(found[name].get("component"), found[name].get("component_size")) for name in found] == [
        ("s/f#0", 3),
        ("s/f#3", 2),
        ("s/f#5", 2),
        (None, None),
    ]
    third = passed(Exact(on="response"), on_prompt, tmp_path / "third")
    assert ids_of(third) == ids_of(on_prompt)
    # s/f#2 and s/f#3 meet: {0, 1, 2} is a component of its own after the first two steps, {3, 4} another.
    both = {name: kept["dedup"] for name, kept in rejects_of(on_response).items()}
    assert both["s/f#3"] == {"of": "s/f#2", "similarity": 1.0, "component": "s/f#2", "component_size": 3}


def test_a_union_renames_every_member_by_the_smallest_name(tmp_path: Path) -> None:
    rows = [
        record("s/f#0", "p9", "x"),
        record("s/f#1", "p1", "a"),
        record("s/f#2", "p1", "a"),
        record("s/f#3", "p1", "b"),
        record("s/f#4", "p2", "b"),
        record("s/f#5", "p2", "b"),
    ]
    first = dedup(tmp_path, rows)
    second = passed(Exact(on="response", keep="id desc"), first, tmp_path / "second")
    assert ids_of(second) == ["s/f#0", "s/f#1", "s/f#4"]
    third = passed(Exact(on="prompt"), second, tmp_path / "third")
    assert [kept["dedup"]["component"] if kept["dedup"] else None for kept in rows_of(third)] == [
        None,
        "s/f#1",
        "s/f#3",
    ]
    assert [kept["dedup"]["component_size"] if kept["dedup"] else None for kept in rows_of(third)] == [None, 2, 3]


def test_running_twice_changes_neither_rows_nor_dedup_columns(tmp_path: Path) -> None:
    once = dedup(tmp_path, [row(n, text) for n, text in enumerate("abacabdbbe")])
    twice = passed(Exact(), once, tmp_path / "twice")
    assert rows_of(twice) == rows_of(once)
    assert rejects_of(twice) == {}


def test_the_same_keepers_in_any_order_and_any_shards(tmp_path: Path) -> None:
    rows = [row(n, text) for n, text in enumerate("aabbca")]
    expected = None
    for number, order in enumerate(itertools.islice(itertools.permutations(rows), 0, 720, 97)):
        kept = sorted(ids_of(dedup(tmp_path, list(order), shard_rows=1 + number % 6)))
        expected = expected or kept
        assert kept == expected == ["s/f#0", "s/f#2", "s/f#4"]


def test_many_copies_of_one_text_leave_one(tmp_path: Path) -> None:
    rows = [row(n, "I'm sorry.") for n in range(3000)] + [row(3000 + n, f"other {n}") for n in range(20)]
    out = dedup(tmp_path, rows, shard_rows=700)
    assert len(ids_of(out)) == 21
    assert rows_of(out)[0]["dedup"]["component_size"] == 3000


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.sampled_from(["a", "b", "c", "A", "", None]), min_size=1, max_size=12), data=st.data())
def test_against_a_plain_dictionary(tmp_path_factory: pytest.TempPathFactory, texts: list[Any], data: Any) -> None:
    rows = [record(f"s/f#{n}", "q", text) for n, text in enumerate(texts)]
    out = dedup(tmp_path_factory.mktemp("d"), rows, on="response", shard_rows=data.draw(st.integers(1, 12)))
    first: dict[str, str] = {}
    keepers = {f"s/f#{n}": first.setdefault(text, f"s/f#{n}") if text else f"s/f#{n}" for n, text in enumerate(texts)}
    assert ids_of(out) == [name for name, keeper in keepers.items() if name == keeper]
    dropped = {name: rejected["drop"]["keeper"] for name, rejected in rejects_of(out).items()}
    assert dropped == {name: keeper for name, keeper in keepers.items() if name != keeper}
