"""What a person may ask of a mixture, and what is refused before any work."""

from pathlib import Path
from typing import Any

import pytest

from curator.errors import UsageError
from curator.mixture.spec import Budget, MixSpec, Phase, Splits, Weights, value_text


def test_a_whole_spec(tmp_path: Path) -> None:
    (tmp_path / "mix.yaml").write_text(
        """
mix:
  budget: {supervised_tokens: 2_000_000}
  weights: {by: {domain: {code: 2, "*": 0.5}, reasoning_trace: {true: 3, null: 0}, n: {3: 2}}, expression: "1 + n"}
  max_epochs: 2.5
  splits: {validation: 0.02, by: source}
  phases:
    - {name: basics, until: 60%, weights: {by: {difficulty: {easy: 2}}}}
    - {name: hard, until: 100 %, weights: {expression: "2"}}
  kinds: [sft, preference]
  seed: 7
"""
    )
    spec = MixSpec.from_file(tmp_path / "mix.yaml")
    assert spec == MixSpec(
        Budget(supervised_tokens=2_000_000),
        Weights(
            {"domain": {"code": 2.0, "*": 0.5}, "reasoning_trace": {"true": 3.0, "null": 0.0}, "n": {"3": 2.0}}, "1 + n"
        ),
        2.5,
        Splits(0.02, "source"),
        (
            Phase("basics", "60%", Weights({"difficulty": {"easy": 2.0}})),
            Phase("hard", "100 %", Weights(expression="2")),
        ),
        ("sft", "preference"),
        7,
    )
    assert spec.slice_fields() == ["domain", "reasoning_trace", "n", "difficulty"]
    assert spec.expressions() == ["1 + n", "2"]
    assert [phase.end() for phase in spec.phases] == [0.6, 1.0]


def test_defaults() -> None:
    spec = MixSpec.from_mapping(None)
    assert spec == MixSpec()
    assert spec.slice_fields() == ["source"]
    assert (spec.max_epochs, spec.splits.validation, spec.splits.by) == (1.0, 0.0, "dedup.component")
    assert spec.kinds == ("sft", "preference", "feedback", "prompt", "text")


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"budget": {"rows": 5, "supervised_tokens": 5}}, "mix.budget: rows and supervised_tokens exclude each other"),
        ({"budget": {"rows": 0}}, "mix.budget.rows is 0, it must be at least 1"),
        ({"budget": {"supervised_tokens": -1}}, "mix.budget.supervised_tokens is -1, it must be at least 1"),
        ({"budget": {"tokens": 5}}, "mix: budget: unknown key 'tokens'"),
        ({"weights": {"by": {"domain": {"code": -1}}}}, "mix weight of domain=code is -1.0, it must be 0 or more"),
        (
            {"weights": {"by": {"domain": {"code": float("nan")}}}},
            "mix weight of domain=code is nan, it must be 0 or more",
        ),
        (
            {"weights": {"by": {"domain": {"code": float("inf")}}}},
            "mix weight of domain=code is inf, it must be 0 or more",
        ),
        ({"weights": {"by": {"domain": 2}}}, "mix: weights.by[...]: expected `object`, got `int`"),
        ({"weights": {"domain": {"code": 2}}}, "mix: weights: unknown key 'domain'"),
        ({"max_epochs": 0}, "mix.max_epochs is 0.0, it must be above 0"),
        ({"max_epochs": float("nan")}, "mix.max_epochs is nan, it must be above 0"),
        ({"splits": {"validation": 0.6}}, "mix.splits.validation is 0.6, it must lie between 0 and 0.5"),
        ({"splits": {"validation": -0.1}}, "mix.splits.validation is -0.1, it must lie between 0 and 0.5"),
        ({"kinds": ["stf"]}, "mix.kinds: unknown kind 'stf'"),
        ({"phases": [{"name": "a", "until": "50%"}]}, "mix.phases: until must rise, and the last phase ends at 100%"),
        (
            {"phases": [{"name": "a", "until": "60%"}, {"name": "b", "until": "50%"}, {"name": "c", "until": "100%"}]},
            "mix.phases: until must rise, and the last phase ends at 100%",
        ),
        (
            {"phases": [{"name": "a", "until": "50%"}, {"name": "a", "until": "100%"}]},
            "mix.phases: two phases have the same name",
        ),
        ({"phases": [{"name": "a", "until": "60"}]}, "mix.phases.a.until is '60'"),
        ({"phases": [{"name": "a", "until": "0%"}]}, "mix.phases.a.until is '0%'"),
        ({"phases": [{"name": "a", "until": "101%"}]}, "mix.phases.a.until is '101%'"),
        ({"phases": [{"name": "a"}]}, "mix: phases[0]: until is missing"),
        ({"phase": []}, "mix: unknown key 'phase'"),
        ({"seed": "x"}, "mix: seed: expected `int`, got `str`"),
    ],
)
def test_what_is_refused(mapping: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        MixSpec.from_mapping(mapping)
    assert caught.value.message.startswith(message)


def test_factors_multiply_over_fields_and_the_star_is_for_the_rest() -> None:
    weights = Weights({"domain": {"code": 2, "*": 0.5}, "difficulty": {"hard": 3, None: 0}})
    for domain, difficulty, factor in [
        ("code", "hard", 6.0),
        ("code", "easy", 2.0),
        ("math", "hard", 1.5),
        ("math", "null", 0.0),
        ("null", "easy", 0.5),
    ]:
        assert weights.factor({"domain": domain, "difficulty": difficulty}) == factor
    assert Weights().factor({}) == 1.0


def test_values_as_text() -> None:
    assert [value_text(value) for value in (True, False, None, 3, "x")] == ["true", "false", "null", "3", "x"]
