"""What cannot be trained on is refused in one line before anything starts."""

import json
from pathlib import Path
from typing import Any

import pytest
from train_samples import TEMPLATE, make_mixture, make_model, record, sample_records

from curator.errors import CuratorError
from curator.train.config import TrainConfig
from curator.train.inputs import RunFolder, check_inputs, fingerprint, open_inputs, prepare


def refusal(mixture: Path, out: Path, config: TrainConfig) -> CuratorError:
    with pytest.raises(CuratorError) as error:
        prepare(mixture, config, out)
    assert "\n" not in error.value.message and error.value.hint
    return error.value


def test_kinds_are_refused_by_name_and_count(tmp_path: Path, model: Path) -> None:
    kinds = ["sft", "prompt", "prompt", "feedback", "text", "preference"]
    mixture = make_mixture(tmp_path / "mix", [record(i, "q", "a", kind=kind) for i, kind in enumerate(kinds)])
    error = refusal(mixture, tmp_path / "out", TrainConfig(str(model)))
    assert "1 of kind feedback, 1 of kind preference, 2 of kind prompt, 1 of kind text" in error.message
    assert not (tmp_path / "out").exists()


def test_preferences_need_to_be_asked_for(tmp_path: Path, model: Path) -> None:
    mixture = make_mixture(tmp_path / "mix", [record(0, "q", "a", kind="preference")])
    assert "use: chosen" in str(refusal(mixture, tmp_path / "out", TrainConfig(str(model))).hint)
    prepare(mixture, TrainConfig(str(model), use="chosen"), tmp_path / "out")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (TEMPLATE.replace("{%- generation %}", "").replace("{%- endgeneration %}", ""), "no generation marks"),
        (None, "no chat template"),
        (TEMPLATE.replace("+ '<|im_end|>' }}{%- endg", "}}{%- endg"), "mask audit failed"),
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}", "no record is left"),
    ],
)
def test_templates_that_cannot_be_trained_on(tmp_path: Path, mixture: Path, template: str | None, words: str) -> None:
    model = make_model(tmp_path / "m", template)
    (tmp_path / "m" / "generation_config.json").write_text('{"eos_token_id": 257}')
    if "messages[0]" in str(template):
        mixture = make_mixture(tmp_path / "two", [record(0, "q", "a", messages=[{"role": "user", "content": "q"}])])
    assert words in refusal(mixture, tmp_path / "out", TrainConfig(str(model))).message


def test_folders_that_are_not_what_they_should_be(tmp_path: Path, mixture: Path, model: Path) -> None:
    out = tmp_path / "out"
    (model / "tokenizer.json").unlink()
    assert "no tokenizer.json" in refusal(mixture, out, TrainConfig(str(model))).message
    assert "no such model folder" in refusal(mixture, out, TrainConfig(str(tmp_path / "none"))).message
    assert "no such folder" in refusal(tmp_path / "none", out, TrainConfig(str(model))).message
    (mixture / "mixture.json").unlink()
    assert "not a mixture" in refusal(mixture, out, TrainConfig(str(model))).message


def test_everything_too_long_leaves_nothing(tmp_path: Path, mixture: Path, model: Path) -> None:
    error = refusal(mixture, tmp_path / "out", TrainConfig(str(model), max_tokens=10))
    assert "no record is left to train on: 36 too_long" in error.message


def claim(mixture: Path, out: Path, config: TrainConfig, overwrite: bool = False) -> None:
    RunFolder(out, fingerprint(*check_inputs(mixture, config), config)).claim(overwrite)


def test_a_folder_belongs_to_one_run(tmp_path: Path, mixture: Path, model: Path) -> None:
    out = tmp_path / "out"
    claim(mixture, out, TrainConfig(str(model)))
    claim(mixture, out, TrainConfig(str(model)))
    changes: list[tuple[dict[str, Any], str]] = [
        ({"learning_rate": 1e-3}, "train.learning_rate: was 2e-05, now 0.001"),
        ({"steps": 7}, "train.steps: was null, now 7"),
    ]
    for settings, words in changes:
        with pytest.raises(CuratorError, match=words):
            claim(mixture, out, TrainConfig(str(model), **settings))
    other = make_mixture(tmp_path / "other", sample_records(39))
    with pytest.raises(CuratorError, match=r"inputs\.data"):
        claim(other, out, TrainConfig(str(model)))
    config_file = model / "config.json"
    config_file.write_text(json.dumps({**json.loads(config_file.read_text()), "hidden_act": "gelu"}))
    with pytest.raises(CuratorError, match=r"inputs\.model"):
        claim(mixture, out, TrainConfig(str(model)))
    (out / "metrics.jsonl").write_text("{}\n")
    claim(mixture, out, TrainConfig(str(model)), overwrite=True)
    assert not (out / "metrics.jsonl").exists()


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path, mixture: Path, model: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("x")
    with pytest.raises(CuratorError, match=r"thesis\.tex"):
        claim(mixture, tmp_path / "out", TrainConfig(str(model)))
    (tmp_path / "file").write_text("x")
    with pytest.raises(CuratorError, match="is a file"):
        claim(mixture, tmp_path / "file", TrainConfig(str(model)))


def test_the_model_may_move(tmp_path: Path, mixture: Path, model: Path) -> None:
    claim(mixture, tmp_path / "out", TrainConfig(str(model)))
    moved = model.rename(tmp_path / "moved")
    claim(mixture, tmp_path / "out", TrainConfig(str(moved)))


def test_packs_do_not_depend_on_how_often_they_are_made(tmp_path: Path, mixture: Path, model: Path) -> None:
    config = TrainConfig(str(model), max_tokens=100)
    digests = set()
    for name in ("a", "b"):
        prepare(mixture, config, tmp_path / name)
        digests.add(open_inputs(mixture, config, tmp_path / name).run_digest)
    assert len(digests) == 1
    assert (tmp_path / "a" / "packs.parquet").read_bytes() == (tmp_path / "b" / "packs.parquet").read_bytes()
