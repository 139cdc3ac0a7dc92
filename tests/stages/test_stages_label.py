"""classify.apply: answers of a trained model, what a broken library says, and what stays as it was."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from classify_samples import small_model
from record_samples import batch_of, passed, record, rows_of, through, write_dataset

from curator.errors import CuratorError, UsageError
from curator.schema.record import RECORD_SCHEMA
from curator.stages.classify.label import SHIPPED, Apply, Difficulty, Domain
from curator.stages.classify.model import Classifier, Labeller, Scorer
from curator.stages.classify.text import LABEL_CHARS, label_lines

SOUP, SAIL = "Stir the SOUP, then salt the dough", "trim the sail and steer the boat"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("model")).out


def answers(model: Path, texts: list[str], **settings: Any) -> list[tuple[str | None, str]]:
    kept, _ = through(Apply(str(model), **settings), [record(f"s/f#{n}", text) for n, text in enumerate(texts)])
    assert [row["messages"][0]["content"] for row in kept] == texts
    return [(row["metadata"]["domain"], row["scores"]["domain_confidence"]["status"]) for row in kept]


def test_labels_and_confidences(model: Path) -> None:
    kept, _ = through(Apply(str(model)), [record("s/f#0", SOUP), record("s/f#1", SAIL)])
    assert [row["metadata"]["domain"] for row in kept] == ["cooking", "sailing"]
    digest = Classifier.open(model).digest
    for row in kept:
        score = row["scores"]["domain_confidence"]
        assert score["by"] == f"domain@1:{digest[:12]}" and score["status"] == "ok"
        assert 0.7 <= score["value"] <= 1 and score["value"] == round(score["value"], 4)


def test_b082_line_breaks_and_nul_for_the_classifier_only(model: Path) -> None:
    pairs = [("first line\nsecond line", "first line second line"), ("a\r\nb", "a b"), ("x\u0000y", "x y")]
    pairs += [("p\u2028q", "p q"), ("p\u2029q\u0085r", "p q r"), (" \t\n", ""), ("a\x1e\x1fb", "a b")]
    texts = [text for text, _ in pairs]
    assert label_lines(pa.array(texts)).to_pylist() == [line for _, line in pairs]
    broken = SOUP.replace(" ", "\n", 1).replace(",", "\u2028\x00")
    assert answers(model, [*texts, broken, SOUP])[-2:] == [("cooking", "ok")] * 2


def test_b083_a_library_that_cannot_predict_is_named_not_unknown(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fasttext

    class Broken:
        def get_words(self) -> list[str]:
            return ["a", "soup"]

        def predict(self, texts: list[str], k: int = 1) -> Any:
            raise ValueError("Unable to avoid copy while creating an array as requested.")

    monkeypatch.setattr(fasttext, "load_model", lambda path: Broken())
    with pytest.raises(CuratorError) as caught:
        Apply(str(model)).open()
    assert caught.value.message.startswith("the installed fasttext cannot predict: Unable to avoid copy")
    assert caught.value.hint is not None and "fasttext-community" in caught.value.hint
    monkeypatch.setitem(sys.modules, "fasttext", None)
    with pytest.raises(CuratorError, match=r"sft-curator\[classify\]"):
        Apply(str(model)).prepare(RECORD_SCHEMA)


def test_b083_the_installed_library_works_with_numpy_2(model: Path) -> None:
    assert int(np.__version__.split(".")[0]) >= 2
    assert answers(model, [SAIL]) == [("sailing", "ok")]


def test_b084_no_prediction_is_a_null_with_its_reason(model: Path) -> None:
    texts = ["", "zzqx", SOUP, "\u2028", "海边", SAIL]
    assert answers(model, texts) == [
        (None, "empty"),
        (None, "unseen"),
        ("cooking", "ok"),
        (None, "empty"),
        (None, "unseen"),
        ("sailing", "ok"),
    ]
    kept, _ = through(Apply(str(model)), [record(f"s/f#{n}", text) for n, text in enumerate(texts)])
    assert [row["scores"]["domain_confidence"]["value"] is None for row in kept] == [
        True,
        True,
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("given", [0, 1, 3])
def test_b084_a_library_that_gives_another_number_of_answers(given: int) -> None:
    class Uneven:
        def get_words(self) -> list[str]:
            return ["known"]

        def predict(self, texts: list[str], k: int = 1) -> Any:
            return [["__label__0"]] * given, [np.array([0.5])] * given

    score = Scorer(Uneven())
    with pytest.raises(CuratorError, match=f"2 texts gave {given} answers"):
        score(pa.array(["known", "unseen", "known"]))


def test_below_the_minimum_is_unknown() -> None:
    class Certain:
        def get_words(self) -> list[str]:
            return ["a", "b", "c", "e"]

        def predict(self, texts: list[str], k: int = 1) -> Any:
            raw = {"a": 0.1, "b": 0.4, "c": 1.0000131, "e": 0.95}
            names = [["__label__0" if text == "e" else "__label__1"] for text in texts]
            return names, [np.array([raw[text]]) for text in texts]

    label = Labeller(Scorer(Certain()), ["x", "y"], [[(0.5, 0.3)], [(0.2, 0.1), (0.6, 0.9)]], 0.7)
    assert label(pa.array(["a", "b", "c", "d", "e"])).to_pylist() == [
        {"label": "unknown", "confidence": 0.1, "status": "unsure"},
        {"label": "unknown", "confidence": 0.5, "status": "unsure"},
        {"label": "y", "confidence": 0.9, "status": "ok"},
        {"label": None, "confidence": None, "status": "unseen"},
        {"label": "unknown", "confidence": 0.3, "status": "unsure"},
    ]


def test_a_text_cannot_name_its_label(model: Path) -> None:
    lines = label_lines(pa.array(["__label__0 x", "</s> y", "__LABEL__1"])).to_pylist()
    assert lines == ["_ _ label _ _ 0 x", "< / s > y", "_ _ label _ _ 0"]
    assert answers(model, [f"__label__0 {SAIL}", f"__label__1 {SOUP}"]) == [("sailing", "ok"), ("cooking", "ok")]


def test_scripts_without_spaces_are_cut_into_characters() -> None:
    lines = label_lines(pa.array(["我喜欢猫abc", "ねこ", "Ünïcödé 12,5", "e\u0301"])).to_pylist()
    assert lines == ["我 喜 欢 猫 abc", "ね こ", "ünïcödé 0 , 0", "e\u0301"]


def test_only_the_beginning_of_a_text_is_read(model: Path) -> None:
    long = "x " * LABEL_CHARS + SAIL
    assert answers(model, [long, f"{SOUP} {'y ' * 5_000_000}"]) == [(None, "unseen"), ("cooking", "ok")]


def test_only_nulls_are_filled_unless_asked(model: Path) -> None:
    rows = [
        record("s/f#0", SOUP, metadata={"domain": "food"}),
        record("s/f#1", SAIL),
        record("s/f#2", "zzqx", metadata={"domain": "noise"}),
    ]
    kept, _ = through(Apply(str(model)), rows)
    assert [row["metadata"]["domain"] for row in kept] == ["food", "sailing", "noise"]
    assert [row["scores"]["domain_confidence"]["status"] for row in kept] == ["labelled", "ok", "labelled"]
    again, _ = through(Apply(str(model), overwrite_labels=True), rows)
    assert [row["metadata"]["domain"] for row in again] == ["cooking", "sailing", "noise"]


def test_twice_is_once(model: Path, tmp_path: Path) -> None:
    rows = [record(f"s/f#{n}", text) for n, text in enumerate([SOUP, SAIL, "zzqx", "", SOUP])]
    rows[-1]["metadata"] = {"domain": "food"}
    once = passed(Apply(str(model)), write_dataset(tmp_path / "d", rows), tmp_path / "once")
    assert rows_of(passed(Apply(str(model)), once, tmp_path / "twice")) == rows_of(once)


def test_a_field_of_ones_own_appears(tmp_path: Path) -> None:
    from classify_samples import labelled_rows

    from curator.pipeline.classifier import TrainSettings, train_classifier
    from curator.schema.record import extend_schema

    schema = extend_schema(RECORD_SCHEMA, {"metadata.hobby": pa.string()})
    rows = labelled_rows(hobby=None)
    for row in rows:
        row["metadata"]["hobby"] = row["metadata"].pop("domain")
    write_dataset(tmp_path / "d", rows, schema)
    train_classifier([tmp_path / "d"], TrainSettings("hobby", folds=2), tmp_path / "m")
    plain = write_dataset(tmp_path / "plain", [record("s/f#0", SOUP)])
    (row,) = rows_of(passed(Apply(str(tmp_path / "m")), plain, tmp_path / "out"))
    assert row["metadata"]["hobby"] == "cooking" and row["metadata"]["domain"] is None


def test_b088_an_answer_does_not_depend_on_its_neighbours(model: Path) -> None:
    texts = [SOUP, SAIL, "", "zzqx", SOUP * 50, "boat " * 3000, "soup boat", "the"]
    rows = [record(f"s/f#{number}", text) for number, text in enumerate(texts)]
    tag = Apply(str(model)).open()
    together = tag(batch_of(rows))
    for number, row in enumerate(rows):
        alone = tag(batch_of([row]))
        assert {name: a[0] for name, a in alone.items()} == {name: a[number] for name, a in together.items()}
    empty = tag(batch_of(rows).slice(0, 0))
    assert {name: a.type for name, a in empty.items()} == {name: a.type for name, a in together.items()}


def test_settings_are_the_content_of_the_model_not_its_place(model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "copy")
    assert Apply(str(tmp_path / "copy")).describe() == Apply(str(model)).describe()
    card = json.loads((tmp_path / "copy/card.json").read_text())
    card["notes"] = ["said later"]
    (tmp_path / "copy/card.json").write_text(json.dumps(card))
    assert Apply(str(tmp_path / "copy")).describe() == Apply(str(model)).describe()
    card["confidence"]["minimum"] = 0.9
    (tmp_path / "copy/card.json").write_text(json.dumps(card))
    assert Apply(str(tmp_path / "copy")).describe() != Apply(str(model)).describe()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: shutil.rmtree(folder), "no such model folder"),
        (lambda folder: (folder / "card.json").unlink(), "has no card.json"),
        (lambda folder: (folder / "card.json").write_text("{"), "is damaged"),
        (lambda folder: (folder / "card.json").write_text("[]"), "is not the card of a classifier"),
        (lambda folder: (folder / "model.bin").unlink(), r"model\.bin is missing"),
        (lambda folder: (folder / "model.bin").write_bytes(b"x"), "is not the model of its card"),
    ],
)
def test_a_damaged_model_is_named_before_any_work(model: Path, tmp_path: Path, damage: Any, message: str) -> None:
    shutil.copytree(model, tmp_path / "m")
    damage(tmp_path / "m")
    folder = write_dataset(tmp_path / "d", [record("s/f#0", SOUP)])
    with pytest.raises(CuratorError, match=message):
        passed(Apply(str(tmp_path / "m")), folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("stage", "field"), [(Domain(), "domain"), (Difficulty(), "difficulty")])
def test_shipped_models_are_whole_small_and_say_what_they_are(stage: Apply, field: str) -> None:
    classifier = Classifier.open(SHIPPED / field)
    assert (classifier.name, classifier.field, classifier.on) == (field, field, "prompt")
    assert sum(path.stat().st_size for path in classifier.folder.iterdir()) < 1.5e6
    card = classifier.card
    licenses = {entry["license"] for entry in card["training"]["sources"]}
    assert licenses <= {"MIT", "Apache-2.0", "CC BY 4.0"}
    assert card["fingerprint"]["settings"]["group_by"] == "metadata.subject"
    assert card["notes"] and {entry["name"] for entry in card["unseen"]}
    assert {entry["name"] for entry in card["unseen"]}.isdisjoint(e["source"] for e in card["training"]["sources"])
    text = (classifier.folder / "README.md").read_text()
    assert all(f"| {entry['label']} |" in text for entry in card["classes"])


def test_what_everybody_can_tell() -> None:
    texts = {
        "math": "What is the sum of all positive integers x such that x^2 + 3x = 40?",
        "code": "Write a Python function that reverses a list of strings without using slicing.",
        "medicine": "A 45-year-old woman with fever and chest pain: which treatment do doctors give for pneumonia?",
    }
    kept, _ = through(Domain(), [record(f"s/f#{n}", text) for n, text in enumerate(texts.values())])
    assert [row["metadata"]["domain"] for row in kept] == list(texts)
    kept, _ = through(Difficulty(), [record("s/f#0", "What is 3 + 4?")])
    assert kept[0]["metadata"]["difficulty"] == "easy"


def test_a_field_that_is_not_text_is_refused(model: Path) -> None:
    fields = [(f.name, pa.int64() if f.name == "domain" else f.type) for f in RECORD_SCHEMA.field("metadata").type]
    index = RECORD_SCHEMA.get_field_index("metadata")
    with pytest.raises(UsageError, match=r"metadata\.domain is int64"):
        through(Apply(str(model)), [], RECORD_SCHEMA.set(index, pa.field("metadata", pa.struct(fields))))
