"""curator classify on the command line: tables, JSON, pipes, models that are in the way, libraries that are missing."""

import json
import sys
from pathlib import Path

import pytest
from classify_samples import labelled_rows
from cli_helpers import bash, curator, tree
from record_samples import record, rows_of, write_dataset


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`labelled`, `plain` (the same texts without labels), and `model`."""
    folder = tmp_path_factory.mktemp("classify")
    write_dataset(folder / "labelled", labelled_rows(), shard_rows=13)
    rows = labelled_rows(domain=None)
    write_dataset(folder / "plain", rows, shard_rows=13)
    done = curator(
        "classify", "train", folder / "labelled", "--label", "domain", "--folds", 3, "--out", folder / "model"
    )
    assert done.code == 0, done.err
    (folder / "table.txt").write_text(done.out)
    return folder


def test_train_prints_what_the_card_holds(work: Path) -> None:
    table = (work / "table.txt").read_text()
    card = json.loads((work / "model/card.json").read_text())
    for entry in card["classes"]:
        (line,) = [line for line in table.splitlines() if line.startswith(entry["label"])]
        assert line.split()[1:3] == [str(entry["rows"]), f"{entry['precision']:.4g}"]
    assert "3-fold cross-validation" in table and "accuracy by length of text alone" in table
    assert str(work / "model/README.md") in table


def test_train_again_does_nothing_and_says_so(work: Path) -> None:
    before = tree(work / "model")
    command = ["classify", "train", work / "labelled", "--label", "domain", "--folds", 3, "--out", work / "model"]
    done = curator(*command)
    assert done.code == 0 and "was complete, nothing to do" in done.out
    answer = json.loads(curator(*command, "--json").out)
    assert answer["reused"] and answer["accuracy"] > 0.9 and answer["out"] == str(work / "model")
    other = curator(*command, "--seed", 5)
    assert other.code == 1
    assert other.error.endswith("was made with other inputs or settings: settings.seed: was 0, now 5")
    assert "--overwrite" in other.hint
    assert tree(work / "model") == before


def test_apply_labels_and_two_workers_write_the_same_bytes(work: Path, tmp_path: Path) -> None:
    for workers in (1, 2):
        done = curator(
            "classify", "apply", work / "plain", "--model", work / "model", "--out", tmp_path / f"w{workers}",
            "--workers", workers,
        )  # fmt: skip
        assert done.code == 0, done.err
    one, two = (
        {name: data for name, (_, data) in tree(tmp_path / f"w{n}").items() if name != "timing.json"} for n in (1, 2)
    )
    assert one == two
    labels = [row["metadata"]["domain"] for row in rows_of(tmp_path / "w1")]
    assert labels == ["cooking", "sailing"] * 30


def test_train_and_apply_in_pipes(work: Path) -> None:
    script = """
curator sample labelled --rows 50 | curator classify train - --label domain --folds 2 --out piped-model
curator classify language plain | curator classify apply - --model piped-model > out.arrow
curator show out.arrow --head 1 --json
"""
    done = bash(script, work)
    assert done.code == 0, done.err
    row = json.loads(done.out.splitlines()[-1])
    assert (row["metadata"]["language"], row["metadata"]["domain"]) == ("en", "cooking")


def test_errors_are_one_line_and_nothing_is_left(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = write_dataset(tmp_path / "few", [record(f"s/f#{n}", "q", metadata={"domain": str(n)}) for n in range(2)])
    cases = {
        ("train", few, "--label", "domain"): (1, "too few rows with text of metadata.domain: 0 1, 1 1; each needs 20"),
        ("train", few, "--label", "domian"): (1, "classify train reads metadata.domian"),
        ("train", few, "--label", "source"): (2, "--label source: not a label"),
        ("train", few, "--label", "domain", "--folds", 1): (2, "--folds 1"),
        ("apply", few, "--model", tmp_path): (1, f"{tmp_path} has no card.json"),
        ("language", few, "--on", "promt"): (2, "classify.language on: no selector 'promt'"),
    }
    for arguments, (code, message) in cases.items():
        done = curator("classify", *arguments, "--out", tmp_path / "out")
        assert (done.code, message in done.error) == (code, True), done.err
        assert done.hint
        assert not (tmp_path / "out").exists()
    monkeypatch.setitem(sys.modules, "fasttext", None)
    for arguments in (("domain", few), ("difficulty", few), ("train", few, "--label", "domain")):
        done = curator("classify", *arguments, "--out", tmp_path / "out")
        assert (done.code, done.error) == (1, "this needs fasttext, which is not installed")
        assert done.hint == "pip install 'sft-curator[classify]'"
    assert not (tmp_path / "out").exists()


def test_a_recipe_may_list_classifiers_in_one_step(tmp_path: Path) -> None:
    from curator.errors import UsageError
    from curator.pipeline.recipe import load_recipe

    recipe = tmp_path / "r.yaml"
    head = "name: r\nsources:\n  - {name: s, path: x.jsonl}\nsteps:\n"
    recipe.write_text(f"{head}  - classify: [language, {{domain: {{overwrite_labels: true}}}}]\n  - tag: [signals]\n")
    steps = load_recipe(recipe).steps
    assert [step.name for step in steps] == ["classify.language", "classify.domain", "tag.signals"]
    assert steps[1].settings()["overwrite_labels"] is True
    for entry, message in (
        ("classify: [langage]", "unknown step 'classify.langage'"),
        ("classify: [1]", r"classify\[0\]: not a step"),
        ("classify: language", "unknown step 'classify'"),
        ("clasify: [language]", "unknown step 'clasify'"),
    ):
        recipe.write_text(f"{head}  - {entry}\n")
        with pytest.raises(UsageError, match=message):
            load_recipe(recipe)
