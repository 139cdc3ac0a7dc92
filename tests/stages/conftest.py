"""Stages meet their rows in as many tasks as the test has shards."""

import pytest

from curator.io import dataset


@pytest.fixture(autouse=True)
def every_shard_is_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "GROUP_BYTES", 1)
