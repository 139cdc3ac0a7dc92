"""What every test may use."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def sample_data() -> Path:
    return ROOT / "sample_data"


@pytest.fixture(scope="session")
def tiny_model(sample_data: Path) -> Path:
    return sample_data / "tiny-model"


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; tests that need it are skipped without CURATOR_REAL_DATA."""
    folder = os.environ.get("CURATOR_REAL_DATA")
    if not folder:
        pytest.skip("CURATOR_REAL_DATA is not set")
    return Path(folder)


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Names for bytes that are no text: compressed ones differ from run to run, and a test keeps its name."""
    if isinstance(val, bytes) and not (val.isascii() and val.decode("latin-1").isprintable()):
        return f"{argname} of {len(val)} bytes"
    return None
