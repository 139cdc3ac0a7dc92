"""What a person decides about a training run. Every field has a default but the model."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from curator.errors import UsageError


@dataclass(frozen=True)
class TrainConfig:
    """Settings of one run."""

    model: str
    """Model folder: config.json, tokenizer, chat template with generation marks, and weights unless `init: random`."""
    init: Literal["weights", "random"] | None = None
    """Start from the folder's weights or from a seeded random start; null: weights where the folder has them."""
    use: Literal["chosen"] | None = None
    """`chosen` trains on the chosen answer of preference records; null refuses them."""
    max_tokens: int = 2048
    """Length of a pack, and so of the longest record."""
    too_long: Literal["drop", "truncate"] = "drop"
    """What happens to a record longer than a pack. `truncate` cuts its end; both are counted."""
    packs_per_step: int = 8
    """Packs in one optimizer step, over all ranks; the same at any world size."""
    micro_batch_packs: int = 1
    """Packs in one forward pass of one rank."""
    steps: int | None = None
    """Optimizer steps; the order begins again when it is through."""
    epochs: int | None = None
    """Passes over the order, instead of `steps`. Neither: one pass."""
    learning_rate: float = 2e-5
    warmup_steps: int | None = None
    """Steps of linear rise from 0; null: `warmup_fraction`."""
    warmup_fraction: float = 0.03
    """Share of all steps that the rise takes."""
    decay: Literal["linear", "cosine", "none"] = "cosine"
    """How the rate falls, from the end of the rise to 0 after the last step."""
    weight_decay: float = 0.0
    """On matrices only, not on norms and biases."""
    betas: tuple[float, float] = (0.9, 0.95)
    max_grad_norm: float = 1.0
    """Global norm to which gradients are clipped."""
    seed: int = 0
    dtype: Literal["float32", "bfloat16", "float64"] = "float32"
    """Arithmetic of the model. `bfloat16` keeps float32 weights and casts for compute; `float64` is for tests."""
    export_dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """Of the exported weights; null: bfloat16 after bfloat16 training, else float32."""
    save_every: int | None = None
    """Steps between checkpoints; null: only after the last step."""
    keep_checkpoints: int = 2
    """How many checkpoints stay on disk."""
    eval_every: int | None = None
    """Steps between validation losses; null: only after the last step."""

    def __post_init__(self) -> None:
        for name in ("packs_per_step", "micro_batch_packs", "keep_checkpoints"):
            self._require(name, getattr(self, name) >= 1, "must be at least 1")
        for name in ("steps", "epochs", "save_every", "eval_every"):
            self._require(name, getattr(self, name) is None or getattr(self, name) >= 1, "must be at least 1")
        self._require("max_tokens", self.max_tokens >= 2, "must be at least 2")
        self._require("steps", self.steps is None or self.epochs is None, "and epochs exclude each other")
        self._require("learning_rate", 0 < self.learning_rate < float("inf"), "must be above 0")
        self._require("warmup_steps", self.warmup_steps is None or self.warmup_steps >= 0, "must be 0 or more")
        self._require("warmup_fraction", 0 <= self.warmup_fraction <= 1, "must lie between 0 and 1")
        self._require("weight_decay", 0 <= self.weight_decay < float("inf"), "must be 0 or more")
        self._require("betas", all(0 <= beta < 1 for beta in self.betas), "must lie between 0 and 1")
        self._require("max_grad_norm", self.max_grad_norm > 0, "must be above 0")

    def _require(self, name: str, is_met: bool, rule: str) -> None:
        if not is_met:
            raise UsageError(f"train.{name} is {getattr(self, name)!r}, it {rule}".replace(", it and", " and it and"))

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any] | None, where: str = "train") -> "TrainConfig":
        """From what YAML gives. Unknown keys are errors with a suggestion."""
        from curator.schema.check import build

        return build(cls, mapping or {}, where)

    @classmethod
    def from_file(cls, path: str | Path) -> "TrainConfig":
        """Read a YAML file that holds what a recipe has under `train` (the key itself may stand on top)."""
        from curator.schema.check import load_yaml

        path = Path(path)
        if not path.exists() or path.is_dir():
            raise UsageError(f"{path}: no such file", hint="--config names a YAML file with model, steps and so on")
        data = load_yaml(path.read_text(), str(path))
        if isinstance(data, Mapping) and set(data) == {"train"}:
            data = data["train"]
        return cls.from_mapping(data, str(path))

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "betas": list(self.betas)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TrainConfig":
        """The inverse of `to_json`: no check of keys, for a rank that is handed a resolved config."""
        return cls(**{**data, "betas": tuple(data["betas"])})

    def num_steps(self, num_packs: int) -> int:
        """Optimizer steps of a run over an order of `num_packs` packs; the last one may hold fewer packs."""
        if self.steps is not None:
            return self.steps
        return -(-num_packs * (self.epochs or 1) // self.packs_per_step)

    def num_packs_seen(self, num_packs: int) -> int:
        """Packs that the run consumes, repetitions included."""
        wanted = self.num_steps(num_packs) * self.packs_per_step
        return wanted if self.steps is not None else min(wanted, num_packs * (self.epochs or 1))

    def learning_rate_at(self, step: int, num_steps: int) -> float:
        """Rate of the step numbered from 1; the first of `w` warm-up steps has 1/w of it, the last step is above 0."""
        warmup = round(self.warmup_fraction * num_steps) if self.warmup_steps is None else self.warmup_steps
        if step <= warmup:
            return self.learning_rate * step / warmup
        if self.decay == "none":
            return self.learning_rate
        left = (num_steps - step + 1) / (num_steps - warmup + 1) if step <= num_steps else 0.0
        if self.decay == "linear":
            return self.learning_rate * left
        from math import cos, pi

        return self.learning_rate * 0.5 * (1 + cos(pi * (1 - left)))
