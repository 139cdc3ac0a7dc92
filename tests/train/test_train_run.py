"""One rank in this process, from mixture to exported model."""

import json
import math
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors import safe_open
from train_samples import make_mixture, make_model, record, sample_records
from transformers import AutoModelForCausalLM, AutoTokenizer

from curator.io.manifest import digest_file
from curator.train import loop
from curator.train.config import TrainConfig
from curator.train.evaluate import Evaluator
from curator.train.inputs import RunFolder, check_inputs, fingerprint, open_inputs, prepare
from curator.train.ledger import Ledger, read_ledger
from curator.train.model import build_model
from curator.train.monitor import read_metrics
from curator.train.parallel import World, shard_model

SETTINGS: dict[str, Any] = {"max_tokens": 128, "packs_per_step": 2, "learning_rate": 5e-3, "steps": 6}


def run(mixture: Path, model: Path, out: Path, world: World, **settings: Any) -> TrainConfig:
    config = TrainConfig(model=str(model), **{**SETTINGS, **settings})
    prepare(mixture, config, out)
    loop.train(mixture, config, out, world)
    return config


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_export_loads_and_generates(mixture: Path, model: Path, out: Path, world: World) -> None:
    run(mixture, model, out, world)
    exported = AutoModelForCausalLM.from_pretrained(out / "model")
    tokenizer = AutoTokenizer.from_pretrained(out / "model")
    assert exported.dtype == torch.float32
    assert exported.generation_config.eos_token_id == tokenizer.eos_token_id
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "sum"}], add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )
    generated = exported.generate(**prompt, max_new_tokens=5, do_sample=False)
    assert generated.shape[1] > prompt["input_ids"].shape[1]
    assert (out / "model" / "chat_template.jinja").read_bytes() == (model / "chat_template.jinja").read_bytes()


@pytest.mark.parametrize(("tied", "dtype"), [(True, "bfloat16"), (False, None)])
def test_export_holds_tied_weights_once_in_the_asked_dtype(
    mixture: Path, tmp_path: Path, out: Path, world: World, tied: bool, dtype: str | None
) -> None:
    model = make_model(tmp_path / "tied", tied=tied)
    run(mixture, model, out, world, export_dtype=dtype, steps=2)
    with safe_open(out / "model" / "model.safetensors", "pt") as file:
        names = set(file.keys())
        numbers = {file.get_tensor(name).dtype for name in names}
    assert ("lm_head.weight" in names) is not tied and "model.embed_tokens.weight" in names
    wanted = getattr(torch, dtype or "float32")
    assert numbers == {wanted}
    assert json.loads((out / "model" / "config.json").read_text())["dtype"] == str(wanted).removeprefix("torch.")
    exported = AutoModelForCausalLM.from_pretrained(out / "model")
    assert (exported.lm_head.weight is exported.model.embed_tokens.weight) is tied


def test_exported_loss_is_the_loss_that_was_reported(mixture: Path, model: Path, out: Path, world: World) -> None:
    """The exported weights, asked by transformers alone, give the held-out loss of eval.json."""
    config = run(mixture, model, out, world)
    exported = AutoModelForCausalLM.from_pretrained(out / "model")
    tokens = open_inputs(mixture, config, out).tokens
    total, count = 0.0, 0
    for row in tokens.rows_of("validation"):
        ids, weights = (torch.from_numpy(array.copy()) for array in tokens.row(int(row)))
        with torch.no_grad():
            logits = exported(input_ids=ids[None].long()).logits[0, :-1]
        losses = torch.nn.functional.cross_entropy(logits, ids[1:].long(), reduction="none")
        total += float(losses[weights[1:] > 0].sum())
        count += int((weights[1:] > 0).sum())
    report = json.loads((out / "eval.json").read_text())
    assert report["loss"] == pytest.approx(total / count, rel=1e-5) and report["tokens"] == count
    assert read_metrics(out)[-1]["validation_loss"] == report["loss"]
    assert sum(part["tokens"] for part in report["slices"] if part["field"] == "source") == count
    assert sum(part["loss"] * part["tokens"] for part in report["slices"]) == pytest.approx(total, rel=1e-5)


