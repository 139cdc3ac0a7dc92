"""A shell pipe gives the rows of the folder way, in its order; a producer that failed makes the consumer fail."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from cli_helpers import bash, curator

from curator.io.dataset import Dataset
from curator.io.stream import StreamReader

SAMPLE = Path(__file__).parents[2] / "sample_data"
WHERE = "scores.num_response_words.value > 20"


def rows(batches: object) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]  # type: ignore[attr-defined]


def stream(path: Path) -> list[dict[str, object]]:
    return rows(StreamReader.open(str(path)).batches())


GATE = "--max-quarantine 40%"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder way: raw, tagged and kept, made from the bytes that the pipe gets."""
    root = tmp_path_factory.mktemp("pipes")
    script = f"zcat {SAMPLE}/chats/talk.jsonl.gz {SAMPLE}/chats/agents.jsonl.gz > raw.jsonl"
    assert bash(script, root).code == 0
    done = bash(
        f"cat {SAMPLE}/broken.jsonl >> raw.jsonl; curator ingest - {GATE} --source s --out raw < raw.jsonl",
        root,
    )
    assert done.code == 0, done.err
    assert curator("tag", "signals", root / "raw", "--out", root / "tagged").code == 0
    assert curator("filter", "where", root / "tagged", WHERE, "--out", root / "kept").code == 0
    assert bash("curator concat kept > kept.arrow", root).code == 0
    return root


def test_pipe_equals_folders(folders: Path, tmp_path: Path) -> None:
    script = (
        f"cat {folders}/raw.jsonl | curator ingest - {GATE} --source s --rejects bad | curator tag signals - "
        f"| curator filter where - '{WHERE}' --rejects gone > kept.arrow"
    )
    done = bash(script, tmp_path)
    assert done.code == 0, done.err
    kept = Dataset.open(folders / "kept")
    assert stream(tmp_path / "kept.arrow") == rows(kept.batches())
    assert rows(Dataset.open(tmp_path / "gone").rejects()) == rows(kept.rejects())
    assert rows(Dataset.open(tmp_path / "bad").quarantine()) == rows(Dataset.open(folders / "raw").quarantine())
    assert curator("check", tmp_path).code == 0
    # People are told on stderr: what each command did, one after the other.
    assert "quarantined" in done.err and f"dropped  filter.where/where  {len(rows(kept.rejects())):4d}" in done.err


def test_stream_is_an_input_like_a_folder(folders: Path, tmp_path: Path) -> None:
    done = curator("tag", "signals", folders / "kept.arrow", "--out", tmp_path / "again")
    assert done.code == 0, done.err
    assert rows(Dataset.open(tmp_path / "again").batches()) == rows(Dataset.open(folders / "kept").batches())
    history = [step["step"] for entry in Dataset.open(tmp_path / "again").history() for step in entry["steps"]]
    assert history == ["ingest", "tag.signals", "filter.where", "concat", "stream", "tag.signals"]


def test_dataset_stage_in_a_pipe(folders: Path, tmp_path: Path) -> None:
    script = f"curator concat {folders}/tagged | curator dedup exact - --on last_user --rejects gone > kept.arrow"
    done = bash(script, tmp_path)
    assert done.code == 0, done.err
    assert curator("dedup", "exact", folders / "tagged", "--on", "last_user", "--out", tmp_path / "folder").code == 0
    expected = Dataset.open(tmp_path / "folder")
    assert expected.manifest.ledger().dropped
    assert stream(tmp_path / "kept.arrow") == rows(expected.batches())
    assert rows(Dataset.open(tmp_path / "gone").rejects()) == rows(expected.rejects())


def test_mix_takes_a_stream(folders: Path, tmp_path: Path) -> None:
    done = curator("mix", folders / "kept.arrow", "--out", tmp_path / "mixed")
    assert done.code == 0, done.err
    assert Dataset.open(tmp_path / "mixed").num_rows == Dataset.open(folders / "kept").num_rows


def test_json_of_a_pipe_is_on_stderr(folders: Path, tmp_path: Path) -> None:
    done = curator("sample", folders / "kept", "-n", 3, "--json")
    report = json.loads(done.err.splitlines()[-1])
    assert (report["kept"], report["out"]) == (3, "-")
    assert "Say" not in done.err and len(done.out) > 1000


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
@pytest.mark.parametrize(
    "command", ["tag signals - --out OUT", "sample - -n 3 --out OUT", "filter where - true --rejects OUT"]
)
def test_producer_that_was_killed_is_no_short_input(share: float, command: str, folders: Path, tmp_path: Path) -> None:
    data = (folders / "kept.arrow").read_bytes()
    (tmp_path / "cut.arrow").write_bytes(data[: int(len(data) * share)])
    # What reads a pipe reads a file of the same bytes in the same way.
    words = [{"-": tmp_path / "cut.arrow", "OUT": tmp_path / "out"}.get(word, word) for word in command.split()]
    done = curator(*words)
    assert done.code == 1, done.err
    assert ("no records came" if share == 0 else "ended without its end mark") in done.error
    assert done.hint
    assert not (tmp_path / "out/manifest.json").exists()


def test_killed_producer_fails_the_pipe(folders: Path, tmp_path: Path) -> None:
    script = (
        f"set +o pipefail\n{{ cat {folders}/kept.arrow | head -c 30000; }} | curator filter where - true > kept.arrow\n"
    )
    done = bash(script, tmp_path)
    assert done.code == 1
    assert "the producer failed" in done.err
    with pytest.raises(Exception, match="end mark|no records came"):
        stream(tmp_path / "kept.arrow")


def test_what_is_no_stream(tmp_path: Path) -> None:
    (tmp_path / "x.arrow").write_bytes(b"hello")
    done = curator("tag", "signals", tmp_path / "x.arrow", "--out", tmp_path / "out")
    assert done.code == 1 and "x.arrow is not a stream of records" in done.error and done.hint
    with pa.OSFile(str(tmp_path / "y.arrow"), "wb") as sink, pa.ipc.new_stream(sink, pa.schema([("a", pa.int8())])):
        pass
    done = curator("tag", "signals", tmp_path / "y.arrow", "--out", tmp_path / "out")
    assert done.code == 1 and done.error
    assert not (tmp_path / "out/manifest.json").exists()


def test_rejects_of_an_earlier_run_are_kept(folders: Path, tmp_path: Path) -> None:
    line = ("filter", "where", folders / "tagged", WHERE, "--rejects", tmp_path / "gone")
    assert curator(*line).code == 0
    again = curator(*line)
    assert again.code == 1 and "gone holds the rejects of an earlier run" in again.error and "--overwrite" in again.hint
    assert curator(*line, "--overwrite").code == 0
