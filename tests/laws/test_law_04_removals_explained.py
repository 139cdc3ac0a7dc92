"""Law 4, every removal explains itself: step, rule, value, threshold, keeper, detail."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from law_samples import ONE_NUMBER, SOURCES, TRUTH, TWO_COLUMNS, Story, curator, parquet_rows
from near_reference import jaccard, shingles
from record_samples import passed

from curator.stages.dedup.exact import Exact
from curator.stages.dedup.near import Near
from curator.stages.filter.where import Where
from curator.stages.sample import Sample


def drops(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["id"]: row["drop"] for row in parquet_rows(folder, "rejects")}


def test_every_removed_row_has_step_rule_and_detail(story: Story) -> None:
    seen: Counter[str] = Counter()
    for folder in story.folders:
        assert all(row["drop"] is None for row in parquet_rows(folder))
        for drop in drops(folder).values():
            assert drop["step"] and drop["rule"] and drop["detail"]
            assert drop["step"] in folder.name
            seen[f"{drop['step']}/{drop['rule']}"] += 1
    assert set(seen) == {
        "dedup.exact/duplicate",
        "dedup.near/duplicate",
        "filter.where/where",
        "mix/budget",
        "mix/kind",
    }
    assert min(seen.values()) > 5


def test_every_quarantined_row_says_where_and_why(story: Story) -> None:
    rows = parquet_rows(story.root / "sources/broken", "quarantine")
    assert len(rows) == len(TRUTH["files"]["broken.jsonl"]["bad"])
    text = (story.recipe.root and Path(story.recipe.root) / "broken.jsonl").read_bytes()
    for row in rows:
        assert row["reason"].partition(":")[0].strip() and row["file"] == "broken.jsonl"
        assert text[row["byte_offset"] :].startswith(row["raw"]) and row["raw"]


def test_a_row_that_fails_two_filters_is_named_by_the_first(story: Story) -> None:
    folder = story.pass_of("filter.where")
    came = {row["id"]: row for row in parquet_rows(story.before(folder)[0])}
    expected = {}
    for name, row in came.items():
        words = row["scores"]["num_response_words"]["value"]
        chars = row["scores"]["num_prompt_chars"]["value"]
        if not 3 <= words <= 120:
            expected[name] = (ONE_NUMBER, words)
        elif row["metadata"]["source"] == "pairs" and chars <= 60:
            expected[name] = (TWO_COLUMNS, None)
    found = {name: (drop["detail"], drop["value"]) for name, drop in drops(folder).items()}
    assert found == expected
    assert {detail for detail, _ in found.values()} == {ONE_NUMBER, TWO_COLUMNS}


@pytest.mark.parametrize("null", ["drop", "keep"])
def test_a_value_that_was_not_measured_is_told_apart(story: Story, tmp_path: Path, null: str) -> None:
    stage = Where("scores.num_response_words.value > 5 and metadata.difficulty <> 'easy'", null=null)
    tagged = story.pass_of("tag.signals")
    out = passed(stage, tagged, tmp_path / "out")
    expected = {}
    for row in parquet_rows(tagged):
        enough, level = row["scores"]["num_response_words"]["value"] > 5, row["metadata"]["difficulty"]
        known = None if level is None else level != "easy"
        if enough is False or known is False:
            expected[row["id"]] = "where"
        elif known is None and null == "drop":
            expected[row["id"]] = "unknown"
    assert {name: drop["rule"] for name, drop in drops(out).items()} == expected
    assert len(set(expected.values())) == (2 if null == "drop" else 1)


def conversation(row: dict[str, Any]) -> Any:
    """All that a conversation is, by fields rather than as one text."""

    def turns(messages: list[dict[str, Any]] | None) -> Any:
        # A field that is null and one that is empty say the same.
        names = ("role", "name", "reasoning", "content", "tool_calls")
        return [[message[name] or "" for name in names] for message in messages or []]

    return (turns(row["messages"]), row["tools"] or "", turns(row["rejected"]))


def turns_of(role: str) -> Any:
    def text(row: dict[str, Any]) -> str:
        parts = [turn["content"] for turn in row["messages"] if turn["role"] == role and turn["content"] is not None]
        return "\n\n".join(parts)

    return text


def squeezed(text: str) -> str:
    return " ".join(text.casefold().split())


def plain(text: Any) -> Any:
    return text


CASES: list[tuple[dict[str, Any], Any, Any, Any]] = [
    ({"on": "conversation"}, conversation, plain, None),
    ({"on": "prompt"}, turns_of("user"), plain, None),
    ({"on": "response", "normalise": ("case", "space")}, turns_of("assistant"), squeezed, None),
    (
        {"on": "prompt", "normalise": ("space", "case"), "keep": "scores.num_response_chars.value desc, id"},
        turns_of("user"),
        squeezed,
        lambda row: -row["scores"]["num_response_chars"]["value"],
    ),
]


def id_key(name: str) -> tuple[str, int]:
    prefix, _, number = name.rpartition("#")
    return prefix, int(number)


@pytest.mark.parametrize(
    ("settings", "select", "normalise", "better"), CASES, ids=["whole", "prompt", "answer", "long"]
)
def test_a_duplicate_is_equal_to_its_keeper_and_the_keeper_is_kept(
    story: Story, tmp_path: Path, settings: dict[str, Any], select: Any, normalise: Any, better: Any
) -> None:
    tagged = story.pass_of("tag.signals")
    out = passed(Exact(**settings), tagged, tmp_path / "out")
    came = {row["id"]: row for row in parquet_rows(tagged)}
    groups: dict[str, list[str]] = {}
    for name, row in came.items():
        key = normalise(select(row))
        if key:
            groups.setdefault(repr(key), []).append(name)
    expected = {}
    for names in groups.values():
        rank = sorted(names, key=lambda name: (better(came[name]) if better else 0, id_key(name)))
        expected |= dict.fromkeys(rank[1:], rank[0])
    kept = {row["id"] for row in parquet_rows(out)}
    found = drops(out)
    assert {name: drop["keeper"] for name, drop in found.items()} == expected
    assert len(expected) > 10
    for name, drop in found.items():
        assert drop["keeper"] in kept and name not in kept
        assert normalise(select(came[name])) == normalise(select(came[drop["keeper"]]))
        assert (drop["value"], drop["threshold"], drop["rule"]) == (1.0, 1.0, "duplicate")
        assert settings["on"] in drop["detail"]


@pytest.mark.parametrize(
    ("settings", "role"),
    [
        ({"on": "response", "threshold": 0.6}, "assistant"),
        ({"on": "prompt", "threshold": 0.7, "unit": "characters", "size": 5}, "user"),
    ],
    ids=["words", "characters"],
)
def test_a_near_duplicate_is_as_similar_to_its_keeper_as_it_says(
    story: Story, tmp_path: Path, settings: dict[str, Any], role: str
) -> None:
    """Recomputed with Python sets, which share nothing with the kernels."""
    tagged = story.pass_of("tag.signals")
    out = passed(Near(**settings), tagged, tmp_path / "out")
    texts = {row["id"]: turns_of(role)(row) for row in parquet_rows(tagged)}
    kept, found = {row["id"] for row in parquet_rows(out)}, drops(out)
    how = {name: settings[name] for name in ("unit", "size") if name in settings}
    assert sum(drop["value"] < 1 for drop in found.values()) > 10
    for name, drop in found.items():
        assert drop["keeper"] in kept and name not in kept
        similarity = jaccard(shingles(texts[name], **how), shingles(texts[drop["keeper"]], **how))
        assert drop["value"] == pytest.approx(similarity, abs=1e-12) and similarity >= drop["threshold"]
        assert (drop["threshold"], drop["rule"]) == (settings["threshold"], "duplicate")
        assert settings["on"] in drop["detail"]


def test_the_duplicates_are_those_that_the_sample_data_was_given(story: Story) -> None:
    """Preference rows and the rows that only differ in what truth.json leaves out are no part of it."""
    sources = {name: source for source, names in SOURCES.items() for name in names}
    expected = set()
    for group in TRUTH["exact_duplicates"]:
        names = [
            f"{sources[file]}/{Path(file).name if sources[file] == 'agents' else file}#{row}" for file, row in group
        ]
        expected.add(frozenset(names))
    found: dict[str, set[str]] = {}
    for name, drop in drops(story.pass_of("dedup.exact")).items():
        found.setdefault(drop["keeper"], {drop["keeper"]}).add(name)
    assert {frozenset(group) for group in found.values()} == expected


def test_mixture_rejects_say_why(story: Story) -> None:
    came = {row["id"]: row for row in parquet_rows(story.passes[-2])}
    for name, drop in drops(story.mixture).items():
        assert (drop["rule"] == "kind") == (came[name]["kind"] != "sft")
        assert drop["keeper"] is None


def test_a_sample_counts_what_it_leaves_out_and_stores_none_of_it(story: Story, tmp_path: Path) -> None:
    out = passed(Sample(rows=10), story.pass_of("dedup.exact"), tmp_path / "out")
    assert not (out / "rejects").exists() or not list((out / "rejects").iterdir())


def test_why_tells_the_fate_that_the_rejects_hold(story: Story) -> None:
    for step in ("dedup.exact", "filter.where", "mix"):
        folder = story.pass_of(step)
        name, drop = next(iter(drops(folder).items()))
        told = curator("why", name, story.root).out.decode()
        assert drop["rule"] in told and "dropped" in told
        if drop["keeper"]:
            assert drop["keeper"] in told.replace("\n", "")