def test_held_out_loss_does_not_depend_on_batches(mixture: Path, model: Path, out: Path, world: World) -> None:
    config = TrainConfig(model=str(model), **SETTINGS)
    prepare(mixture, config, out)
    inputs = open_inputs(mixture, config, out)
    supervised = shard_model(build_model(model, config, inputs.chat.num_ids), world, config)
    evaluator = Evaluator(inputs, config)
    results = [evaluator.run(supervised, world, size) for size in (1, 2, 5)]
    for result in results[1:]:
        np.testing.assert_allclose(result.loss, results[0].loss, rtol=1e-5)
        np.testing.assert_array_equal(result.tokens, results[0].tokens)


def test_the_run_folder_tells_everything(mixture: Path, model: Path, out: Path, world: World) -> None:
    config = run(mixture, model, out, world, eval_every=2, save_every=3)
    lines = read_metrics(out)
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in lines if "validation_loss" in line] == [2, 4, 6]
    assert lines[-1]["loss"] < lines[0]["loss"]
    for line in lines:
        assert set(line["slices"]) <= {"source=red", "source=green"}
        assert 0 <= line["padding"] < 1 and line["grad_norm"] > 0 and line["tokens"] > line["supervised_tokens"] > 0
    manifest = json.loads((out / "manifest.json").read_text())
    assert all(digest_file(out / file["path"]) == file["xxh3"] for file in manifest["files"])
    assert {"metrics.jsonl", "eval.json", "packs.parquet", "config.yaml", "model/model.safetensors"} <= {
        file["path"] for file in manifest["files"]
    }
    assert set(manifest["digests"]) == {"data", "order", "tokenizer", "model", "tokens", "packs"}
    assert TrainConfig.from_file(out / "config.yaml") == config
    summary = RunFolder(out, fingerprint(*check_inputs(mixture, config), config)).summary()
    assert summary is not None and summary["steps"] == 6 and summary["loss_last"] == lines[-1]["loss"]
    (out / "model" / "model.safetensors").write_bytes(b"")
    assert RunFolder(out, {}).summary() is None


def test_the_ledger_is_known_before_the_run(mixture: Path, model: Path, out: Path, world: World) -> None:
    config = TrainConfig(model=str(model), **SETTINGS)
    prepare(mixture, config, out)
    before = {step: Ledger(out, open_inputs(mixture, config, out), config).record_ids(step) for step in range(1, 7)}
    loop.train(mixture, config, out, world)
    ledger = read_ledger(out)
    for step, ids in before.items():
        rows = ledger.filter(ledger.column("step").to_numpy() == step)
        assert rows.column("id").to_pylist() == ids
        line = read_metrics(out)[step - 1]
        assert sum(rows.column("tokens").to_pylist()) == line["tokens"]
        assert sum(rows.column("supervised_tokens").to_pylist()) == line["supervised_tokens"]


def test_a_run_that_was_stopped_before_its_export_only_exports(
    mixture: Path, model: Path, out: Path, world: World
) -> None:
    config = run(mixture, model, out, world)
    weights, metrics = ((out / name).read_bytes() for name in ("model/model.safetensors", "metrics.jsonl"))
    (out / "manifest.json").unlink()
    (out / "model" / "model.safetensors").unlink()
    loop.train(mixture, config, out, world)
    assert (out / "model" / "model.safetensors").read_bytes() == weights
    assert (out / "metrics.jsonl").read_bytes() == metrics


def test_an_unfinished_checkpoint_is_not_resumed(mixture: Path, model: Path, out: Path, world: World) -> None:
    run(mixture, model, out, world, save_every=3)
    metrics = (out / "metrics.jsonl").read_bytes()
    (out / "manifest.json").unlink()
    (out / "checkpoints" / "step-6" / "COMPLETED").unlink()
    (out / "checkpoints" / "step-6" / ".metadata").write_bytes(b"")
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 7, "loss"')
    run(mixture, model, out, world, save_every=3)
    assert (out / "metrics.jsonl").read_bytes() == metrics


