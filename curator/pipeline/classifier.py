"""classify train: a label that records carry becomes a model folder: fastText model, card with figures, README."""

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version as library_version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator import log
from curator.errors import CuratorError, UsageError
from curator.io.dataset import Dataset, check_columns
from curator.io.manifest import digest_bytes, first_difference, placing, write_atomic
from curator.pipeline.classifier_card import card_text, figures
from curator.pipeline.classifier_rows import MIN_ROWS, Rows, assign_folds, collect_rows
from curator.schema.record import column_type
from curator.schema.selectors import check_selector
from curator.stages.classify.labels import NOT_LABELS
from curator.stages.classify.model import (
    CARD,
    FORMAT,
    FORMAT_VERSION,
    MODEL,
    PREFIX,
    TEXT_VERSION,
    UNKNOWN,
    Scorer,
    calibrated,
    fasttext,
)

VERSION = "2"
README = "README.md"

# fastText, by trial on whole sets that were left out: single words do better there than pairs of words (which learn how
# a set is phrased), and more than 8 dimensions, word pieces or ready-made word vectors change nothing that can be told
# from chance.
_LEARNING_RATE = 0.5
_SEEN_ROWS = 20_000
"""Rows shown in all epochs together, between 5 and 25 epochs."""


@dataclass(frozen=True)
class TrainSettings:
    """What a model is a function of, besides its rows."""

    label: str
    """Metadata field that holds the label; rows without one are left out, `unknown` counts as none."""
    on: str = "prompt"
    """Selector whose text is learned from."""
    folds: int = 5
    """Parts of the rows; each is predicted by a model trained on the others, and all figures come from that."""
    group_by: str | None = None
    """Column whose equal values stay in one fold: `metadata.source` shows how a set is judged that was never seen."""
    min_confidence: float = 0.7
    """Calibrated confidence below which the label is `unknown`."""
    max_rows: int = 20_000
    """Rows of one class that are used; of more, a sample by id."""
    seed: int = 0
    """Of samples, folds and the order of training."""

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise UsageError(f"--folds {self.folds}", hint="at least 2")
        if not 0 <= self.min_confidence < 1:
            raise UsageError(f"--min-confidence {self.min_confidence}", hint="a share, from 0 to below 1")
        if self.max_rows < MIN_ROWS:
            raise UsageError(f"--max-rows {self.max_rows}", hint=f"at least {MIN_ROWS} for each class")
        if self.field in NOT_LABELS or not self.field.isidentifier():
            raise UsageError(f"--label {self.label}: not a label", hint="a metadata field of text, as metadata.domain")
        check_selector(self.on, "--on")

    @property
    def field(self) -> str:
        return self.label.removeprefix("metadata.")


@dataclass
class Trained:
    """What a training did."""

    out: Path
    card: dict[str, Any]
    reused: bool = False
    """The folder was complete already; nothing was done."""


