"""Fixtures for passes."""

import pytest

from curator.io import dataset


@pytest.fixture
def every_shard_is_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small shards are not read together."""
    monkeypatch.setattr(dataset, "GROUP_BYTES", 1)
