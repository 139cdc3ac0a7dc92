"""A causal language model from a folder, as the trainer sees it: ids in, a loss for each supervised token out."""

import json
import shutil
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from curator.errors import CuratorError
from curator.train.config import TrainConfig
from curator.train.loss import linear_cross_entropy

MASTER_DTYPES = {"float32": torch.float32, "bfloat16": torch.float32, "float64": torch.float64}
"""What the weights are kept in, by `dtype` of the config."""

_WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin")


class SupervisedModel(nn.Module):
    """Backbone, head and loss in one forward pass: sharding hooks see all of it, and logits never exist whole."""

    def __init__(self, causal_lm: PreTrainedModel) -> None:
        super().__init__()
        self.causal_lm = causal_lm

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, chosen: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        """Losses [n] of predicting `labels` [n] at the flat places `chosen` [n] of `ids` [packs, length].

        Positions that restart at 0 keep records apart; that works only without a mask and without a cache.
        """
        output = self.causal_lm.base_model(
            input_ids=ids, position_ids=positions, attention_mask=None, use_cache=False, return_dict=True
        )
        hidden = output.last_hidden_state.flatten(0, 1)[chosen]
        head = cast(nn.Linear, self.causal_lm.get_output_embeddings())
        return linear_cross_entropy(hidden, head.weight, labels)

    def layers(self) -> list[nn.Module]:
        """The decoder layers: the units in which parameters are sharded."""
        wanted = self.causal_lm.config.get_text_config().num_hidden_layers
        for module in self.causal_lm.base_model.modules():
            if isinstance(module, nn.ModuleList) and len(module) == wanted:
                return list(module)
        raise CuratorError(f"{type(self.causal_lm).__name__}: no list of {wanted} decoder layers found")


def has_weights(folder: Path) -> bool:
    return any(any(folder.glob(pattern)) for pattern in _WEIGHT_FILES)


def build_model(folder: Path, config: TrainConfig, num_ids: int) -> SupervisedModel:
    """The model of a folder on the CPU, equal on every rank. Raises CuratorError when it cannot be trained here.

    `num_ids` is the number of ids that the tokenizer can give.
    """
    _check_folder(folder, config)
    disable_progress_bar()
    dtype = MASTER_DTYPES[config.dtype]
    torch.manual_seed(config.seed)
    try:
        if config.init == "random" or (config.init is None and not has_weights(folder)):
            settings = AutoConfig.from_pretrained(folder)
            causal_lm = AutoModelForCausalLM.from_config(settings, dtype=dtype, attn_implementation="sdpa")
        else:
            causal_lm = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa")
    except (OSError, ValueError, KeyError) as error:
        raise CuratorError(f"{folder}: transformers cannot load the model: {str(error).splitlines()[0]}") from None
    model = SupervisedModel(causal_lm.to(dtype))
    _check_sizes(folder, causal_lm, config, num_ids)
    _check_arithmetic(folder, model)
    # Without dropout, so that a run is a function of its inputs at any world size and after any resume.
    return model.eval()


def _check_folder(folder: Path, config: TrainConfig) -> None:
    if not (folder / "config.json").is_file():
        raise CuratorError(f"{folder} has no config.json", hint="train.model names a Hugging Face model folder")
    try:
        json.loads((folder / "config.json").read_bytes())
    except ValueError as error:
        raise CuratorError(f"{folder / 'config.json'} is not JSON: {error}") from None
    if config.init == "weights" and not has_weights(folder):
        raise CuratorError(f"{folder} holds no weights", hint="set init: random to start from the config alone")


def _check_sizes(folder: Path, causal_lm: PreTrainedModel, config: TrainConfig, num_ids: int) -> None:
    rows = _num_embeddings(causal_lm)
    if num_ids > rows:
        raise CuratorError(f"{folder}: the tokenizer has {num_ids:,} ids, the model embeds {rows:,}")
    longest = getattr(causal_lm.config.get_text_config(), "max_position_embeddings", None)
    if longest is not None and config.max_tokens > longest:
        raise CuratorError(
            f"train.max_tokens is {config.max_tokens:,}, the model takes {longest:,}", hint=f"max_tokens: {longest}"
        )


def _num_embeddings(causal_lm: PreTrainedModel) -> int:
    return cast(nn.Embedding, causal_lm.get_input_embeddings()).num_embeddings


@torch.no_grad()
def _check_arithmetic(folder: Path, model: SupervisedModel) -> None:
    """Ask the model itself whether our way through it is its own, and whether it keeps packed records apart.

    Catches at once what would train wrongly without a sign: scaled or capped logits, a head with a bias, attention or
    recurrent state that does not look at positions.
    """
    record = torch.arange(4)[None] % _num_embeddings(model.causal_lm)
    places, labels = torch.arange(3), record[0, 1:]
    positions = torch.arange(4)[None]
    alone = model(record, positions, places, labels)
    logits = model.causal_lm(input_ids=record, use_cache=False).logits[0, :3].to(alone.dtype)
    own = nn.functional.cross_entropy(logits, labels, reduction="none")
    packed = model(torch.cat([record.flip(1), record], 1), torch.cat([positions] * 2, 1), places + 4, labels)
    name = type(model.causal_lm).__name__
    if not torch.allclose(alone, own, rtol=1e-4, atol=1e-4):
        raise CuratorError(f"{folder}: {name} does more than a linear head after its layers; it is not supported")
    if not torch.allclose(alone, packed, rtol=1e-4, atol=1e-4):
        raise CuratorError(f"{folder}: {name} does not keep packed records apart; it is not supported")


def export_model(
    model: SupervisedModel, state: dict[str, Any], config: TrainConfig, source: Path, out: Path, eos_id: int | None
) -> None:
    """Write a folder that transformers loads: safetensors, config, generation config, tokenizer and template.

    `state` is the full state dict of `model`; tied weights are stored once. Where the model does not say at which id
    generation ends, `eos_id` does. The name appears when it is complete.
    """
    name = config.export_dtype or ("bfloat16" if config.dtype == "bfloat16" else "float32")
    dtype = getattr(torch, name)
    prefix = "causal_lm."
    # A tied head is listed here under its first name only.
    own = {key for key, _ in [*model.named_parameters(), *model.named_buffers()]}
    weights = {key.removeprefix(prefix): value.to(dtype) for key, value in state.items() if key in own}
    temporary = out.with_name(f".tmp-{out.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    causal_lm = model.causal_lm
    if causal_lm.generation_config.eos_token_id is None:
        causal_lm.generation_config.eos_token_id = eos_id
    causal_lm.save_pretrained(temporary, state_dict=weights)
    # transformers notes the dtype that the model was trained in.
    settings = json.loads((temporary / "config.json").read_bytes()) | {"dtype": name}
    (temporary / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
    for path in sorted(source.iterdir()):
        if path.name in _TOKENIZER_FILES or path.suffix == ".jinja":
            shutil.copyfile(path, temporary / path.name)
    shutil.rmtree(out, ignore_errors=True)
    temporary.rename(out)


_TOKENIZER_FILES = {
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
}
