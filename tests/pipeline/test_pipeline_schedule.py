"""Which steps share a pass."""

import pytest

from curator.pipeline.schedule import schedule
from curator.stages.base import Stage
from curator.stages.catalog import build_stage

STEPS: dict[str, Stage] = {
    "signals": build_stage("tag.signals", None),
    "tokens": build_stage("tag.tokens", "m"),
    "metadata": build_stage("tag.metadata", {"set": {"domain": "'x'"}}),
    "exact": build_stage("dedup.exact", None),
    "where": build_stage("filter.where", "true"),
    "sample": build_stage("sample", 5),
}


@pytest.mark.parametrize(
    ("steps", "folders"),
    [
        ("", []),
        ("signals", ["01-tag.signals"]),
        ("signals tokens metadata", ["01-tag.signals+tag.tokens+tag.metadata"]),
        ("signals where", ["01-tag.signals", "02-filter.where"]),
        ("where where", ["01-filter.where+filter.where"]),
        ("where signals where", ["01-filter.where", "02-tag.signals", "03-filter.where"]),
        ("signals exact exact where", ["01-tag.signals", "02-dedup.exact", "03-dedup.exact", "04-filter.where"]),
        ("signals tokens sample tokens", ["01-tag.signals+tag.tokens", "02-sample", "03-tag.tokens"]),
    ],
)
def test_row_steps_fuse_when_both_score_or_both_decide(steps: str, folders: list[str]) -> None:
    passes = schedule([STEPS[name] for name in steps.split()])
    assert [item.folder for item in passes] == folders
    assert [stage for item in passes for stage in item.stages] == [STEPS[name] for name in steps.split()]
