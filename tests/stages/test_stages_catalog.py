"""The catalog: every stage by its name in a recipe, with settings that are checked."""

import pickle
import subprocess
import sys
from typing import Any

import pytest

from curator.errors import UsageError
from curator.schema.record import RECORD_SCHEMA
from curator.stages.base import DatasetStage, RowStage, setting_names
from curator.stages.catalog import STAGES, build_stage, stage_class
from curator.stages.classify.label import SHIPPED

SETTINGS: dict[str, Any] = {
    "tag.tokens": {"tokenizer": "m"},
    "tag.metadata": {"set": {"domain": "'x'"}},
    "classify.apply": {"model": str(SHIPPED / "domain")},
    "filter.where": "kind = 'sft'",
    "sample": 5,
}


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_builds_pickles_and_knows_its_name(name: str) -> None:
    stage = build_stage(name, SETTINGS.get(name))
    assert stage.name == name
    assert stage == build_stage(name, SETTINGS.get(name))
    assert isinstance(stage, RowStage | DatasetStage)
    copy = pickle.loads(pickle.dumps(stage))
    assert copy == stage
    if name != "tag.tokens":
        assert copy.describe() == stage.describe()
        assert stage.describe()["step"] == name
        assert ("drop" in stage.writes(RECORD_SCHEMA)) == stage.decides


def test_an_unknown_step_is_named_with_the_closest() -> None:
    with pytest.raises(UsageError) as caught:
        build_stage("dedup.exakt", None, "r.yaml: steps[2]")
    assert str(caught.value) == "r.yaml: steps[2]: unknown step 'dedup.exakt'\nhint: did you mean dedup.exact?"


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("dedup.exact", {"onn": "prompt"}, "s.dedup.exact: unknown key 'onn'"),
        ("dedup.exact", {"on": "promt"}, "dedup.exact: no selector 'promt'"),
        ("dedup.exact", {"normalise": ["cases"]}, "dedup.exact: normalise 'cases'"),
        ("dedup.exact", {"keep": "id sideways"}, "keep order 'id sideways'"),
        ("dedup.exact", {"keep": "id;"}, "keep order 'id;'"),
        ("filter.where", None, "s.filter.where: expression is missing"),
        ("filter.where", {"expression": "true", "null": "maybe"}, "filter.where: null is 'maybe'"),
        ("tag.metadata", None, "tag.metadata takes either set or join"),
        ("tag.metadata", {"set": {"a": "1"}, "join": "f.csv"}, "tag.metadata takes either set or join"),
        ("tag.metadata", {"set": {"source": "'x'"}}, "tag.metadata cannot set 'source'"),
        ("tag.metadata", {"set": {"a.b": "1"}}, "tag.metadata cannot set 'a.b'"),
        ("tag.signals", {"x": 1}, "s.tag.signals: unknown key 'x'"),
        ("tag.signals", "x", "s: tag.signals has no settings"),
        ("sample", {"rows": -1}, "sample: -1 rows"),
        ("sample", {"rows": "many"}, "s.sample"),
    ],
)
def test_wrong_settings_are_refused(name: str, settings: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        build_stage(name, settings, "s")
    assert caught.value.message.startswith(message)


def test_a_bare_value_goes_to_the_first_setting() -> None:
    assert build_stage("filter.where", "true") == build_stage("filter.where", {"expression": "true"})
    assert build_stage("dedup.exact", "prompt") == build_stage("dedup.exact", {"on": "prompt"})
    assert setting_names(stage_class("dedup.exact")) == ["on", "keep", "normalise"]


def test_the_catalog_imports_no_stage() -> None:
    code = (
        "import sys, curator.stages.catalog as c\n"
        "print([m for m in sys.modules if m.startswith('curator.stages.') and m.count('.') > 2 or m == 'duckdb'])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
