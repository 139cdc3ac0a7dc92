"""curator run: a finished recipe does nothing, --dry-run writes nothing, what is wrong is found before any work."""

import json
from pathlib import Path

import pytest
from cli_helpers import curator, tree

RECIPE = """
name: small
sources:
  - {name: tutor, path: sample_data/alpaca.json}
  - {name: talk, path: "sample_data/chats/*.jsonl.gz"}
steps:
  - tag.signals
  - dedup.exact: {on: conversation}
  - filter.where: "scores.num_response_words.value > 3"
mix:
  max_epochs: 2
"""


@pytest.fixture
def recipe(at_work: Path, tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    return path


def test_second_run_does_nothing(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "work"
    first = json.loads(curator("run", recipe, "--out", out, "--json").out)
    before = tree(out)
    assert first["read"] == first["kept"] + sum(first["dropped"].values()) + first["quarantined"]
    second = curator("run", recipe, "--out", out, "--json")
    assert second.code == 0
    assert tree(out) == before
    report = json.loads(second.out)
    assert all(entry["reused"] for entry in [*report["sources"].values(), *report["passes"]])
    assert {key: report[key] for key in ("read", "kept", "dropped", "quarantined")} == {
        key: first[key] for key in ("read", "kept", "dropped", "quarantined")
    }
    assert curator("check", out).code == 0
    shown = curator("run", recipe, "--out", out)
    assert "rows read" in shown.out and "was done already" in shown.out
    assert tree(out) == before


def test_changed_step_redoes_what_hangs_on_it(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "work"
    assert curator("run", recipe, "--out", out).code == 0
    before = tree(out)
    recipe.write_text(RECIPE.replace("> 3", "> 10"))
    refused = curator("run", recipe, "--out", out)
    assert refused.code == 1 and "03-filter.where" in refused.error and "> 10" in refused.error
    assert curator("run", recipe, "--out", out, "--dry-run").out.count("needs --overwrite") == 1
    assert tree(out) == before
    report = json.loads(curator("run", recipe, "--out", out, "--overwrite", "--json").out)
    assert [entry["reused"] for entry in report["passes"]] == [True, True, False, False]
    assert all(entry["reused"] for entry in report["sources"].values())


def test_dry_run_writes_nothing(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "work"
    done = curator("run", recipe, "--out", out, "--dry-run")
    assert done.code == 0
    assert done.out.count("would run") == 6
    assert not out.exists()
    assert curator("run", recipe, "--out", out).code == 0
    before = tree(out)
    states = json.loads(curator("run", recipe, "--out", out, "--dry-run", "--json").out)
    assert [entry["state"] for entry in states] == ["done"] * 6
    assert tree(out) == before


@pytest.mark.parametrize(
    ("change", "code", "message", "hint"),
    [
        (("name: small", "nam: small"), 2, "unknown key 'nam'", "did you mean name?"),
        (("steps:", "stepps:"), 2, "unknown key 'stepps'", "did you mean steps?"),
        (("on: conversation", "onn: conversation"), 2, "steps[1].dedup.exact: unknown key 'onn'", "did you mean on?"),
        (("dedup.exact", "dedup.exat"), 2, "steps[1]: unknown step 'dedup.exat'", "did you mean dedup.exact?"),
        (("on: conversation", "on: 3"), 2, "steps[1].dedup.exact.on: expected `str`", "quotes"),
        (("name: tutor,", "naem: tutor,"), 2, "sources[0]: unknown key 'naem'", "did you mean name?"),
        (("name: small", "name: small\nname: other"), 2, "line 3: key 'name' is there twice", None),
        (("max_epochs: 2", "max_epochs: '2'"), 2, "mix.max_epochs: expected `float`", "a number"),
        (("max_epochs: 2", "budget: {rows: 1,5}"), 2, "mix.budget: unknown key 5", "rows"),
        (("  max_epochs: 2", "\tmax_epochs: 2"), 2, "not YAML", None),
        (("mix:\n  max_epochs: 2", "train: {model: sample_data/tiny-model}"), 2, "train needs mix", "mix: {}"),
        (
            ("max_epochs: 2", "max_epochs: 2\ntrain: {model: sample_data/tiny-model, num-epochs: 3}"),
            2,
            "train: unknown key 'num-epochs'",
            "epochs",
        ),
        (
            ("max_epochs: 2", "max_epochs: 2\ntrain: {model: sample_data/tiny-model, steps: ten}"),
            2,
            "train.steps: expected",
            "a whole number",
        ),
        (
            ("max_epochs: 2", "max_epochs: 2\ntrain: {model: sample_data/tiny-model, nproc: two}"),
            2,
            "train.nproc is 'two'",
            "processes",
        ),
        (("max_epochs: 2", "max_epochs: 2\ntrain: {}"), 2, "train: model is missing", None),
        (("max_epochs: 2", "max_epochs: 2\ntrain: {model: nope}"), 1, "nope: no such model folder", "looked in"),
        (("max_epochs: 2", "weights: {by: {dmain: {a: 2}}}"), 2, "mix.weights.by names dmain", "did you mean domain?"),
        (("max_epochs: 2", "budget: {supervised_tokens: 9}"), 2, "needs token counts", "curator tag tokens"),
        (("chats/*.jsonl.gz", "chatz/*.jsonl.gz"), 1, "no file matches sample_data/chatz/*.jsonl.gz", "looked in"),
        (
            ("num_response_words.value > 3", "num_respons_words.value > 3"),
            2,
            "no column scores.num_respons_words.value",
            "did you mean scores.num_response_words.value?",
        ),
        (("> 3", ">"), 2, "filter.where does not parse", "SQL"),
        (("- tag.signals", "- tag.tokens: {tokenizer: nope}"), 1, "nope: no such model folder", "looked in"),
    ],
    ids=lambda value: value[1].strip() if isinstance(value, tuple) else "",
)
def test_mistake_is_found_before_any_work(
    change: tuple[str, str], code: int, message: str, hint: str | None, recipe: Path, tmp_path: Path
) -> None:
    assert change[0] in RECIPE
    recipe.write_text(RECIPE.replace(*change, 1))
    for extra in ((), ("--dry-run",)):
        done = curator("run", recipe, "--out", tmp_path / "work", *extra)
        assert done.code == code, done.err
        assert message in done.error
        assert hint is None or hint in done.hint
        assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("text", ["", "# nothing\n", "[]", "name: x\n", "name: x\nsources: []\n", "a: b: c\n", "\0"])
def test_file_that_is_no_recipe(text: str, recipe: Path, tmp_path: Path) -> None:
    recipe.write_text(text)
    done = curator("run", recipe, "--out", tmp_path / "work")
    assert done.code == 2 and str(recipe) in done.error
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("mix.max_epoch=3", "mix: unknown key 'max_epoch'"),
        ("mxi.max_epochs=3", "--set mxi.max_epochs: a recipe has no mxi"),
        ("mix.max_epochs", "--set mix.max_epochs"),
        ("steps.0=tag.signals", "--set steps.0: steps is a list"),
        ("name.x=3", "--set name.x: name has no keys"),
    ],
)
def test_set_that_names_no_key(change: str, message: str, recipe: Path, tmp_path: Path) -> None:
    done = curator("run", recipe, "--out", tmp_path / "work", "--set", change)
    assert done.code == 2 and message in done.error and done.hint
    assert not (tmp_path / "work").exists()


def test_set_changes_the_recipe(recipe: Path, tmp_path: Path) -> None:
    report = json.loads(
        curator(
            "run",
            recipe,
            "--out",
            tmp_path / "work",
            "--set",
            "name=other",
            "--set",
            "steps=[tag.signals]",
            "--set",
            "mix=null",
            "--json",
        ).out
    )
    assert report["name"] == "other"
    assert [entry["steps"] for entry in report["passes"]] == [["tag.signals"]]
