"""A small labelled dataset that can be learned, and a model of it."""

from pathlib import Path
from typing import Any

from record_samples import record, write_dataset

from curator.pipeline.classifier import Trained, TrainSettings, train_classifier

COOKING = "stir the soup until it thickens,simmer onions with butter,bake the bread in a hot oven,salt the dough"
SAILING = (
    "trim the sail before the wind turns,drop the anchor near the shore,steer the boat by the compass,coil the rope"
)


def word(number: int) -> str:
    """A word for a number: digits are all the same to a classifier."""
    return "q" + "".join(chr(ord("a") + int(digit)) for digit in str(number))


def labelled_rows(count: int = 60, **metadata: Any) -> list[dict[str, Any]]:
    """Half about cooking, half about sailing; `metadata.domain` says which. Four sources, two of each domain."""
    rows = []
    for number in range(count):
        domain, texts = (("cooking", COOKING), ("sailing", SAILING))[number % 2]
        parts = texts.split(",")
        text = f"{parts[number // 2 % 4]}, then {parts[number // 8 % 4]} ({word(number)})"
        source = f"{domain}-{number // 2 % 2}"
        tags = {"source": source, "license": "mit", "domain": domain, **metadata}
        rows.append(record(f"{source}/rows.jsonl#{number}", f"{text} {'again ' * (number % 7)}", "ok", metadata=tags))
    return rows


def small_model(folder: Path, **settings: Any) -> Trained:
    """Trained on `labelled_rows`, in `folder`/model."""
    write_dataset(folder / "labelled", labelled_rows())
    wanted = TrainSettings(**{"label": "metadata.domain", "folds": 3, **settings})
    return train_classifier([folder / "labelled"], wanted, folder / "model")
