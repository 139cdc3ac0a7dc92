"""What a person asks of a mixture: the `mix` part of a recipe, or a file of its own."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curator.errors import UsageError
from curator.schema.check import build, did_you_mean, load_yaml
from curator.schema.record import KINDS

OTHERS = "*"
"""In `weights.by`, the key that stands for every value not named."""


@dataclass(frozen=True)
class Budget:
    """How much training is to see, in one unit. Neither set: as much as the asked shares allow under `max_epochs`."""

    rows: int | None = None
    """Records, repetitions counted."""
    supervised_tokens: int | None = None
    """Tokens that carry loss, as counted by `tag tokens`."""

    def __post_init__(self) -> None:
        if self.rows is not None and self.supervised_tokens is not None:
            raise UsageError("mix.budget: rows and supervised_tokens exclude each other", hint="keep one of them")
        for name, value in (("rows", self.rows), ("supervised_tokens", self.supervised_tokens)):
            if value is not None and value < 1:
                raise UsageError(f"mix.budget.{name} is {value}, it must be at least 1")


@dataclass(frozen=True)
class Weights:
    """How much more (or less) than its natural share a slice or a record gets; factors multiply."""

    by: dict[str, dict[str | bool | int | None, float]] = field(default_factory=dict)
    """Metadata field to value to factor; values not named have 1, or the factor of `*`; `null` names absent values."""
    expression: str | None = None
    """A number for each record (SQL, see `filter where`); null or negative is an error."""

    def __post_init__(self) -> None:
        # YAML reads true, null and 3 as values; a slice is known by text.
        texts = {name: {value_text(value): factor for value, factor in row.items()} for name, row in self.by.items()}
        object.__setattr__(self, "by", texts)
        for name, factors in self.by.items():
            for value, factor in factors.items():
                if not 0 <= factor < float("inf"):
                    raise UsageError(f"mix weight of {name}={value} is {factor}, it must be 0 or more")

    def factor(self, values: Mapping[str, str]) -> float:
        """The factor of a slice, given its value for each field (as text)."""
        result = 1.0
        for name, factors in self.by.items():
            result *= factors.get(values[name], factors.get(OTHERS, 1.0))
        return result


@dataclass(frozen=True)
class Splits:
    """Rows held out of training."""

    validation: float = 0.0
    """Share, 0 to 0.5, of the records that may enter the mixture, whatever part of them the budget then takes."""
    by: str = "dedup.component"
    """Rows with the same value stay on one side; where it is null, the record stands alone."""

    def __post_init__(self) -> None:
        if not 0 <= self.validation <= 0.5:
            raise UsageError(f"mix.splits.validation is {self.validation}, it must lie between 0 and 0.5")


@dataclass(frozen=True)
class Phase:
    """A part of training with its own weights, multiplied onto the mixture's."""

    name: str
    """Shown by `curator order`."""
    until: str
    """Where it ends, in percent of the budget: `60%`; the last one ends at `100%`."""
    weights: Weights = field(default_factory=Weights)
    """Multiplied onto the mixture's weights."""

    def end(self) -> float:
        """The end as a fraction of the budget."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", self.until)
        if not match or not 0 < float(match[1]) <= 100:
            raise UsageError(f"mix.phases.{self.name}.until is {self.until!r}", hint="write a percentage such as 60%")
        return float(match[1]) / 100


@dataclass(frozen=True)
class MixSpec:
    """A mixture: budget, weights, caps, splits and phases."""

    budget: Budget = field(default_factory=Budget)
    """How much training is to see; without it, as much as the asked shares allow under `max_epochs`."""
    weights: Weights = field(default_factory=Weights)
    """Factors on the natural shares (those of the records at hand, in rows or tokens as the budget counts)."""
    max_epochs: float = 1.0
    """No record is seen more often than this over the whole training (per slice on average, when not whole)."""
    splits: Splits = field(default_factory=Splits)
    """What is held out for validation."""
    phases: tuple[Phase, ...] = ()
    """Parts of training with weights of their own, in order."""
    kinds: tuple[str, ...] = KINDS
    """Record kinds that may enter; others are dropped by rule `kind`."""
    seed: int = 0
    """Of splits and order: the same spec, records and seed give the same mixture."""

    def __post_init__(self) -> None:
        if not 0 < self.max_epochs <= 10_000:
            raise UsageError(f"mix.max_epochs is {self.max_epochs}, it must be above 0")
        for kind in self.kinds:
            if kind not in KINDS:
                raise UsageError(f"mix.kinds: unknown kind {kind!r}", hint=did_you_mean(kind, KINDS))
        ends = [phase.end() for phase in self.phases]
        if ends and (ends != sorted(set(ends)) or ends[-1] != 1.0):
            raise UsageError("mix.phases: until must rise, and the last phase ends at 100%")
        if len({phase.name for phase in self.phases}) < len(self.phases):
            raise UsageError("mix.phases: two phases have the same name")

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any] | None, where: str = "mix") -> "MixSpec":
        return build(cls, mapping or {}, where)

    @classmethod
    def from_file(cls, path: Path) -> "MixSpec":
        """Read a YAML file that holds what a recipe has under `mix` (the key itself may stand on top)."""
        if not path.exists() or path.is_dir():
            raise UsageError(f"{path}: no such file", hint="--spec names a YAML file with budget, weights, splits")
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise UsageError(f"{path}: not text in UTF-8") from None
        data = load_yaml(text, str(path))
        if data is None:
            raise UsageError(f"{path}: a mixture is a set of keys", hint="budget, weights, max_epochs, splits, phases")
        if isinstance(data, Mapping) and set(data) == {"mix"}:
            data = data["mix"]
        return cls.from_mapping(data, str(path))

    def slice_fields(self) -> list[str]:
        """The metadata fields that some weight names, in order; `source` when none does."""
        fields = [*self.weights.by, *(name for phase in self.phases for name in phase.weights.by)]
        return list(dict.fromkeys(fields)) or ["source"]

    def expressions(self) -> list[str]:
        """The distinct weight expressions, in order."""
        found = [self.weights.expression, *(phase.weights.expression for phase in self.phases)]
        return list(dict.fromkeys(text for text in found if text))


def value_text(value: str | bool | int | None) -> str:
    """A value of a metadata field as slices show it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return NULL_VALUE if value is None else str(value)


NULL_VALUE = "null"
"""How a slice shows that a record has no value for a field."""