def train_classifier(inputs: Sequence[Path], settings: TrainSettings, out: Path, overwrite: bool = False) -> Trained:
    """Train, validate and write a model folder. The same rows and settings give the same bytes, in whatever folders,
    shards and order the rows lie.

    Raises CuratorError when a class has too few rows or groups, or `out` holds something else.
    """
    library = fasttext()
    dataset = Dataset.open(*inputs)
    _check_label(dataset, settings)
    fingerprint = _fingerprint(dataset, settings)
    previous = _previous(out, fingerprint, overwrite)
    if previous is not None:
        return Trained(out, previous, reused=True)
    with tempfile.TemporaryDirectory(prefix="curator-train-") as scratch:
        path = f"metadata.{settings.field}"
        rows = collect_rows(
            dataset, path, settings.on, settings.group_by, settings.max_rows, settings.seed, Path(scratch)
        )
        folds = assign_folds(rows, settings.folds, settings.group_by)
        predicted, raw = _validate(library, rows, folds, settings.seed, Path(scratch))
        # A class is calibrated on its own: among answers of the same raw confidence, those of a rare or vague class are
        # wrong more often.
        is_right = predicted == rows.classes
        curves = [
            _calibration(raw[predicted == number], is_right[predicted == number]) for number in range(len(rows.labels))
        ]
        confidences = calibrated(raw, predicted, curves)
        measured = figures(rows.labels, rows.classes, predicted, confidences, settings.min_confidence)
        measured["baselines"] = {
            "largest_class": round(float(np.bincount(rows.classes).max() / len(rows.classes)), 4),
            "length_alone": _length_alone(rows.lengths, rows.classes, folds),
        }
        everything = np.arange(len(rows.classes))
        log.info(f"training on all {len(everything):,} rows")
        model = _fit(library, rows, everything, settings.seed, Path(scratch))
        model.save_model(str(Path(scratch) / MODEL))
        data = (Path(scratch) / MODEL).read_bytes()
    card = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "text_version": TEXT_VERSION,
        "name": settings.field,
        "label": settings.field,
        "on": settings.on,
        **measured,
        "folds": len(np.unique(folds)),
        "confidence": {"minimum": settings.min_confidence, "curves": curves, **measured["confidence"]},
        "training": {
            "rows": len(rows.classes),
            "left_out": rows.left_out,
            "sources": rows.sources,
            "fasttext": _fit_settings(len(rows.classes), len(rows.labels), settings.seed),
        },
        "fingerprint": fingerprint,
        "model": digest_bytes(data),
    }
    surest = [curve[-1][1] for curve in curves]
    if max(surest) < settings.min_confidence:
        log.warn(
            f"no answer is right in {settings.min_confidence:.0%} of cases, the surest in {max(surest):.0%}: every "
            f"label would be {UNKNOWN}; a lower --min-confidence lets some through"
        )
    elif never := [name for name, share in zip(rows.labels, surest, strict=True) if share < settings.min_confidence]:
        log.warn(f"never sure enough, so always {UNKNOWN}: {', '.join(never)}")
    _write(out, {MODEL: data, CARD: json.dumps(card, indent=1, ensure_ascii=False).encode(), README: card_text(card)})
    return Trained(out, card)


# --- what is there, and what may be replaced --------------------------------------------------------------------


def _check_label(dataset: Dataset, settings: TrainSettings) -> None:
    path = f"metadata.{settings.field}"
    check_columns(dataset.schema, [path, *([settings.group_by] if settings.group_by else [])], "classify train")
    if (type_ := column_type(dataset.schema, path)) != pa.string():
        raise UsageError(f"--label {settings.label}: {path} is {type_}", hint="a label is text")
    if settings.group_by and pa.types.is_nested(column_type(dataset.schema, settings.group_by)):
        raise UsageError(f"--group-by {settings.group_by} is not one value", hint="for example metadata.source")


def _fingerprint(dataset: Dataset, settings: TrainSettings) -> dict[str, Any]:
    """Content of the rows, not where they lie or in which order the folders are named."""
    return {
        "version": VERSION,
        "settings": {**asdict(settings), "label": settings.field},
        "inputs": sorted(manifest.digest for manifest in dataset.manifests),
        "fasttext": library_version("fasttext-community"),
    }


def _previous(out: Path, fingerprint: dict[str, Any], overwrite: bool) -> dict[str, Any] | None:
    """The card of a finished folder with this fingerprint. Raises CuratorError for anything else that is in the way."""
    if not out.exists():
        return None
    if not out.is_dir():
        raise CuratorError(f"{out} is a file", hint="name a folder for --out")
    strays = sorted(entry.name for entry in out.iterdir() if entry.name not in (MODEL, CARD, README))
    if strays:
        raise CuratorError(f"{out} is not empty and not a model folder (it holds {strays[0]})", hint="another --out")
    try:
        card = json.loads((out / CARD).read_bytes())
        is_whole = card["model"] == digest_bytes((out / MODEL).read_bytes())
    except (OSError, ValueError, TypeError, KeyError):
        card, is_whole = {}, False
    if is_whole and card.get("fingerprint") == fingerprint:
        return card
    if any(out.iterdir()) and not overwrite:
        difference = first_difference(card.get("fingerprint", {}), fingerprint) if is_whole else "it is damaged"
        raise CuratorError(
            f"{out} was made with other inputs or settings: {difference}",
            hint="--overwrite replaces it, or choose another --out",
        )
    return None


