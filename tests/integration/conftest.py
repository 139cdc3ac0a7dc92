"""A small dataset in several shards with what each command makes of it when nothing interrupts."""

import pytest
from kill_helpers import Small, run, write_rows

SHARD_BYTES = 60_000


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    root = tmp_path_factory.mktemp("integration")
    write_rows(root / "raw.jsonl", 6 * SHARD_BYTES)
    lines = {
        "ingest": ("ingest", root / "raw.jsonl", "--shard-bytes", SHARD_BYTES),
        "tag": ("tag", "signals", root / "ingest"),
        "dedup": ("dedup", "exact", root / "ingest", "--on", "conversation"),
        "mix": ("mix", root / "ingest"),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("curator.io.dataset.GROUP_BYTES", 1)
        for name, line in lines.items():
            run(*line, "--out", root / name, "--workers", 1)
    return Small(root, lines)


@pytest.fixture(autouse=True)
def _each_shard_a_task(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "small" in request.fixturenames:
        monkeypatch.setattr("curator.io.dataset.GROUP_BYTES", 1)
