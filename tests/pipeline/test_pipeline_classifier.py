"""classify train: the same rows give the same bytes; figures are those of rows that were not seen."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from classify_samples import labelled_rows, small_model, word
from record_samples import record, write_dataset

from curator.errors import CuratorError, UsageError
from curator.io.dataset import Dataset
from curator.pipeline.classifier import TrainSettings, _calibration, train_classifier
from curator.pipeline.classifier_card import figures
from curator.pipeline.classifier_rows import Rows, assign_folds, collect_rows

SETTINGS = TrainSettings("metadata.domain", folds=3)


def collected(folder: Path, tmp_path: Path, **settings: Any) -> Rows:
    tmp_path.mkdir(exist_ok=True)
    values = {"label": "metadata.domain", "on": "prompt", "group_by": None, "max_rows": 1000, "seed": 0, **settings}
    return collect_rows(Dataset.open(folder), scratch=tmp_path, **values)


def lines_of(rows: Rows) -> list[str]:
    return [line for _, lines in rows.chunks(np.arange(len(rows.classes))) for line in lines.to_pylist()]


def test_same_rows_same_bytes_in_whatever_folders_and_order(tmp_path: Path) -> None:
    rows = labelled_rows()
    one = write_dataset(tmp_path / "one", rows)
    parts = [
        write_dataset(tmp_path / name, part, shard_rows=7) for name, part in (("b", rows[40:]), ("a", rows[:40][::-1]))
    ]
    whole = train_classifier([one], SETTINGS, tmp_path / "m1")
    again = train_classifier([one], SETTINGS, tmp_path / "m2")
    other = train_classifier(parts, SETTINGS, tmp_path / "m3")
    models = [(tmp_path / name / "model.bin").read_bytes() for name in ("m1", "m2", "m3")]
    assert models[0] == models[1] == models[2]
    for name in ("card.json", "README.md"):
        assert (tmp_path / "m1" / name).read_bytes() == (tmp_path / "m2" / name).read_bytes()
    assert whole.card == again.card
    assert {**whole.card, "fingerprint": None} == {**other.card, "fingerprint": None}
    seeded = train_classifier([one], TrainSettings("domain", folds=3, seed=1), tmp_path / "m4")
    assert seeded.card["model"] != whole.card["model"]


def test_the_card_counts_what_was_there(tmp_path: Path) -> None:
    trained = small_model(tmp_path)
    card = json.loads((tmp_path / "model/card.json").read_text())
    assert card == trained.card
    assert [(entry["label"], entry["rows"]) for entry in card["classes"]] == [("cooking", 30), ("sailing", 30)]
    assert card["accuracy"] > 0.9
    assert card["baselines"]["largest_class"] == 0.5 and card["baselines"]["length_alone"] < 0.9
    confusion = np.array(card["confusion"]["rows"])
    assert confusion.sum() == 60 and confusion.shape == (2, 3)
    assert card["training"]["rows"] == 60
    assert [entry["source"] for entry in card["training"]["sources"]] == [
        "cooking-0",
        "cooking-1",
        "sailing-0",
        "sailing-1",
    ]
    assert {entry["license"] for entry in card["training"]["sources"]} == {"mit"}
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["README.md", "card.json", "model.bin"]
    assert "cooking" in (tmp_path / "model/README.md").read_text()


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    rows = labelled_rows(100)
    rows[0]["metadata"]["domain"] = None
    rows[1]["metadata"]["domain"] = "unknown"
    rows[3]["messages"][0]["content"] = "\u2028 \x00"
    rows[5]["messages"][0]["content"] = rows[7]["messages"][0]["content"].upper()
    found = collected(write_dataset(tmp_path / "d", rows), tmp_path / "s")
    assert found.left_out == {"no_label": 2, "no_text": 1, "equal_text": 1}
    assert len(found.classes) == 96
    capped = collected(tmp_path / "d", tmp_path / "t", max_rows=25)
    assert capped.left_out["over_max_rows"] == 48
    assert np.bincount(capped.classes).max() <= 25
    assert set(lines_of(capped)) <= set(lines_of(found))


def test_a_label_that_cannot_be_learned_is_named(tmp_path: Path) -> None:
    few = write_dataset(tmp_path / "few", labelled_rows(38))
    with pytest.raises(
        CuratorError, match=r"too few rows with text of metadata.domain: cooking 19, sailing 19; each needs 20"
    ):
        train_classifier([few], SETTINGS, tmp_path / "m")
    own = write_dataset(tmp_path / "own", [record(f"s/f#{n}", "q", metadata={"domain": f"d{n:02}"}) for n in range(30)])
    with pytest.raises(CuratorError, match=r"d00 1, .*, d07 1 and 22 more; each needs 20"):
        train_classifier([own], SETTINGS, tmp_path / "m")
    one = write_dataset(tmp_path / "one", labelled_rows(60, domain="all"))
    with pytest.raises(CuratorError, match="metadata.domain has only all"):
        train_classifier([one], SETTINGS, tmp_path / "m")
    none = write_dataset(tmp_path / "none", labelled_rows(60, domain=None))
    with pytest.raises(CuratorError, match="metadata.domain has none"):
        train_classifier([none], SETTINGS, tmp_path / "m")
    empty = write_dataset(tmp_path / "empty", [])
    with pytest.raises(CuratorError, match="metadata.domain has none"):
        train_classifier([empty], SETTINGS, tmp_path / "m")
    with pytest.raises(CuratorError, match=r"classify train reads metadata\.domian"):
        train_classifier([few], TrainSettings("metadata.domian"), tmp_path / "m")
    with pytest.raises(UsageError, match=r"metadata\.reasoning_trace is bool"):
        train_classifier([few], TrainSettings("reasoning_trace"), tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    "settings",
    [{"label": "source"}, {"label": "a.b"}, {"folds": 1}, {"min_confidence": 1.0}, {"max_rows": 3}, {"on": "promt"}],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        TrainSettings(**{"label": "domain", **settings})


def test_folds_are_even_and_depend_on_ids_alone(tmp_path: Path) -> None:
    rows = labelled_rows(101)
    found = collected(write_dataset(tmp_path / "d", rows), tmp_path / "s")
    folds = assign_folds(found, 4, None)
    for number in range(2):
        counts = np.bincount(folds[found.classes == number], minlength=4)
        assert counts.max() - counts.min() <= 1
    turned = collected(write_dataset(tmp_path / "e", rows[::-1], shard_rows=9), tmp_path / "t")
    assert lines_of(turned) == lines_of(found)
    assert assign_folds(turned, 4, None).tolist() == folds.tolist()


def test_a_group_never_lies_in_two_folds(tmp_path: Path) -> None:
    rows = labelled_rows(240)
    for number, row in enumerate(rows):
        row["group"] = None if number >= 200 else f"g{number % 20 if number < 100 else number // 25}"
    found = collected(write_dataset(tmp_path / "d", rows), tmp_path / "s", group_by="group")
    folds = assign_folds(found, 5, "group")
    for group in np.unique(found.groups):
        assert len(set(folds[found.groups == group].tolist())) == 1
    assert len(np.unique(found.groups)) == len({row["group"] for row in rows}) - 1 + 40
    assert set(folds.tolist()) == set(range(5))
    assert np.bincount(folds).max() - np.bincount(folds).min() < 40


def test_a_class_in_a_single_group_is_refused(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "d", labelled_rows())
    trained = train_classifier([folder], TrainSettings("domain", folds=9, group_by="metadata.source"), tmp_path / "m")
    assert trained.card["folds"] == 4, "one a source"
    assert "`metadata.source`" in (tmp_path / "m/README.md").read_text()
    assert trained.card["accuracy"] is not None
    with pytest.raises(CuratorError, match="all rows of cooking, sailing have the same metadata.domain"):
        train_classifier([folder], TrainSettings("domain", group_by="metadata.domain"), tmp_path / "n")
    with pytest.raises(CuratorError, match="no row with a label has metadata.teacher"):
        train_classifier([folder], TrainSettings("domain", group_by="metadata.teacher"), tmp_path / "n")
    with pytest.raises(UsageError, match="--group-by messages is not one value"):
        train_classifier([folder], TrainSettings("domain", group_by="messages"), tmp_path / "n")


def test_what_only_a_group_knows_is_not_learned(tmp_path: Path) -> None:
    """Each source has a word of its own beside chance; folds by source must show chance, folds by row do not."""
    generator = np.random.default_rng(5)
    words = [word(number) for number in range(300)]
    rows = []
    for number in range(400):
        source = number % 10
        label = "left" if source < 5 else "right"
        text = f"mark{word(source)} {' '.join(generator.choice(words, 12))}"
        rows.append(record(f"s/f#{number}", text, "ok", metadata={"source": f"s{source}", "domain": label}))
    folder = write_dataset(tmp_path / "d", rows)
    by_row = train_classifier([folder], TrainSettings("domain", folds=5), tmp_path / "m1").card
    by_source = train_classifier(
        [folder], TrainSettings("domain", folds=5, group_by="metadata.source"), tmp_path / "m2"
    ).card
    assert by_row["accuracy"] > 0.9
    assert by_source["accuracy"] < 0.65


def test_a_finished_folder_is_kept_and_another_is_refused(tmp_path: Path) -> None:
    first = small_model(tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in first.out.iterdir()}
    again = train_classifier([tmp_path / "labelled"], SETTINGS, first.out)
    assert again.reused and again.card == first.card
    assert {path.name: path.stat().st_mtime_ns for path in first.out.iterdir()} == before
    other = TrainSettings("metadata.domain", folds=3, min_confidence=0.5)
    with pytest.raises(CuratorError, match=r"other inputs or settings: settings.min_confidence: was 0.7, now 0.5"):
        train_classifier([tmp_path / "labelled"], other, first.out)
    assert (
        train_classifier([tmp_path / "labelled"], other, first.out, overwrite=True).card["confidence"]["minimum"] == 0.5
    )
    (first.out / "model.bin").write_bytes(b"cut")
    with pytest.raises(CuratorError, match="it is damaged"):
        train_classifier([tmp_path / "labelled"], other, first.out)
    assert not train_classifier([tmp_path / "labelled"], other, first.out, overwrite=True).reused
    (first.out / "mine.txt").write_text("keep me")
    with pytest.raises(CuratorError, match=r"it holds mine.txt"):
        train_classifier([tmp_path / "labelled"], SETTINGS, first.out, overwrite=True)
    assert (first.out / "mine.txt").read_text() == "keep me"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".tmp")] == []


def test_figures_against_counting_by_hand() -> None:
    classes = np.array([0, 0, 0, 1, 1, 2])
    predicted = np.array([0, 0, 1, 1, -1, 1])
    confidences = np.array([0.9, 0.4, 0.9, 0.8, 0.99, 0.2])
    found = figures(["a", "b", "c"], classes, predicted, confidences, 0.5)
    assert [
        (c["rows"], c["precision"], c["recall"], c["sure_precision"], c["sure_recall"]) for c in found["classes"]
    ] == [
        (3, 1.0, 0.6667, 1.0, 0.3333),
        (2, 0.3333, 0.5, 0.5, 0.5),
        (1, None, 0.0, None, 0.0),
    ]
    assert found["accuracy"] == 0.5
    assert found["confidence"] == {"coverage": 0.5, "accuracy": 0.6667}
    assert found["confusion"] == {"answers": ["a", "b", "c", None], "rows": [[2, 1, 0, 0], [0, 1, 0, 1], [0, 1, 0, 0]]}


def test_calibration_is_the_share_of_right_answers_and_rises() -> None:
    generator = np.random.default_rng(0)
    raw = generator.uniform(0.5, 1, 40_000)
    # Right in half of what the model says it is.
    curve = _calibration(raw, generator.uniform(size=len(raw)) < raw / 2)
    knots, shares = np.array(curve).T
    assert (np.diff(knots) > 0).all() and (np.diff(shares) > 0).all() and len(curve) <= 20
    assert np.abs(shares - knots / 2).max() < 0.03
    backwards = _calibration(raw, generator.uniform(size=len(raw)) < 1.3 - raw)
    assert len(backwards) == 1, "a confidence that misleads is worth the average everywhere"
    assert _calibration(np.array([]), np.array([], bool)) == [[0.0, 0.5]]
