"""mix on small folders: what was asked is counted again from the stored order, row by row."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from record_samples import files_of, ids_of, ledger_of, record, rejects_of, rows_of, write_dataset

from curator.errors import CuratorError, UsageError
from curator.mixture.spec import MixSpec, value_text
from curator.pipeline.mix import mix
from curator.pipeline.passes import Options
from curator.schema.record import record_schema

SCHEMA = record_schema({"n": pa.int64()}, {"num_supervised_tokens": pa.int64(), "quality": pa.float64()})
DOMAINS = ["code", "math", None]


def score(value: Any) -> dict[str, Any]:
    return {"value": value, "status": "ok", "by": "t@1"}


def row(number: int, tokens: int | None = 10, **columns: Any) -> dict[str, Any]:
    metadata = {
        "source": "even" if number % 2 == 0 else "odd",
        "domain": DOMAINS[number % 3],
        "reasoning_trace": [True, False, None][number // 2 % 3],
        "n": number % 5,
    }
    scores = {"num_supervised_tokens": score(tokens), "quality": score(number / 100)}
    return {**record(f"s/f#{number}", f"q{number}", "a", metadata=metadata), "scores": scores, **columns}


ROWS = [row(n) for n in range(120)]


def mixed(tmp_path: Path, spec: dict[str, Any], rows: list[dict[str, Any]] = ROWS, workers: int = 1) -> Path:
    number = len(list(tmp_path.iterdir()))
    folder = write_dataset(tmp_path / f"in-{number}", rows, SCHEMA, shard_rows=50)
    mix([folder], MixSpec.from_mapping(spec), tmp_path / f"mix-{number}", Options(workers=workers))
    return tmp_path / f"mix-{number}"


def order_of(folder: Path) -> list[dict[str, Any]]:
    return pq.read_table(folder / "order.parquet").to_pylist()


def mixture_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "mixture.json").read_bytes())


def drawn(folder: Path, phase: int | None = None) -> list[dict[str, Any]]:
    """The record at every position."""
    rows = rows_of(folder)
    return [rows[line["row"]] for line in order_of(folder) if phase is None or line["phase"] == phase]


def counted(folder: Path, field: str, phase: int | None = None) -> Counter[Any]:
    return Counter(item["metadata"][field] for item in drawn(folder, phase))


def test_without_a_spec_every_record_comes_once(tmp_path: Path) -> None:
    folder = mixed(tmp_path, {})
    assert sorted(item["id"] for item in drawn(folder)) == sorted(item["id"] for item in ROWS)
    assert {item["metadata"]["split"] for item in rows_of(folder)} == {"train"}
    assert [line["row"] for line in order_of(folder)] != list(range(120))
    assert ids_of(folder) == [item["id"] for item in ROWS]


@pytest.mark.parametrize(
    ("weights", "field", "expected"),
    [
        ({"domain": {"code": 2}}, "domain", {"code": 30, "math": 15, None: 15}),
        ({"domain": {"code": 2, "*": 0.5}}, "domain", {"code": 40, "math": 10, None: 10}),
        ({"domain": {"null": 0}}, "domain", {"code": 30, "math": 30}),
        ({"domain": {None: 4}}, "domain", {"code": 10, "math": 10, None: 40}),
        ({"reasoning_trace": {True: 2, False: 1, None: 1}}, "reasoning_trace", {True: 30, False: 15, None: 15}),
        ({"reasoning_trace": {"true": 3}}, "reasoning_trace", {True: 36, False: 12, None: 12}),
        ({"n": {0: 6}}, "n", {0: 36, 1: 6, 2: 6, 3: 6, 4: 6}),
    ],
)
def test_shares_are_what_the_weights_ask(
    tmp_path: Path, weights: dict[str, Any], field: str, expected: dict[Any, int]
) -> None:
    folder = mixed(tmp_path, {"budget": {"rows": 60}, "weights": {"by": weights}, "max_epochs": 2})
    assert counted(folder, field) == expected
    shares = {part["slice"]: part for part in mixture_of(folder)["shares"]}
    assert sum(part["asked"] for part in shares.values()) == pytest.approx(1, abs=1e-5)
    for value, count in expected.items():
        name = value_text(value)
        assert shares[name]["rows"] == count
        assert shares[name]["realised"] == pytest.approx(count / 60, abs=1e-6)
        assert shares[name]["asked"] == pytest.approx(count / 60, abs=1e-6)


def test_factors_of_two_fields_multiply(tmp_path: Path) -> None:
    weights = {"by": {"domain": {"code": 3}, "source": {"even": 2}}}
    folder = mixed(tmp_path, {"budget": {"rows": 60}, "weights": weights, "max_epochs": 3})
    found = Counter((item["metadata"]["domain"], item["metadata"]["source"]) for item in drawn(folder))
    assert found == {
        ("code", "even"): 24,
        ("code", "odd"): 12,
        ("math", "even"): 8,
        ("math", "odd"): 4,
        (None, "even"): 8,
        (None, "odd"): 4,
    }
    assert mixture_of(folder)["slice_fields"] == ["domain", "source"]


def test_every_stretch_of_the_order_has_the_shares(tmp_path: Path) -> None:
    folder = mixed(tmp_path, {"budget": {"rows": 90}, "weights": {"by": {"domain": {"code": 4}}}, "max_epochs": 3})
    names = [item["metadata"]["domain"] for item in drawn(folder)]
    for start in range(80):
        for length in (6, 12, 30):
            window = names[start : start + length]
            assert abs(window.count("code") - len(window) * 4 / 6) < 2
    assert [line["slice"] for line in order_of(folder)] == [
        mixture_of(folder)["slices"].index(name or "null") for name in names
    ]


def test_no_record_comes_again_before_its_slice_is_through(tmp_path: Path) -> None:
    folder = mixed(tmp_path, {"budget": {"rows": 200}, "max_epochs": 2, "weights": {"by": {"source": {"odd": 1}}}})
    order = order_of(folder)
    for source in ("even", "odd"):
        lines = [line for line, item in zip(order, drawn(folder), strict=True) if item["metadata"]["source"] == source]
        assert [line["epoch"] for line in lines] == [0] * 60 + [1] * 40
        assert len({line["row"] for line in lines[:60]}) == 60
        assert len({line["row"] for line in lines[60:]}) == 40


def test_the_cap_binds_says_so_and_gives_the_rest_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = mixed(tmp_path, {"budget": {"rows": 100}, "weights": {"by": {"domain": {"code": 8}}}})
    assert counted(folder, "domain") == {"code": 40, "math": 30, None: 30}
    assert "binds" not in capsys.readouterr().err
    folder = mixed(tmp_path, {"budget": {"rows": 500}, "max_epochs": 1.5})
    assert len(order_of(folder)) == 180
    assert max(Counter(line["row"] for line in order_of(folder)).values()) == 2
    assert "the mixture has 180 rows, 500 were asked: max_epochs 1.5 binds" in capsys.readouterr().err


def test_without_a_budget_shares_hold_and_nothing_is_over_the_cap(tmp_path: Path) -> None:
    folder = mixed(tmp_path, {"weights": {"by": {"domain": {"code": 2}}}})
    assert counted(folder, "domain") == {"code": 40, "math": 20, None: 20}
    left = {name: item["drop"]["rule"] for name, item in rejects_of(folder).items()}
    assert Counter(left.values()) == {"budget": 40}


# --- validation -----------------------------------------------------------------------------------------------------


def test_validation_rows_are_never_in_the_order(tmp_path: Path) -> None:
    folder = mixed(tmp_path, {"splits": {"validation": 0.1}, "max_epochs": 3, "budget": {"rows": 300}})
    rows = rows_of(folder)
    held = {item["id"] for item in rows if item["metadata"]["split"] == "validation"}
    assert len(held) == 12
    assert held.isdisjoint(item["id"] for item in drawn(folder))
    splits = pq.read_table(folder / "splits.parquet").to_pylist()
    assert [(line["id"], line["split"]) for line in splits] == [
        (item["id"], item["metadata"]["split"]) for item in rows
    ]
    assert mixture_of(folder)["records"] == {"train": 108, "validation": 12}


def test_groups_stay_on_one_side(tmp_path: Path) -> None:
    rows = [
        row(
            n,
            dedup={"of": None, "similarity": None, "component": f"c{n // 4}", "component_size": 4} if n < 60 else None,
        )
        for n in range(120)
    ]
    folder = mixed(tmp_path, {"splits": {"validation": 0.2}}, rows)
    sides: dict[str, set[str]] = {}
    for item in rows_of(folder):
        key = item["dedup"]["component"] if item["dedup"] else item["id"]
        sides.setdefault(key, set()).add(item["metadata"]["split"])
    assert all(len(side) == 1 for side in sides.values())
    held = sum(item["metadata"]["split"] == "validation" for item in rows_of(folder))
    assert 20 <= held <= 24
    assert {line["key"] for line in pq.read_table(folder / "splits.parquet").to_pylist()} == set(sides)
    by_source = mixed(tmp_path, {"splits": {"validation": 0.5, "by": "source"}})
    assert {(item["metadata"]["source"], item["metadata"]["split"]) for item in rows_of(by_source)} in (
        {("even", "validation"), ("odd", "train")},
        {("even", "train"), ("odd", "validation")},
    )


# --- reasons ---------------------------------------------------------------------------------------------------------


def test_every_row_left_out_says_why(tmp_path: Path) -> None:
    rows = [
        *(row(n) for n in range(6)),
        row(6, kind="preference"),
        row(7, tokens=0),
        row(8, tokens=None),
        row(9, metadata={"source": "never", "n": 1}),
    ]
    spec = {"kinds": ["sft"], "weights": {"by": {"source": {"never": 0}}}, "budget": {"rows": 4}}
    folder = mixed(tmp_path, spec, rows)
    reasons = {name: item["drop"]["rule"] for name, item in rejects_of(folder).items()}
    assert reasons.pop("s/f#6") == "kind"
    assert reasons.pop("s/f#7") == reasons.pop("s/f#8") == "no_supervised_tokens"
    assert reasons.pop("s/f#9") == "zero_weight"
    assert list(reasons.values()) == ["budget", "budget"]
    assert ledger_of(folder).dropped == {
        "mix/kind": 1,
        "mix/no_supervised_tokens": 2,
        "mix/zero_weight": 1,
        "mix/budget": 2,
    }
    assert ledger_of(folder).kept == 4 and ledger_of(folder).read == 10
    for item in rejects_of(folder).values():
        assert item["drop"]["step"] == "mix"
        assert item["metadata"]["split"] is None
        assert item["drop"]["detail"]


def test_a_weight_that_no_record_has_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mixed(tmp_path, {"weights": {"by": {"domain": {"coed": 2, "*": 1}}}})
    assert "mix weights name domain=coed, which no record has (did you mean code?)" in capsys.readouterr().err


# --- budgets in tokens, phases, expressions --------------------------------------------------------------------------

UNEVEN = [row(n, tokens=5 + n * n % 97) for n in range(120)]


@pytest.mark.parametrize("budget", [1000, 2500, 8000])
def test_a_budget_in_supervised_tokens_is_met_within_one_percent(tmp_path: Path, budget: int) -> None:
    rows = [row(n, tokens=5 + n * n % 97) for n in range(900)]
    spec = {"budget": {"supervised_tokens": budget * 5}, "max_epochs": 2, "weights": {"by": {"domain": {"code": 2}}}}
    folder = mixed(tmp_path, spec, rows)
    tokens = [item["scores"]["num_supervised_tokens"]["value"] for item in drawn(folder)]
    assert abs(sum(tokens) - budget * 5) < 0.02 * budget * 5
    code = sum(
        item["scores"]["num_supervised_tokens"]["value"]
        for item in drawn(folder)
        if item["metadata"]["domain"] == "code"
    )
    asked = next(part["asked"] for part in mixture_of(folder)["shares"] if part["slice"] == "code")
    assert code / sum(tokens) == pytest.approx(asked, abs=0.03)
    assert mixture_of(folder)["supervised_tokens"] == sum(tokens)
    assert mixture_of(folder)["unit"] == "supervised_tokens"


def test_phases_have_their_own_weights_and_share_the_cap(tmp_path: Path) -> None:
    spec = {
        "budget": {"rows": 100},
        "phases": [
            {"name": "broad", "until": "40%"},
            {"name": "code", "until": "100%", "weights": {"by": {"domain": {"math": 0, None: 0}}}},
        ],
    }
    folder = mixed(tmp_path, spec)
    assert mixture_of(folder)["phases"] == [
        {"name": "broad", "first": 0, "last": 40},
        {"name": "code", "first": 40, "last": len(order_of(folder))},
    ]
    assert [line["phase"] for line in order_of(folder)] == sorted(line["phase"] for line in order_of(folder))
    first = counted(folder, "domain", 0)
    assert sum(first.values()) == 40 and set(first.values()) <= {13, 14}
    assert counted(folder, "domain", 1) == {"code": 40 - first["code"]}
    assert max(Counter(line["row"] for line in order_of(folder)).values()) == 1


def test_phases_without_a_budget_use_all_there_is(tmp_path: Path) -> None:
    spec = {"phases": [{"name": "a", "until": "50%"}, {"name": "b", "until": "100%"}]}
    folder = mixed(tmp_path, spec)
    assert sorted(item["id"] for item in drawn(folder)) == sorted(item["id"] for item in ROWS)
    assert mixture_of(folder)["phases"][0]["last"] == 60


def test_an_expression_weighs_each_record(tmp_path: Path) -> None:
    expression = "case when n = 0 then 3 when n = 1 then 0 else 1 end"
    folder = mixed(tmp_path, {"budget": {"rows": 60}, "weights": {"expression": expression}, "max_epochs": 2})
    found = counted(folder, "n")
    assert (found[0], found[1], sum(found.values())) == (30, 0, 60)
    assert Counter(item["drop"]["rule"] for item in rejects_of(folder).values())["zero_weight"] == 24


def test_a_continuous_weight_is_followed_through_strata(tmp_path: Path) -> None:
    rows = [row(n) for n in range(1000)]
    folder = mixed(tmp_path, {"budget": {"rows": 400}, "weights": {"expression": "0.1 + scores.quality.value"}}, rows)
    numbers = [int(item["id"].rpartition("#")[2]) for item in drawn(folder)]
    weights = [0.1 + n / 100 for n in range(1000)]
    for low in range(0, 1000, 200):
        share = sum(low <= n < low + 200 for n in numbers) / 400
        assert share == pytest.approx(sum(weights[low : low + 200]) / sum(weights), abs=0.02)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("scores.quality.value - 0.05", r"mix weight .* is -0\.05 for s/f#0"),
        ("nullif(n, 3)", r"mix weight .* is null for s/f#3"),
        ("1e308 * 10 * n", "mix weight"),
    ],
)
def test_a_weight_must_be_a_number_of_zero_or_more(tmp_path: Path, expression: str, message: str) -> None:
    with pytest.raises(CuratorError, match=message):
        mixed(tmp_path, {"weights": {"expression": expression}})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"weights": {"by": {"domian": {"code": 2}}}}, "mix.weights.by names domian, which the records do not have"),
        ({"splits": {"validation": 0.1, "by": "dedup.componnent"}}, "mix.splits.by names dedup.componnent"),
        ({"weights": {"by": {"turn_issues": {"x": 2}}}}, "mix: a list cannot be mixed by"),
        ({"weights": {"by": {"domain": {"*": 0}}}}, "the mixture is empty: none of 120 records can be drawn"),
        ({"kinds": ["text"]}, "the mixture is empty: none of 120 records can be drawn"),
        ({"weights": {"expression": "id"}}, "mix weight gives string, not a number: id"),
    ],
)
def test_what_cannot_be_mixed_is_refused_and_leaves_no_manifest(
    tmp_path: Path, spec: dict[str, Any], message: str
) -> None:
    with pytest.raises(CuratorError) as caught:
        mixed(tmp_path, spec)
    assert caught.value.message.startswith(message)
    assert not list(tmp_path.glob("mix-*/manifest.json"))


def test_a_token_budget_needs_counts(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "d", [record("s/f#0", "q", "a")])
    with pytest.raises(UsageError, match="needs token counts, which these records do not have"):
        mix([folder], MixSpec.from_mapping({"budget": {"supervised_tokens": 5}}), tmp_path / "m", Options(workers=1))


def test_a_folder_without_records_gives_no_mixture(tmp_path: Path) -> None:
    with pytest.raises(CuratorError, match="the mixture is empty: none of 0 records can be drawn"):
        mixed(tmp_path, {}, [])


# --- the same again -------------------------------------------------------------------------------------------------

SPEC = {
    "budget": {"supervised_tokens": 2000},
    "weights": {"by": {"domain": {"code": 2}}, "expression": "1 + scores.quality.value"},
    "splits": {"validation": 0.1},
    "max_epochs": 2,
    "phases": [{"name": "a", "until": "50%"}, {"name": "b", "until": "100%", "weights": {"by": {"n": {3: 4}}}}],
    "seed": 7,
}


def test_one_and_two_workers_write_the_same_bytes(tmp_path: Path) -> None:
    one, two = mixed(tmp_path, SPEC, UNEVEN, 1), mixed(tmp_path, SPEC, UNEVEN, 2)
    assert files_of(one) == files_of(two)
    assert {"order.parquet", "splits.parquet", "mixture.json", "manifest.json"} <= set(files_of(one))


def test_another_seed_is_another_order_of_the_same_counts(tmp_path: Path) -> None:
    one, other = mixed(tmp_path, SPEC, UNEVEN), mixed(tmp_path, {**SPEC, "seed": 8}, UNEVEN)
    assert [line["row"] for line in order_of(one)] != [line["row"] for line in order_of(other)]


def test_a_finished_mixture_is_left_alone_and_a_damaged_one_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_dataset(tmp_path / "d", UNEVEN, SCHEMA, shard_rows=50)
    spec = MixSpec.from_mapping(SPEC)
    out = tmp_path / "mix"
    first = mix([folder], spec, out, Options(workers=1))
    assert not first.reused
    before = files_of(out)
    again = mix([folder], spec, out, Options(workers=1))
    assert again.reused and again.notes == first.notes and files_of(out) == before
    for name in ("order.parquet", "mixture.json", "splits.parquet", "data/part-00000.parquet"):
        (out / name).write_bytes(b"damaged")
        mix([folder], spec, out, Options(workers=1))
        assert files_of(out) == before, name
        assert "is written again" in capsys.readouterr().err
    with pytest.raises(CuratorError, match=r"steps\[0\]\.settings\.seed: was 7, now 8"):
        mix([folder], MixSpec.from_mapping({**SPEC, "seed": 8}), out, Options(workers=1))
