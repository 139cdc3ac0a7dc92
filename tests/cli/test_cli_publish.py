"""curator export --to hf on the command line, and what it says when something is missing."""

import json
import sys
from pathlib import Path

import pytest
from cli_helpers import curator

ROWS = '{"instruction": "a", "output": "b"}\n{"instruction": "c", "output": "d"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text(ROWS)
    assert curator("ingest", tmp_path / "rows.jsonl", "--license", "mit", "--out", tmp_path / "d").code == 0
    return tmp_path / "d"


def test_a_folder_is_written_and_counted(folder: Path, tmp_path: Path) -> None:
    done = curator("export", folder, "--to", "hf", "--out", tmp_path / "hf", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out) == {
        "out": str(tmp_path / "hf"),
        "target": "hf",
        "read": 2,
        "rows": {"sft": {"train": 2}},
        "url": None,
    }
    assert "sft train" in curator("export", folder, "--to", "hf", "--out", tmp_path / "hf", "--overwrite").out
    assert sorted(path.name for path in (tmp_path / "hf").iterdir()) == ["README.md", "data"]


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--to", "hf"], 2, "--to hf writes a folder"),
        (["--to", "alpaca", "--out", "OUT.jsonl", "--push", "a/b"], 2, "--push goes with --to hf"),
        (["--to", "hf", "--out", "OUT", "--push", "b"], 2, "names no dataset"),
        (["--to", "hf", "--out", "OUT", "--push", "a/b"], 1, "--push needs a token"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], code: int, words: str
) -> None:
    pytest.importorskip("huggingface_hub")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    done = curator("export", folder, *(option.replace("OUT", str(tmp_path / "out")) for option in options))
    assert done.code == code and words in done.error
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    "line",
    [
        ["ingest", "hf://datasets/a/b", "--out", "OUT"],
        ["export", "IN", "--to", "hf", "--out", "OUT", "--push", "a/b"],
    ],
)
def test_without_the_hubs_library_the_extra_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: list[str]
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "huggingface_hub"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # type: ignore[arg-type]
    places = {"IN": str(folder), "OUT": str(tmp_path / "out")}
    done = curator(*(places.get(word, word) for word in line))
    assert done.code == 1 and "not installed" in done.error
    assert done.hint == "pip install 'sft-curator[hub]'"
    assert not (tmp_path / "out").exists()
