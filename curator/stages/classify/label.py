"""classify.apply: a label from a trained model; classify.domain and classify.difficulty: from the models that ship."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

import curator
from curator.schema.record import score_type
from curator.schema.selectors import select_text, selector_columns
from curator.stages.base import RowFunction, RowStage
from curator.stages.classify.labels import check_text_field, label_reads, labelled, rows_to_label
from curator.stages.classify.model import UNKNOWN, Classifier, fasttext

SHIPPED = Path(curator.__file__).parent / "data"
"""One folder for each model that comes with curator."""
BUILTIN = "builtin"


@dataclass(frozen=True)
class Apply(RowStage):
    """The field that the model's card names, where it is null, and `scores.<field>_confidence`.

    The confidence is calibrated: the share of answers like this one that were right when the model was trained, on
    rows that it had not seen. Below the card's minimum the label is `unknown` (status `unsure`). A text without any
    token that the model knows gets neither label nor confidence.
    """

    name: ClassVar[str] = "classify.apply"
    builtin: ClassVar[str | None] = None
    """Folder in `SHIPPED` that the model `builtin` stands for."""

    model: str
    """Model folder, made by `curator classify train`."""
    overwrite_labels: bool = False
    """Replace labels that are there already; `unknown` replaces none."""

    @cached_property
    def _classifier(self) -> Classifier:
        ships = self.builtin is not None and self.model == BUILTIN
        return Classifier.open(SHIPPED / str(self.builtin) if ships else Path(self.model))

    def settings(self) -> dict[str, Any]:
        # The model's content decides, not where it lies.
        return {"model": self._classifier.digest, "overwrite_labels": self.overwrite_labels}

    def reads(self, schema: pa.Schema) -> Sequence[str]:
        return [*selector_columns(self._classifier.on), *label_reads(schema, self._classifier.field)]

    def writes(self, schema: pa.Schema) -> Mapping[str, pa.DataType]:
        field = self._classifier.field
        return {f"metadata.{field}": pa.string(), f"scores.{field}_confidence": score_type(pa.float64())}

    def prepare(self, schema: pa.Schema) -> None:
        fasttext()
        check_text_field(schema, self._classifier.field, self.name)

    def open(self) -> RowFunction:
        classifier = self._classifier
        label = classifier.load()
        by = f"{classifier.name}@{self.version}:{classifier.digest[:12]}"

        def tag(batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
            rows = rows_to_label(batch, classifier.field, self.overwrite_labels)
            found = label(select_text(batch if rows is None else batch.take(rows), classifier.on))
            return labelled(batch, classifier.field, rows, found, by, {UNKNOWN})

        return tag

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "overwrite_labels": self.overwrite_labels}


@dataclass(frozen=True)
class Domain(Apply):
    """`metadata.domain`; what the classes are and how well they are told apart: `curator/data/domain/README.md`."""

    name: ClassVar[str] = "classify.domain"
    builtin: ClassVar[str | None] = "domain"

    model: str = BUILTIN
    """Model folder; `builtin`: the one that comes with curator."""


@dataclass(frozen=True)
class Difficulty(Apply):
    """`metadata.difficulty` of mathematics; how far it can be trusted: `curator/data/difficulty/README.md`."""

    name: ClassVar[str] = "classify.difficulty"
    builtin: ClassVar[str | None] = "difficulty"

    model: str = BUILTIN
    """Model folder; `builtin`: the one that comes with curator."""
