"""One recipe with every step, run once with one worker and once with two."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from law_samples import GROUP_BYTES, Story, run_story, whole_recipe

import curator.io.dataset
import curator.pipeline.rounds


@contextmanager
def small_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curator.io.dataset, "GROUP_BYTES", GROUP_BYTES)
        patch.setattr(curator.pipeline.rounds, "PARTITION_ROWS", 300)
        yield


@pytest.fixture(autouse=True, scope="module")
def several_tasks() -> Iterator[None]:
    """Every pass over the sample data has several tasks, every reduce several partitions."""
    with small_pieces():
        yield


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The recipe with one worker, in this process."""
    folder = tmp_path_factory.mktemp("laws-one")
    with small_pieces():
        return run_story(whole_recipe(folder), folder / "out", workers=1)
