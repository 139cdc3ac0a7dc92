"""curator export on the command line: files, pipes, and one line when something is wrong."""

import json
from pathlib import Path

import pytest
from cli_helpers import bash, curator

ROWS = ['{"output":"b","instruction":"a","n":1.50}', '{"messages":[{"role":"user","content":"q"}]}']


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text("\n".join([*ROWS, ROWS[0]]) + "\n")
    assert curator("ingest", tmp_path / "rows.jsonl", "--out", tmp_path / "d").code == 0
    return tmp_path / "d"


def test_to_a_file(folder: Path, tmp_path: Path) -> None:
    done = curator("export", folder, "--to", "source", "--out", tmp_path / "out.jsonl")
    assert done.code == 0 and "as they came" in done.out and done.err == ""
    assert (tmp_path / "out.jsonl").read_text().splitlines() == [*ROWS, ROWS[0]]


def test_to_stdout_which_holds_rows_alone(folder: Path) -> None:
    done = curator("export", folder, "--to", "source", "--out", "-", "--json")
    assert done.code == 0 and done.out.splitlines() == [*ROWS, ROWS[0]]
    account = {"out": "-", "target": "source", "read": 3, "restored": 3, "rendered": 0, "lost": {}, "skipped": {}}
    assert json.loads(done.err) == account


def test_what_the_form_cannot_hold(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    done = curator("export", folder, "--to", "alpaca", "--out", out)
    assert done.code == 1 and not out.exists()
    assert done.error.startswith("1 of 3 records cannot be written as alpaca: no answer at the end 1")
    assert "--skip" in done.hint
    done = curator("export", folder, "--to", "alpaca", "--out", out, "--skip")
    assert done.code == 0 and "out.jsonl.skipped.jsonl names them" in done.err
    assert "left out  no answer at the end" in done.out
    assert out.read_text().splitlines() == [ROWS[0]] * 2


def test_tags_and_what_has_no_place(folder: Path, tmp_path: Path) -> None:
    done = curator("export", folder, "--to", "messages", "--metadata", "--out", tmp_path / "out.jsonl")
    assert done.code == 0 and "messages has no place for extra 2" in done.err
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert rows[0]["metadata"] == {"source": "rows", "extra": {"n": 1.5}}
    assert rows[1] == {**json.loads(ROWS[1]), "metadata": {"source": "rows"}}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--to", "alpacca", "--out", "OUT.jsonl"], "alpacca"),
        (["--to", "alpaca", "--out", "OUT.txt"], "what should be written"),
        (["--to", "alpaca", "--out", "HERE"], "exists"),
        (["--out", "OUT.jsonl"], "--to"),
    ],
)
def test_wrong_options(folder: Path, tmp_path: Path, options: list[str], words: str) -> None:
    (tmp_path / "here.jsonl").write_text("mine\n")
    names = {"OUT": str(tmp_path / "out"), "HERE": str(tmp_path / "here.jsonl")}
    given = [
        next((option.replace(word, path) for word, path in names.items() if word in option), option)
        for option in options
    ]
    done = curator("export", folder, *given)
    assert done.code == 2 and words in done.error
    assert not list(tmp_path.glob("out*")) and (tmp_path / "here.jsonl").read_text() == "mine\n"


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    done = curator("export", tmp_path / "no", "--to", "alpaca", "--out", tmp_path / "out.jsonl")
    assert done.code != 0 and str(tmp_path / "no") in done.error


def test_in_a_pipe(folder: Path, tmp_path: Path) -> None:
    done = bash("curator filter where d \"kind = 'sft'\" | curator export - --to source", tmp_path)
    assert done.code == 0, done.err
    assert done.out.splitlines() == [ROWS[0]] * 2


def test_a_reader_that_goes_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text((ROWS[0] + "\n") * 20_000)
    assert curator("ingest", tmp_path / "rows.jsonl", "--out", tmp_path / "d").code == 0
    done = bash("curator export d --to source | head -1", tmp_path)
    assert done.out.splitlines() == [ROWS[0]] and "Traceback" not in done.err
