"""Settings from YAML: what is not meant is named with its place, and never ignored."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from curator.errors import UsageError
from curator.mixture.spec import MixSpec
from curator.schema.check import build, did_you_mean, load_yaml


@dataclass(frozen=True)
class Leaf:
    threshold: float = 0.5
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.threshold > 1:
            raise UsageError(f"threshold is {self.threshold}")


@dataclass(frozen=True)
class Root:
    name: str
    leaf: Leaf = field(default_factory=Leaf)
    maybe: Leaf | None = None
    leaves: list[Leaf] = field(default_factory=list)
    table: dict[str, Leaf] = field(default_factory=dict)
    either: str | list[str] = ""
    count: int = 0


def fault(mapping: Any) -> tuple[str, str | None]:
    with pytest.raises(UsageError) as caught:
        build(Root, mapping, "f.yaml")
    return caught.value.message, caught.value.hint


def test_build_gives_nested_dataclasses() -> None:
    built = build(
        Root,
        {
            "name": "n",
            "leaf": {"threshold": 1, "names": ["a", "b"]},
            "maybe": {"threshold": 0.25},
            "leaves": [{}],
            "table": {"k": {"names": ["c"]}},
            "either": ["x"],
        },
        "f",
    )
    assert built == Root(
        "n", Leaf(1.0, ("a", "b")), Leaf(0.25), [Leaf()], {"k": Leaf(names=("c",))}, either=["x"], count=0
    )


@pytest.mark.parametrize(
    ("mapping", "place"),
    [
        ({"leaf": {"treshold": 1}}, "f.yaml: leaf"),
        ({"maybe": {"treshold": 1}}, "f.yaml: maybe"),
        ({"leaves": [{}, {"treshold": 1}]}, "f.yaml: leaves[1]"),
        ({"table": {"k": {"treshold": 1}}}, "f.yaml: table.k"),
    ],
)
def test_unknown_key_is_named_at_any_depth(mapping: dict[str, Any], place: str) -> None:
    assert fault({"name": "n", **mapping}) == (f"{place}: unknown key 'treshold'", "did you mean threshold?")


def test_key_under_the_wrong_section_lists_the_known_ones() -> None:
    message, hint = fault({"name": "n", "leaf": {"count": 1}})
    assert message == "f.yaml: leaf: unknown key 'count'"
    assert hint == "known: names, threshold"


def test_missing_key_is_named() -> None:
    assert fault({}) == ("f.yaml: name is missing", None)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"name": 5}, "f.yaml: name: expected `str`, got `int`"),
        ({"name": "n", "leaf": {"threshold": "0,5"}}, "f.yaml: leaf.threshold: expected `float`, got `str`"),
        ({"name": "n", "leaf": {"names": ["a", 1]}}, "f.yaml: leaf.names[1]: expected `str`, got `int`"),
        ({"name": "n", "leaf": "x"}, "f.yaml: leaf: expected keys and values, got text"),
        ({"name": "n", "leaf": None}, "f.yaml: leaf: expected keys and values, got nothing"),
        ({"name": "n", "leaf": [1]}, "f.yaml: leaf: expected keys and values, got a list"),
        ({"name": "n", "count": 1.5}, "f.yaml: count: expected `int`, got `float`"),
        ({"name": "n", "count": True}, "f.yaml: count: expected `int`, got `bool`"),
        (["name"], "f.yaml: expected keys and values, got a list"),
        ("name", "f.yaml: expected keys and values, got text"),
    ],
)
def test_wrong_type_is_named_with_its_path(mapping: Any, message: str) -> None:
    assert fault(mapping)[0] == message


def test_range_checks_of_the_dataclass_come_through() -> None:
    assert fault({"name": "n", "leaf": {"threshold": 80}})[0] == "threshold is 80.0"


def test_did_you_mean_lists_few_and_says_nothing_of_many() -> None:
    assert did_you_mean("promt", ["prompt", "response"]) == "did you mean prompt?"
    assert did_you_mean("zzz", ["b", "a"]) == "known: a, b"
    assert did_you_mean("zzz", [f"name{i}" for i in range(25)]) is None
    assert did_you_mean("zzz", []) is None


# --- YAML --------------------------------------------------------------------------------------------------------


def test_yaml_words_and_numbers_are_what_they_look_like() -> None:
    text = """
on: yes
off: no
y: n
rate: 1e-3
other: 2E5
half: .5
whole: 1_000_000
truth: true
lie: False
none: ~
nothing: null
word: "1e-3"
version: 1.2.3
inf: .inf
"""
    assert load_yaml(text, "f") == {
        "on": "yes",
        "off": "no",
        "y": "n",
        "rate": 0.001,
        "other": 200000.0,
        "half": 0.5,
        "whole": 1_000_000,
        "truth": True,
        "lie": False,
        "none": None,
        "nothing": None,
        "word": "1e-3",
        "version": "1.2.3",
        "inf": float("inf"),
    }
    assert isinstance(load_yaml("rate: 1e-3", "f")["rate"], float)


def yaml_fault(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        load_yaml(text, "f.yaml")
    assert "\n" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml, line 3: key 'a' is there twice"),
        ("a:\n  b: 1\n  c: 2\n  b: 3\n", "f.yaml, line 4: key 'b' is there twice"),
        ("a: [{b: 1, b: 2}]\n", "f.yaml, line 1: key 'b' is there twice"),
        ("a:\n\tb: 1\n", "f.yaml, line 2: not YAML: "),
        ("a: [1, 2\n", "f.yaml, line 2: not YAML: "),
        ("a: !!python/object:os.system x\n", "f.yaml, line 1: not YAML: "),
        ("? [a, b]\n: 1\n", "f.yaml, line 1: a key must be one word or number"),
        ("a: *nowhere\n", "f.yaml, line 1: not YAML: "),
        ("a: 1\x00\n", "f.yaml: not YAML: "),
        ("a: 1\n--- \nb: 2\n", "f.yaml, line 2: not YAML: "),
    ],
)
def test_bad_yaml_is_one_line_with_its_place(text: str, start: str) -> None:
    assert yaml_fault(text).startswith(start)


def test_empty_yaml_is_nothing() -> None:
    assert load_yaml("", "f") is None
    assert load_yaml("# only words\n", "f") is None


def test_a_config_file_must_hold_keys(tmp_path: Any) -> None:
    path = tmp_path / "mix.yaml"
    for content, message in [
        (b"", f"{path}: a mixture is a set of keys"),
        (b"- a\n", f"{path}: expected keys and values, got a list"),
        (b"seed: \xe9\n", f"{path}: not text in UTF-8"),
        (b"seeds: 1\n", f"{path}: unknown key 'seeds'"),
        (b"budget:\n  rows: many\n", f"{path}: budget.rows: expected `int | null`, got `str`"),
    ]:
        path.write_bytes(content)
        with pytest.raises(UsageError) as caught:
            MixSpec.from_file(path)
        assert caught.value.message == message
    with pytest.raises(UsageError, match="no such file"):
        MixSpec.from_file(tmp_path / "nothing.yaml")


def test_null_as_a_key_is_a_word() -> None:
    assert load_yaml("{null: keep, by: {null: 2}, value: null}", "x") == {
        "null": "keep",
        "by": {"null": 2},
        "value": None,
    }
