"""COVERAGE.toml: every case and every pitfall has a living test, or says when or why not."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CASES = """
001 003 004 006 008 010 011 013 015 016 017 018 019 020 022 023 024 026 028 029 030 031 032 035 037 038 039 040 043 044
045 048 050 051 053 054 056 058 059 060 061 063 064 065 067 068 070 073 074 075 078 079 082 083 084 086 088 089 090 092
093 096 097 099 100 101 103 105 106 108 110 111 113 115 117 118 119 120 121 123 126 127 128 129 131 133 135 136 138 139
140 141 144 146 148 150 151 152 154 156 157 158 160 162 163 164 165 168 170 171
"""
IDS = [f"B{number}" for number in CASES.split()] + [f"P{number:02d}" for number in range(1, 47)]
PARTS = {
    "ingest formats and export",
    "signals and tags",
    "mixing",
    "trainer",
    "dedup in full",
    "decontamination",
    "redaction",
    "verification",
    "engines at scale",
}
ENTRIES = tomllib.loads((ROOT / "tests/COVERAGE.toml").read_text(encoding="utf-8"))


def test_every_case_and_pitfall_has_one_entry() -> None:
    assert len(IDS) == 110 + 46
    assert list(ENTRIES) == IDS


DEAD = re.compile(r"pytest\.mark\.(skip|xfail)\b|pytest\.mark\.skipif\(True\b")


@cache
def living_tests(path: str) -> set[str]:
    """The test functions of a file that are neither skipped nor expected to fail, whatever happens."""
    return living_tests_of((ROOT / path).read_text(encoding="utf-8"))


def living_tests_of(source: str) -> set[str]:
    tree = ast.parse(source)
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "pytestmark"
            and DEAD.search(ast.unparse(node))
        ):
            return set()
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return {node.name for node in functions if not _is_dead(node)}


def _is_dead(node: ast.FunctionDef) -> bool:
    first = [ast.unparse(statement) for statement in node.body if not isinstance(statement, ast.Pass)][:2]
    marks = [ast.unparse(item) for item in node.decorator_list]
    return any(DEAD.match(mark) for mark in marks) or any(re.match(r"pytest\.(skip|xfail)\(", line) for line in first)


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.skip\ndef test_a(): assert f()",
        "@pytest.mark.xfail(strict=True)\ndef test_a(): assert f()",
        "@pytest.mark.skipif(True, reason='never')\ndef test_a(): assert f()",
        "pytestmark = pytest.mark.skip\ndef test_a(): assert f()",
        "def test_a():\n    'Says.'\n    pytest.skip('never')",
        "def a():\n    def test_a(): pass",
        "text = 'def test_a(): pass'",
    ],
)
def test_a_test_that_never_runs_is_dead(source: str) -> None:
    assert living_tests_of(source) == set()
    assert living_tests_of("@pytest.mark.parametrize('n', [1])\ndef test_a(n): assert n") == {"test_a"}


@pytest.mark.parametrize("name", IDS)
def test_an_entry_is_alive(name: str) -> None:
    entry = ENTRIES[name]
    (kind,) = entry.keys() - {"title"}
    assert entry["title"].strip()
    if kind == "test":
        tests = [entry["test"]] if isinstance(entry["test"], str) else entry["test"]
        assert tests
        for test in tests:
            path, _, function = test.partition("::")
            assert function in living_tests(path), f"{test} is not there"
    elif kind == "later":
        assert entry["later"] in PARTS
    else:
        assert kind == "reason" and len(entry["reason"]) > 10
