"""What a classifier's card says: figures from rows that the judging model had not seen, and the README made of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def figures(
    labels: Sequence[str], classes: np.ndarray, predicted: np.ndarray, confidences: np.ndarray, minimum: float
) -> dict[str, Any]:
    """Precision and recall of every class, with and without the answers below `minimum`; accuracy; confusion.

    `predicted` is -1 where there was no answer; that counts as wrong, not as another class. A precision without
    answers is null. The minimum's curve was fitted to the same answers, so coverage and precision at it are a
    little better than on other rows.
    """
    num_classes = len(labels)
    is_sure = (predicted >= 0) & (confidences >= minimum)
    confusion = np.zeros((num_classes, num_classes + 1), np.int64)
    np.add.at(confusion, (classes, np.where(predicted < 0, num_classes, predicted)), 1)
    sure = np.zeros((num_classes, num_classes), np.int64)
    np.add.at(sure, (classes[is_sure], predicted[is_sure]), 1)
    return {
        "classes": [
            {
                "label": label,
                "rows": int(confusion[number].sum()),
                "precision": _ratio(confusion[number, number], confusion[:, number].sum()),
                "recall": _ratio(confusion[number, number], confusion[number].sum()),
                "sure_precision": _ratio(sure[number, number], sure[:, number].sum()),
                "sure_recall": _ratio(sure[number, number], confusion[number].sum()),
            }
            for number, label in enumerate(labels)
        ],
        "accuracy": _ratio(np.trace(confusion), confusion.sum()),
        "confidence": {
            "coverage": _ratio(is_sure.sum(), len(classes)),
            "accuracy": _ratio(np.trace(sure), sure.sum()),
        },
        "confusion": {"answers": [*labels, None], "rows": confusion.tolist()},
    }


def _ratio(part: Any, whole: Any) -> float | None:
    return round(float(part) / float(whole), 4) if whole else None


CLASS_HEADER = ("class", "rows", "precision", "recall", "precision if sure", "recall if sure")


def class_rows(classes: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """The lines of the table of classes."""
    names = ("label", "rows", "precision", "recall", "sure_precision", "sure_recall")
    return [tuple(entry[name] for name in names) for entry in classes]


def summary_rows(card: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What is said about a whole model, in order."""
    minimum = card["confidence"]["minimum"]
    return [
        ("accuracy", card["accuracy"]),
        ("accuracy of the largest class for all", card["baselines"]["largest_class"]),
        ("accuracy by length of text alone", card["baselines"]["length_alone"]),
        (f"share with confidence {minimum} or more", card["confidence"]["coverage"]),
        ("accuracy of those", card["confidence"]["accuracy"]),
    ]


def card_text(card: Mapping[str, Any]) -> bytes:
    """The card for people, as Markdown. `notes` and `unseen` are said where the card has them."""
    settings = card["fingerprint"]["settings"]
    by = f", rows with the same `{settings['group_by']}` always together" if settings["group_by"] else ""
    lines = [
        f"# {card['name']}",
        "",
        f"A fastText classifier: the text of selector `{card['on']}` to `metadata.{card['label']}`. Below a confidence "
        f"of {card['confidence']['minimum']} it says `unknown`. Made by `curator classify train`; `card.json` has "
        "every figure, setting and digest.",
        "",
        *(f"- {note}" for note in card.get("notes", ())),
        *([""] if card.get("notes") else []),
        f"## Cross-validation, {card['folds']} folds{by}",
        "",
        "Every row is judged by a model that has not seen its fold. *If sure* leaves out answers below the minimum: "
        "what is not `unknown`.",
        "",
        *_table(CLASS_HEADER, class_rows(card["classes"])),
        "",
        *_table(("over all classes", ""), summary_rows(card)),
        "",
        *_unseen(card.get("unseen", ())),
        "## Trained on",
        "",
        *_table(
            ("source", "licence", "rows"),
            [(entry["source"], entry["license"], entry["rows"]) for entry in card["training"]["sources"]],
        ),
    ]
    if card["training"]["left_out"]:
        reasons = (f"{reason} {count:,}" for reason, count in card["training"]["left_out"].items())
        lines += ["", f"Left out: {', '.join(reasons)}."]
    return ("\n".join(lines) + "\n").encode()


def _unseen(sets: Sequence[Mapping[str, Any]]) -> list[str]:
    """Figures on whole sets that took no part in training, `unknown` and no label counted as missed."""
    lines: list[str] = []
    for entry in sets:
        names = ("label", "rows", "precision", "recall")
        totals = [
            ("rows", entry["rows"]),
            ("share of the largest class", entry["largest_class"]),
            ("share that gets a label", entry["coverage"]),
            ("accuracy of those labels", entry["accuracy"]),
        ]
        lines += [f"## On a set that it has not seen: {entry['name']}", "", entry["about"], ""]
        lines += [*_table(("class", *names[1:]), [[row[name] for name in names] for row in entry["classes"]]), ""]
        lines += [*_table(("over all classes", ""), totals), ""]
    return lines


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return lines + ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|")
