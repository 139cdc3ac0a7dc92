"""A label classifier on disk: a fastText model and its card, and asking it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator.errors import CuratorError
from curator.extras import require
from curator.io.manifest import digest_bytes
from curator.schema.record import canonical_json
from curator.stages.classify.text import label_lines

FORMAT = "curator.classifier"
FORMAT_VERSION = 2
TEXT_VERSION = 1
"""Of what `label_lines` makes of a text: a model is asked in the form it was trained in."""
MODEL, CARD = "model.bin", "card.json"
UNKNOWN = "unknown"
PREFIX = "__label__"
_REPLACED = "is the library fasttext-community? fasttext and fasttext-predict put other code under the same name"


def fasttext() -> Any:
    """The library. Raises CuratorError when it is missing, or is another one of the same name."""
    module = require("fasttext", "classify")
    if not hasattr(module, "train_supervised") or not hasattr(module, "load_model"):
        raise CuratorError("the installed fasttext can neither train nor load a model", hint=_REPLACED)
    return module


@dataclass(frozen=True)
class Classifier:
    """A model folder, checked; the model itself is loaded by `load`."""

    folder: Path
    card: Mapping[str, Any]

    @classmethod
    def open(cls, folder: Path) -> "Classifier":
        """Raises CuratorError for a folder that is missing, not a classifier, newer, or damaged."""
        hint = "classifiers are made by curator classify train"
        if not folder.is_dir():
            raise CuratorError(f"{folder}: no such model folder", hint=hint)
        try:
            card = json.loads((folder / CARD).read_bytes())
        except FileNotFoundError:
            raise CuratorError(f"{folder} has no {CARD}: it is not a classifier", hint=hint) from None
        except ValueError as error:
            raise CuratorError(f"{folder / CARD} is damaged: {error}", hint=hint) from None
        if not isinstance(card, dict) or card.get("format") != FORMAT:
            raise CuratorError(f"{folder / CARD} is not the card of a classifier", hint=hint)
        if card["format_version"] != FORMAT_VERSION or card["text_version"] != TEXT_VERSION:
            raise CuratorError(
                f"{folder} is for another version of curator", hint="train it again: the card says from what"
            )
        classifier = cls(folder, card)
        if card["model"] != classifier._model_digest:
            raise CuratorError(f"{folder / MODEL} is not the model of its card", hint="copy or train it again")
        return classifier

    @cached_property
    def _model_digest(self) -> str:
        path = self.folder / MODEL
        if not path.is_file():
            raise CuratorError(f"{path} is missing", hint="copy or train it again")
        return digest_bytes(path.read_bytes())

    @cached_property
    def digest(self) -> str:
        """Of everything that an answer depends on."""
        parts = [self.card[name] for name in ("format_version", "text_version", "model", "label", "on", "confidence")]
        return digest_bytes(canonical_json([*parts, [entry["label"] for entry in self.card["classes"]]]))

    @property
    def name(self) -> str:
        return self.card["name"]

    @property
    def field(self) -> str:
        """The metadata field that it fills."""
        return self.card["label"]

    @property
    def on(self) -> str:
        """The selector whose text it reads."""
        return self.card["on"]

    def load(self) -> "Labeller":
        """The model in memory; asked one question at once, so that a broken library is named before any work."""
        module = fasttext()
        try:
            model = module.load_model(str(self.folder / MODEL))
        except (ValueError, RuntimeError) as error:
            raise CuratorError(f"{self.folder / MODEL} cannot be loaded: {error}", hint=_REPLACED) from None
        labels = [entry["label"] for entry in self.card["classes"]]
        confidence = self.card["confidence"]
        labeller = Labeller(Scorer(model), labels, confidence["curves"], confidence["minimum"])
        labeller(pa.array(["a"]))
        return labeller


class Scorer:
    """A fastText model: prepared lines to class numbers and raw confidences."""

    def __init__(self, model: Any) -> None:
        self._model = model
        try:
            self._words = pa.array(model.get_words(), pa.string())
        except (ValueError, TypeError, AttributeError, RuntimeError) as error:
            raise _unusable(error) from None

    def __call__(self, lines: pa.StringArray) -> tuple[np.ndarray, np.ndarray]:
        """Class number (int64, -1 where no token of the line is known) and confidence (float64), each [num_rows]."""
        return self._predict_rows(lines.to_pylist(), self._has_known_token(lines))

    def _has_known_token(self, lines: pa.StringArray) -> np.ndarray:
        """A line end is a token too, so the library answers for nothing at all; we do not."""
        tokens = pc.split_pattern(lines, " ")
        is_known = pc.is_in(tokens.flatten(), self._words).to_numpy(zero_copy_only=False)
        found = np.zeros(len(lines), bool)
        found[pc.list_parent_indices(tokens).to_numpy()[is_known]] = True
        return found

    def _predict_rows(self, lines: list[str], is_asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The library takes a list and gives a list and an array for each line."""
        classes = np.full(len(lines), -1, np.int64)
        confidences = np.zeros(len(lines))
        asked = np.flatnonzero(is_asked)
        if not len(asked):
            return classes, confidences
        try:
            labels, probabilities = self._model.predict([lines[index] for index in asked], k=1)
            if len(labels) != len(asked):
                raise ValueError(f"{len(asked):,} texts gave {len(labels):,} answers")
            for index, names, values in zip(asked, labels, probabilities, strict=True):
                if names:
                    classes[index] = int(names[0].removeprefix(PREFIX))
                    confidences[index] = min(float(values[0]), 1.0)
        except (ValueError, TypeError, AttributeError, RuntimeError) as error:
            raise _unusable(error) from None
        return classes, confidences


