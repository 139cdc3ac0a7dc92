"""One shard deleted, cut or with one bit turned: check names it, and the same command redoes only that one."""

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from kill_helpers import Small, contents, run, times

from curator.cli.app import run_app


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def turn_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def problems(folder: Path) -> list[str]:
    out = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        run_app(["check", str(folder), "--json"])
        out.flush()
    (report,) = json.loads(out.buffer.getvalue())
    return report["problems"]


@pytest.mark.parametrize("harm", [Path.unlink, cut, turn_a_bit])
@pytest.mark.parametrize("name", ["ingest", "tag", "dedup", "mix"])
def test_only_the_damaged_shard_is_redone(
    harm: Callable[[Path], None], name: str, small: Small, tmp_path: Path
) -> None:
    line = (*small.lines[name], "--out", tmp_path / "out", "--workers", 1)
    run(*line)
    assert problems(tmp_path / "out") == []
    before = times(tmp_path / "out")
    harmed = sorted((tmp_path / "out/data").iterdir())[2]
    harm(harmed)
    found = problems(tmp_path / "out")
    assert len(found) == 1 and found[0].startswith(f"data/{harmed.name} ")
    run(*line)
    after = times(tmp_path / "out")
    assert [file for file in before if after[file] != before[file]] == [harmed.name]
    assert contents(tmp_path / "out") == contents(small.reference(name))


@pytest.mark.parametrize("file", ["order.parquet", "splits.parquet", "mixture.json"])
def test_damaged_order_is_written_again(file: str, small: Small, tmp_path: Path) -> None:
    line = (*small.lines["mix"], "--out", tmp_path / "out", "--workers", 1)
    run(*line)
    before = times(tmp_path / "out")
    turn_a_bit(tmp_path / "out" / file)
    assert any(file in problem for problem in problems(tmp_path / "out"))
    run(*line)
    assert times(tmp_path / "out") == before
    assert contents(tmp_path / "out") == contents(small.reference("mix"))


def test_valid_but_short_shard_of_an_earlier_life_is_not_believed(small: Small, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "data").mkdir(parents=True)
    shards = sorted((small.reference("tag") / "data").iterdir())
    (out / ".partial").mkdir()
    (out / "data/part-00003.parquet").write_bytes(shards[0].read_bytes())
    run(*small.lines["tag"], "--out", out, "--workers", 1, "--overwrite")
    assert contents(out) == contents(small.reference("tag"))
