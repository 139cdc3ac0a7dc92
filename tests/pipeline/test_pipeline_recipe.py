"""Recipes are checked whole before anything is done, and --set changes one value."""

from pathlib import Path

import pytest

from curator.errors import UsageError
from curator.pipeline.recipe import load_recipe
from curator.stages.dedup.exact import Exact
from curator.stages.filter.where import Where

RECIPE = """
name: test
root: data
sources:
  - {name: a, path: a.jsonl, license: mit, metadata: {domain: code}}
  - {name: b, path: ["b/*.jsonl", c], fields: {team: string}}
steps:
  - tag.signals
  - dedup.exact: {on: prompt}
  - filter.where: "kind = 'sft'"
mix:
  budget: {rows: 10}
train:
  steps: 5
"""


def written(tmp_path: Path, text: str = RECIPE) -> Path:
    (tmp_path / "r.yaml").write_text(text)
    return tmp_path / "r.yaml"


def fault(path: Path, *changes: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        load_recipe(path, changes)
    return caught.value


def test_a_recipe_becomes_sources_and_stages(tmp_path: Path) -> None:
    recipe = load_recipe(written(tmp_path))
    assert (recipe.name, recipe.root) == ("test", "data")
    assert [source.patterns(recipe.root) for source in recipe.sources] == [
        ["data/a.jsonl"],
        ["data/b/*.jsonl", "data/c"],
    ]
    assert recipe.sources[0].settings().metadata == {"domain": "code"}
    assert recipe.sources[1].settings().fields == {"team": "string"}
    assert recipe.steps[1:] == [Exact(on="prompt"), Where("kind = 'sft'")]
    assert recipe.mix is not None and recipe.mix.budget.rows == 10
    assert recipe.train == {"steps": 5}


def test_set_changes_one_value_of_any_depth(tmp_path: Path) -> None:
    changes = ["mix.budget.rows=20", "mix.seed=3", "train.model=m", "root=/elsewhere", "name='5'"]
    recipe = load_recipe(written(tmp_path), changes)
    assert recipe.mix is not None
    assert (recipe.mix.budget.rows, recipe.mix.seed, recipe.root, recipe.name) == (20, 3, "/elsewhere", "5")
    assert recipe.train == {"steps": 5, "model": "m"}
    recipe = load_recipe(written(tmp_path), ["mix={}", "train=null"])
    assert recipe.mix is not None and recipe.mix.budget.rows is None and recipe.train is None
    recipe = load_recipe(written(tmp_path), ["mix.splits.validation=0.1", 'steps=["tag.signals"]'])
    assert recipe.mix is not None and recipe.mix.splits.validation == 0.1
    assert [step.name for step in recipe.steps] == ["tag.signals"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("mix.seed", "--set mix.seed"),
        ("=5", "--set =5"),
        ("mxi.seed=5", "--set mxi.seed: a recipe has no mxi"),
        ("sources.a.path=x", "--set sources.a.path: sources is a list"),
        ("name.x=5", "--set name.x: name has no keys"),
        ("mix.sed=5", "{path}: mix: unknown key 'sed'"),
        ("mix.seed=many", "{path}: mix.seed: expected `int`, got `str`"),
        ("mix.seed=[", "--set mix.seed, line 1: not YAML"),
        ("root=null", "{path}: root is not set"),
    ],
)
def test_a_wrong_change_is_named(tmp_path: Path, change: str, message: str) -> None:
    path = written(tmp_path)
    assert fault(path, change).message.startswith(message.format(path=path))


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("tag.signals", "tag.signal", ": steps[0]: unknown step 'tag.signal'", "did you mean tag.signals?"),
        ("{on: prompt}", "{onn: prompt}", "unknown key 'onn'", None),
        ("{on: prompt}", "{on: promt}", "dedup.exact: no selector 'promt'", "did you mean prompt?"),
        ("name: test", "name: [test]", ": name: expected `str`, got `array`", None),
        ("steps:\n  - tag", "stesp:\n  - tag", "unknown key 'stesp'", "did you mean steps?"),
        ("{name: a,", "{nmae: a,", "unknown key 'nmae'", "did you mean name?"),
        ("{name: b,", "{name: a,", ": two sources are called a", None),
        ("{name: b,", "{name: a/b,", "source name 'a/b'", None),
        ("license: mit", "licence: mit", "unknown key 'licence'", "did you mean license?"),
        ("domain: code", "domian: code", "metadata field domian is not declared", "did you mean domain?"),
        ("team: string", "team: text", "--field team:text: no such type", None),
        ("mix:\n  budget: {rows: 10}\n", "", ": train needs mix", None),
        ("rows: 10", "rowss: 10", "unknown key 'rowss'", "did you mean rows?"),
        ("  - tag.signals\n", "  - {tag.signals: {}, sample: 5}\n", ": steps[0]: a step is one name", None),
        ("  - tag.signals\n", "  - 5\n", "steps[0]", None),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, old: str, new: str, message: str, hint: str | None) -> None:
    assert old in RECIPE
    error = fault(written(tmp_path, RECIPE.replace(old, new)))
    assert message in error.message
    assert "\n" not in error.message
    if hint:
        assert error.hint == hint


def test_files_that_are_no_recipe(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    assert fault(path).message == f"{path}: no such recipe"
    for content, message in [
        (b"", "a recipe is a set of keys"),
        (b"- a\n", "a recipe is a set of keys"),
        (b"name: \xe9\n", "not text in UTF-8"),
        (b"name: a\nname: b\n", "line 2: key 'name' is there twice"),
        (b"name: a\nsources: []\n", "sources is empty"),
        (b"name: a\n", "sources is missing"),
        (b"name: a\n\tsources: []\n", "line 2: not YAML"),
    ]:
        path.write_bytes(content)
        assert message in fault(path).message


def test_every_recipe_of_the_project_is_sound(sample_data: Path) -> None:
    for path in sorted((sample_data.parent / "recipes").glob("*.yaml")):
        if "sources:" in path.read_text():
            recipe = load_recipe(path, ["root=x"])
            assert recipe.steps
