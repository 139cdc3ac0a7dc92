"""Figures on sets that a model has not seen, into its card.

    python recipes/classifiers/evaluate.py MODEL FOLDER

FOLDER is a dataset behind `curator classify apply`: the model's answer in its field, the right one in `truth`.
"""

import json
import sys
from pathlib import Path
from typing import Any

import duckdb

from curator.io.manifest import write_atomic
from curator.pipeline.classifier_card import card_text


def figures(counts: list[tuple[str, str | None, int]]) -> dict[str, Any]:
    """(truth, answer, rows) to precision and recall by class; `unknown` and null are no answer."""
    rows = sum(count for _, _, count in counts)
    labels = sorted({truth for truth, _, _ in counts})
    given = [entry for entry in counts if entry[1] not in (None, "unknown")]

    def total(entries: list[tuple[str, str | None, int]]) -> int:
        return sum(count for _, _, count in entries)

    def ratio(part: int, whole: int) -> float | None:
        return round(part / whole, 4) if whole else None

    classes = []
    for label in labels:
        right = total([entry for entry in given if entry[0] == entry[1] == label])
        of_class = total([entry for entry in counts if entry[0] == label])
        answers = total([entry for entry in given if entry[1] == label])
        classes.append(
            {
                "label": label,
                "rows": of_class,
                "precision": ratio(right, answers) if len(labels) > 1 else None,
                "recall": ratio(right, of_class),
            }
        )
    return {
        "rows": rows,
        "classes": classes,
        "largest_class": ratio(max(entry["rows"] for entry in classes), rows),
        "coverage": ratio(total(given), rows),
        "accuracy": ratio(total([entry for entry in given if entry[0] == entry[1]]), total(given)),
    }


def main() -> None:
    model, folder = Path(sys.argv[1]), Path(sys.argv[2])
    card = json.loads((model / "card.json").read_bytes())
    words = json.loads((Path(__file__).parent / "notes.json").read_text(encoding="utf-8"))[card["name"]]
    card["notes"] = words["notes"]
    card["unseen"] = []
    for name, about in words["sets"].items():
        counts = duckdb.execute(
            f"select metadata.truth, metadata.{card['label']}, count(*) from read_parquet(?) "
            "where metadata.source = ? group by all order by all",
            [f"{folder}/data/*.parquet", name],
        ).fetchall()
        card["unseen"].append({"name": name, "about": about, **figures(counts)})
    write_atomic(model / "card.json", json.dumps(card, indent=1, ensure_ascii=False).encode())
    write_atomic(model / "README.md", card_text(card))


if __name__ == "__main__":
    main()