def _unusable(error: Exception) -> CuratorError:
    return CuratorError(f"the installed fasttext cannot predict: {error}", hint=_REPLACED)


class Labeller:
    """Texts to labels, calibrated confidences and statuses."""

    def __init__(
        self, scorer: Scorer, labels: Sequence[str], curves: Sequence[Sequence[Sequence[float]]], minimum: float
    ) -> None:
        self._scorer, self._curves, self._minimum = scorer, curves, minimum
        # Number -1 is the last: no label.
        self._labels = pa.array([*labels, UNKNOWN, None], pa.string())

    def __call__(self, texts: pa.StringArray) -> pa.StructArray:
        """Label, confidence and status of every text: `ok`; `unsure` (label `unknown`); `empty` and `unseen` (no token
        that the model knows) without label and confidence."""
        lines = label_lines(texts)
        classes, raw = self._scorer(lines)
        is_answered = classes >= 0
        confidences = calibrated(raw, classes, self._curves)
        is_sure = is_answered & (confidences >= self._minimum)
        unknown = len(self._labels) - 2
        places = np.where(is_sure, classes, np.where(is_answered, unknown, unknown + 1))
        is_empty = pc.equal(pc.binary_length(lines), 0).to_numpy(zero_copy_only=False)
        statuses = np.select([is_empty, ~is_answered, ~is_sure], [0, 1, 2], 3)
        return pa.StructArray.from_arrays(
            [
                self._labels.take(pa.array(places)),
                pa.array(confidences, mask=~is_answered),
                pa.array(["empty", "unseen", "unsure", "ok"]).take(pa.array(statuses)),
            ],
            ["label", "confidence", "status"],
        )


def calibrated(raw: np.ndarray, classes: np.ndarray, curves: Sequence[Sequence[Sequence[float]]]) -> np.ndarray:
    """The share of answers of the same class that were right at a raw confidence, float64 [num_rows], four digits.

    `curves` has a curve for each class, of knots (raw confidence, share); rows of class -1 get 0.
    """
    confidences = np.zeros(len(raw))
    for number, curve in enumerate(curves):
        is_class = classes == number
        knots, shares = np.array(curve, float).T
        confidences[is_class] = np.interp(raw[is_class], knots, shares)
    return np.round(confidences, 4)
