"""Settings are checked before anything starts; steps and rates are plain functions of them."""

import pytest

from curator.errors import UsageError
from curator.train.config import TrainConfig


def test_unknown_keys_come_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match="unknown key 'learning_rat'") as error:
        TrainConfig.from_mapping({"model": "m", "learning_rat": 1.0})
    assert "learning_rate" in (error.value.hint or "")


@pytest.mark.parametrize(
    "settings",
    [
        {"packs_per_step": 0},
        {"steps": 0},
        {"steps": 3, "epochs": 1},
        {"learning_rate": 0.0},
        {"max_tokens": 1},
        {"warmup_fraction": 1.5},
        {"betas": [0.9, 1.0]},
        {"dtype": "float8"},
        {"too_long": "split"},
        {"max_tokens": "many"},
    ],
)
def test_values_out_of_range_are_refused_by_name(settings: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(settings))):
        TrainConfig.from_mapping({"model": "m", **settings})


def test_model_is_required() -> None:
    with pytest.raises(UsageError, match="model is missing"):
        TrainConfig.from_mapping({})


def test_json_and_back() -> None:
    config = TrainConfig("m", steps=3, betas=(0.8, 0.9))
    assert TrainConfig.from_json(config.to_json()) == config
    assert TrainConfig.from_mapping(config.to_json()) == config


def test_steps_follow_from_packs() -> None:
    assert TrainConfig("m", packs_per_step=4).num_steps(9) == 3
    assert TrainConfig("m", packs_per_step=4).num_packs_seen(9) == 9
    assert TrainConfig("m", packs_per_step=4, epochs=2).num_steps(9) == 5
    assert TrainConfig("m", packs_per_step=4, epochs=2).num_packs_seen(9) == 18
    assert TrainConfig("m", packs_per_step=4, steps=7).num_packs_seen(9) == 28


def test_rate_rises_and_falls() -> None:
    config = TrainConfig("m", learning_rate=1.0, warmup_steps=4, decay="linear")
    rates = [config.learning_rate_at(step, 10) for step in range(1, 11)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert all(left > right for left, right in zip(rates[3:], rates[4:], strict=False))
    assert rates[-1] == pytest.approx(1 / 7)
    cosine = TrainConfig("m", learning_rate=1.0, warmup_fraction=0.0)
    assert cosine.learning_rate_at(1, 10) == pytest.approx(1.0, abs=0.03)
    assert 0 < cosine.learning_rate_at(10, 10) < 0.03
    flat = TrainConfig("m", learning_rate=1.0, warmup_fraction=0.0, decay="none")
    assert {flat.learning_rate_at(step, 10) for step in range(1, 11)} == {1.0}
