"""Memory is bounded by the batch, not by the data: PSS of the process tree over a file of 2 GB."""

import time
from pathlib import Path

import psutil
import pytest
from kill_helpers import finish, start, write_rows

LIMIT = 1.5 * 2**30
RAW_BYTES = 2_000_000_000


def pss_of_tree(process: psutil.Process) -> int:
    """Proportional set size of a process and its children: shared pages count once."""
    total = 0
    for member in [process, *process.children(recursive=True)]:
        try:
            total += member.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total


def peak_of(*arguments: object) -> tuple[int, float]:
    """The highest PSS of a command, sampled, and its seconds."""
    started = time.monotonic()
    process = start(*arguments)
    tree = psutil.Process(process.pid)
    peak = 0
    while process.poll() is None:
        try:
            peak = max(peak, pss_of_tree(tree))
        except psutil.Error:
            break
        time.sleep(0.2)
    code, err = finish(process)
    assert code == 0, err
    return peak, time.monotonic() - started


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_gigabytes_in_little_memory(tmp_path: Path) -> None:
    if not hasattr(psutil.Process().memory_full_info(), "pss"):
        pytest.skip("PSS is known on Linux only")
    write_rows(tmp_path / "block.jsonl", 20_000_000)
    block = (tmp_path / "block.jsonl").read_bytes()
    with (tmp_path / "raw.jsonl").open("wb") as file:
        while file.tell() < RAW_BYTES:
            file.write(block)

    commands = {
        "ingest": ("ingest", tmp_path / "raw.jsonl", "--out", tmp_path / "raw"),
        "filter where": (
            "filter",
            "where",
            tmp_path / "raw",
            "length(messages[2].content) > 300",
            "--out",
            tmp_path / "f",
        ),
    }
    for name, line in commands.items():
        peak, seconds = peak_of(*line)
        print(f"{name}: peak PSS {peak / 2**20:,.0f} MiB, {RAW_BYTES / 1e6 / seconds:,.0f} MB/s of raw JSON lines")
        assert peak < LIMIT, name