def test_p38_a_run_that_was_stopped_between_two_passes_goes_on(
    mixture: Path, model: Path, tmp_path: Path, world: World
) -> None:
    """A step is a whole pass over the order, so the checkpoint to resume from lies exactly at the border."""
    config = TrainConfig(model=str(model), **SETTINGS)
    prepare(mixture, config, tmp_path / "plan")
    num_packs = open_inputs(mixture, config, tmp_path / "plan").packs.num_packs
    settings = {"packs_per_step": num_packs, "steps": 3, "save_every": 1, "keep_checkpoints": 3}
    run(mixture, model, tmp_path / "straight", world, **settings)
    shutil.copytree(tmp_path / "straight", tmp_path / "stopped")
    (tmp_path / "stopped" / "manifest.json").unlink()
    for step in (2, 3):
        shutil.rmtree(tmp_path / "stopped" / "checkpoints" / f"step-{step}")
    run(mixture, model, tmp_path / "stopped", world, **settings)
    ledger = read_ledger(tmp_path / "stopped")
    assert ledger.equals(read_ledger(tmp_path / "straight"))
    assert Counter(ledger.column("epoch").to_pylist()) == {0: 36, 1: 36, 2: 36}
    for name in ("metrics.jsonl", "model/model.safetensors"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


def test_a_step_that_is_not_finite_is_not_taken(mixture: Path, model: Path, out: Path, world: World) -> None:
    with pytest.raises(loop.NonFiniteError, match=r"step 2: loss .*sample/a\.jsonl#") as error:
        run(mixture, model, out, world, learning_rate=1e30, warmup_steps=0)
    assert "\n" not in error.value.message and "nan" in error.value.message
    assert [line["step"] for line in read_metrics(out)] == [1]
    assert not (out / "checkpoints").exists()


def test_small_updates_are_not_lost_in_bfloat16(mixture: Path, model: Path, out: Path, world: World) -> None:
    """Weights stay in float32 while the arithmetic is bfloat16."""
    start = (
        build_model(model, TrainConfig(model=str(model), max_tokens=64), 258)
        .causal_lm.get_input_embeddings()
        .weight.detach()
    )
    run(mixture, model, out, world, dtype="bfloat16", learning_rate=1e-6, export_dtype="float32", steps=3)
    end = AutoModelForCausalLM.from_pretrained(out / "model").get_input_embeddings().weight
    moved = (end - start).abs()
    assert moved.max() > 0 and (moved > 0).float().mean() > 0.05
    assert all(math.isfinite(line["loss"]) for line in read_metrics(out))


def test_weights_of_records_scale_their_share_of_the_loss(tmp_path: Path, model: Path, world: World) -> None:
    """One record of weight 3 beside one of weight 1: the loss is their weighted mean."""
    records = [record(0, "q", "short"), record(1, "q", "another answer")]
    losses = {}
    for name, weights in {"left": (1.0, 0.0), "right": (0.0, 1.0), "both": (3.0, 1.0)}.items():
        weighted = [{**item, "loss_weight": weight} for item, weight in zip(records, weights, strict=True)]
        mixture = make_mixture(tmp_path / name, weighted)
        run(mixture, model, tmp_path / f"out-{name}", world, steps=1)
        losses[name] = read_metrics(tmp_path / f"out-{name}")[0]["loss"]
    left, right = len("short") + 1, len("another answer") + 1
    expected = (3 * left * losses["left"] + right * losses["right"]) / (3 * left + right)
    assert losses["both"] == pytest.approx(expected, rel=1e-5)


def test_a_last_step_with_fewer_packs(tmp_path: Path, model: Path, out: Path, world: World) -> None:
    mixture = make_mixture(tmp_path / "mix", sample_records(21))
    run(mixture, model, out, world, steps=None, packs_per_step=4, micro_batch_packs=3)
    num_packs = pq.read_table(out / "packs.parquet").column("pack").to_numpy().max() + 1
    assert len(read_metrics(out)) == -(-num_packs // 4) and num_packs % 4
    assert sorted(read_ledger(out).column("id").to_pylist()) == sorted(item["id"] for item in sample_records(21))
    assert not (out / "eval.json").exists()
