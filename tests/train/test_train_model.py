"""The way through the model: losses by hand, records apart, one tied weight, refusals by name."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from train_samples import make_model
from transformers import AutoModelForCausalLM

from curator.errors import CuratorError
from curator.train.config import TrainConfig
from curator.train.loss import HAS_FUSED, fused_loss, linear_cross_entropy, plain_loss
from curator.train.model import SupervisedModel, build_model


def built(folder: Path, **settings: Any) -> SupervisedModel:
    return build_model(folder, TrainConfig(model=str(folder), max_tokens=64, **settings), num_ids=258)


def test_loss_of_a_hand_made_example() -> None:
    """Two labels over three ids: logits (1, 0, 0) and (0, 0, 2)."""
    hidden = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    weight = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    losses = linear_cross_entropy(hidden, weight, torch.tensor([0, 1]))
    e = torch.e
    expected = [torch.tensor((e + 2) / e).log(), torch.tensor(e**2 + 2).log()]
    torch.testing.assert_close(losses, torch.stack(expected))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.skipif(not HAS_FUSED, reason="this torch has no fused form")
def test_plain_loss_equals_the_fused_one(dtype: torch.dtype) -> None:
    """With random weights for each token, in value and in both gradients."""
    generator = torch.Generator().manual_seed(0)
    results = []
    weights = torch.rand(40, generator=generator, dtype=dtype)
    labels = torch.randint(0, 300, (40,), generator=generator)
    start = [torch.randn(size, 16, generator=generator, dtype=dtype) for size in (40, 300)]
    for function in (plain_loss, fused_loss):
        hidden, head = (tensor.clone().requires_grad_() for tensor in start)
        losses = function(hidden, head, labels)
        (losses * weights).sum().backward()
        results.append((losses.detach(), hidden.grad, head.grad))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("settings", [{}, {"tied": False}, {"hidden_size": 48, "num_attention_heads": 6}])
def test_packed_records_give_the_logits_they_give_alone(tmp_path: Path, settings: dict[str, Any]) -> None:
    """With the model's own forward pass and its stock configuration, through the arguments that training uses."""
    model = built(make_model(tmp_path / "m", **settings))
    generator = torch.Generator().manual_seed(1)
    records = [torch.randint(0, 258, (1, length), generator=generator) for length in (9, 1, 17, 2)]
    positions = torch.cat([torch.arange(record.shape[1]) for record in records])[None]
    with torch.no_grad():
        packed = model.causal_lm(
            input_ids=torch.cat(records, 1), position_ids=positions, attention_mask=None, use_cache=False
        ).logits
        alone = torch.cat([model.causal_lm(input_ids=record, use_cache=False).logits for record in records], 1)
    torch.testing.assert_close(packed, alone, atol=1e-4, rtol=1e-4)
    assert model.causal_lm.config.use_cache, "the configuration is as it came"


def test_a_record_does_not_feel_its_neighbours(model: Path) -> None:
    supervised = built(model)
    positions = torch.cat([torch.arange(8), torch.arange(8)])[None]
    places, labels = torch.arange(8, 15), torch.arange(7)
    ids = torch.arange(16)[None]
    other = ids.clone()
    other[0, :8] = 99
    with torch.no_grad():
        torch.testing.assert_close(
            supervised(ids, positions, places, labels), supervised(other, positions, places, labels)
        )


def test_a_batch_without_supervision_weighs_exactly_nothing(model: Path) -> None:
    supervised = built(model)
    losses = supervised(
        torch.arange(4)[None], torch.arange(4)[None], torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long)
    )
    total = (losses * torch.zeros(1)).sum() / 7.0
    assert total.item() == 0.0
    total.backward()
    for name, parameter in supervised.named_parameters():
        assert parameter.grad is not None, f"{name} is left out of the reduction"
        assert not parameter.grad.any()


def test_random_start_is_seeded(model: Path) -> None:
    def weights(seed: int) -> torch.Tensor:
        return built(model, seed=seed).causal_lm.get_input_embeddings().weight.detach()

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_weights_of_the_folder_are_used_unless_random_is_asked_for(model: Path) -> None:
    start = built(model, seed=5)
    start.causal_lm.save_pretrained(model)
    assert torch.equal(built(model, seed=6).causal_lm.lm_head.weight, start.causal_lm.lm_head.weight)
    assert not torch.equal(built(model, seed=6, init="random").causal_lm.lm_head.weight, start.causal_lm.lm_head.weight)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a smaller vocabulary": ({"vocab_size": 200}, "258 ids, the model embeds 200"),
    "a shorter context": ({"max_position_embeddings": 32}, "max_tokens is 64"),
    "an unknown architecture": ({"model_type": "abacus"}, "cannot load"),
    "scaled logits": (
        {"model_type": "granite", "architectures": ["GraniteForCausalLM"], "logits_scaling": 4.0},
        "more than a linear head",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_would_train_wrongly_are_refused(tmp_path: Path, name: str) -> None:
    settings, words = REFUSED[name]
    with pytest.raises(CuratorError, match=words) as error:
        built(make_model(tmp_path / "m", **settings))
    assert "\n" not in error.value.message


def test_recurrent_state_that_crosses_records_is_refused(tmp_path: Path) -> None:
    folder = make_model(
        tmp_path / "m",
        model_type="mamba",
        architectures=["MambaForCausalLM"],
        state_size=4,
        conv_kernel=4,
        expand=2,
        time_step_rank=2,
    )
    with pytest.raises(CuratorError):
        built(folder)


def test_weights_are_missing(model: Path) -> None:
    with pytest.raises(CuratorError, match="holds no weights"):
        built(model, init="weights")


def test_a_folder_without_config(tmp_path: Path) -> None:
    with pytest.raises(CuratorError, match="no config.json"):
        built(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CuratorError, match="not JSON"):
        built(tmp_path)


def test_export_is_what_transformers_saves(model: Path) -> None:
    """The tied head is not a parameter of its own."""
    supervised = built(model)
    names = [name for name, _ in supervised.named_parameters()]
    assert "causal_lm.lm_head.weight" not in names and "causal_lm.model.embed_tokens.weight" in names
    assert supervised.causal_lm.lm_head.weight is supervised.causal_lm.model.embed_tokens.weight
    supervised.causal_lm.save_pretrained(model)
    assert AutoModelForCausalLM.from_pretrained(model).config.tie_word_embeddings
    assert json.loads((model / "config.json").read_text())["tie_word_embeddings"]