def _write(out: Path, files: dict[str, bytes]) -> None:
    """A folder under a temporary name, then the rename; a reader never meets half a model."""
    temporary = out.with_name(f".tmp-{out.name}-{os.getpid()}")
    with placing(out):
        temporary.mkdir(parents=True)
        try:
            for name, data in files.items():
                write_atomic(temporary / name, data)
            if out.exists():
                shutil.rmtree(out)
            temporary.rename(out)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


# --- training -----------------------------------------------------------------------------------------------------


def _fit_settings(num_rows: int, num_classes: int, seed: int) -> dict[str, Any]:
    """What fastText is told; one thread, for more of them race."""
    return {
        "dim": max(8, min(64, num_classes)),
        "wordNgrams": 1,
        "lr": _LEARNING_RATE,
        "epoch": max(5, min(25, _SEEN_ROWS // num_rows)),
        "minCount": 2 if num_rows >= 1_000 else 1,
        "loss": "softmax",
        "seed": seed,
        "thread": 1,
    }


def _fit(library: Any, rows: Rows, chosen: np.ndarray, seed: int, scratch: Path) -> Any:
    """A fastText model of these rows."""
    path = scratch / "train.txt"
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for part, lines in rows.chunks(chosen):
            names = pa.array([f"{PREFIX}{number} " for number in rows.classes[part].tolist()])
            file.write("\n".join(pc.binary_join_element_wise(names, lines, "").to_pylist()) + "\n")
    try:
        model = library.train_supervised(str(path), verbose=0, **_fit_settings(len(chosen), len(rows.labels), seed))
    except (ValueError, RuntimeError, TypeError) as error:
        raise CuratorError(f"fastText could not train: {error}", hint="is the library fasttext-community?") from None
    path.unlink()
    return model


def _validate(library: Any, rows: Rows, folds: np.ndarray, seed: int, scratch: Path) -> tuple[np.ndarray, np.ndarray]:
    """Class and raw confidence of every row, from a model that has not seen the row's fold."""
    predicted = np.full(len(rows.classes), -1, np.int64)
    raw = np.zeros(len(rows.classes))
    numbers = np.unique(folds)  # fewer than were asked for where there are fewer groups
    with log.progress(len(numbers), "validating", "folds") as bar:
        for fold in numbers:
            score = Scorer(_fit(library, rows, np.flatnonzero(folds != fold), seed, scratch))
            for part, lines in rows.chunks(np.flatnonzero(folds == fold)):
                predicted[part], raw[part] = score(lines)
            bar.advance()
    return predicted, raw


def _calibration(raw: np.ndarray, is_right: np.ndarray) -> list[list[float]]:
    """Raw confidence to the share of answers that were right, as a rising curve of at most 20 points.

    Bins of equal numbers of answers, then pooled until they rise (pool adjacent violators; Zadrozny and Elkan, 2002).
    Each share counts one right and one wrong answer more than there were, so that a small bin is never certain.
    """
    order = np.argsort(raw, kind="stable")
    num_bins = max(1, min(20, len(raw) // 50))
    pools: list[list[float]] = []
    for places in np.array_split(order, num_bins):
        pools.append([float(raw[places].sum()), float(is_right[places].sum()), float(len(places))])
        while len(pools) > 1 and _share(pools[-2]) >= _share(pools[-1]):
            last = pools.pop()
            pools[-1] = [left + right for left, right in zip(pools[-1], last, strict=True)]
    return [[round(pool[0] / max(pool[2], 1.0), 6), round(_share(pool), 4)] for pool in pools]


def _share(pool: list[float]) -> float:
    return (pool[1] + 1) / (pool[2] + 2)


def _length_alone(lengths: np.ndarray, classes: np.ndarray, folds: np.ndarray) -> float:
    """How often a text's length alone tells the class: the commonest class among the 5 % of rows of like length, in the
    other folds. A model that is no better has learned nothing else."""
    right = 0
    for fold in np.unique(folds):
        seen, unseen = folds != fold, folds == fold
        edges = np.quantile(lengths[seen], np.linspace(0, 1, 21)[1:-1])
        counts = np.zeros((20, int(classes.max()) + 1), np.int64)
        np.add.at(counts, (np.searchsorted(edges, lengths[seen]), classes[seen]), 1)
        right += int((counts.argmax(axis=1)[np.searchsorted(edges, lengths[unseen])] == classes[unseen]).sum())
    return round(right / len(classes), 4)
