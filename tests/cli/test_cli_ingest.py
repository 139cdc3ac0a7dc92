"""curator ingest as a person types it: own mappings, dry runs, gates, folders that grow."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import curator, tree
from record_samples import rows_of, write_lines

SAMPLES = Path(__file__).parents[2] / "sample_data"
ROW = {"body": {"question": "q", "lang": "en"}, "answers": [{"text": "a"}], "topic": "math"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "raw.jsonl", [ROW] * 5)


def test_a_mapping_by_flags_and_by_file_is_one(tmp_path: Path, path: Path) -> None:
    flags = ("--map", "prompt=body.question", "--map", "response=answers[0].text", "--map", "kind=='sft'")
    done = curator("ingest", path, *flags, "--source", "s", "--out", tmp_path / "d")
    assert done.code == 0, done.err
    row = rows_of(tmp_path / "d")[0]
    assert [turn["content"] for turn in row["messages"]] == ["q", "a"]
    assert row["extra"] == '{"topic":"math","body":{"lang":"en"}}'
    mapping = tmp_path / "own.yaml"
    mapping.write_text("prompt: body.question\nresponse: answers[0].text\nkind: ='sft'\n")
    done = curator("ingest", path, "--map", mapping, "--source", "s", "--out", tmp_path / "d", "--json")
    assert json.loads(done.out)["reused"]
    # Another mapping makes another folder.
    done = curator("ingest", path, *flags[:4], "--source", "s", "--out", tmp_path / "d")
    assert done.code == 1 and "steps[0].settings.map.kind: was" in done.error


@pytest.mark.parametrize(
    ("flags", "message", "hint"),
    [
        (["--map", "promt=a"], "map: promt: no such place", "did you mean prompt?"),
        (["--map", "prompt=a[x]"], "path 'a[x]' cannot be read from character 2", "names with dots"),
        (["--map", "prompt"], "--map prompt", "write --map name=value"),
        (["--map", "prompt=a", "--map", "prompt=b"], "--map names prompt twice", ""),
        (["--map", "gone.yaml"], "--map gone.yaml: no such file", "looked in"),
        (["--map", "prompt=a", "--adapter", "alpaca"], "adapter and map", "leave one out"),
        (["--max-quarantine", "some"], "max_quarantine 'some'", "1%"),
    ],
)
def test_wrong_words_stop_before_work(tmp_path: Path, path: Path, flags: list[str], message: str, hint: str) -> None:
    done = curator("ingest", path, *flags, "--out", tmp_path / "d")
    assert done.code == 2 and message in done.error
    assert not hint or hint in done.hint
    assert not (tmp_path / "d").exists()


def test_the_gate_is_one_percent(tmp_path: Path) -> None:
    rows: list[Any] = [{"instruction": "q", "output": "a"}] * 100
    path = write_lines(tmp_path / "raw.jsonl", [*rows, b"broken"])
    done = curator("ingest", path, "--source", "s", "--out", tmp_path / "one")
    assert done.code == 0 and "warning: 1 of 101 rows are quarantined: not JSON 1" in done.err
    write_lines(path, [*rows, b"broken", b"broken"])
    line = ("ingest", path, "--source", "s", "--out", tmp_path / "two")
    done = curator(*line)
    assert done.code == 1
    assert "2 of 102 rows are quarantined, more than 1%: not JSON 2; the first is row 100 of raw.jsonl" in done.error
    assert "--max-quarantine 2% " in done.hint and "quarantine" in done.hint
    assert curator(*line, "--max-quarantine", "2%").code == 0
    assert curator(*line[:-1], tmp_path / "strict", "--max-quarantine", 0).code == 1
    # In a pipe the stream is left without its end, so that no reader takes it for whole.
    done = curator("ingest", path, "--source", "s")
    assert done.code == 1 and "2 of 102 rows are quarantined" in done.error and "--rejects DIR" in done.hint


def test_b152_allow_empty(tmp_path: Path) -> None:
    line = ("ingest", tmp_path / "none*.jsonl", "--source", "s", "--out", tmp_path / "d")
    assert curator(*line).code == 1
    done = curator(*line, "--allow-empty")
    assert done.code == 0 and "no file matches" in done.err
    assert curator("check", tmp_path / "d").code == 0


def test_b140_a_changed_file_is_never_taken_for_the_old_one(tmp_path: Path) -> None:
    import os

    path = write_lines(tmp_path / "raw.jsonl", [{"instruction": "q", "output": word} for word in ("one", "two")])
    line = ("ingest", path, "--source", "s", "--out", tmp_path / "d")
    assert curator(*line).code == 0
    stat = path.stat()
    path.write_bytes(path.read_bytes().replace(b"two", b"six"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    done = curator(*line)
    assert done.code == 0 and "raw.jsonl has changed and is read as raw.jsonl@2" in done.err
    assert [row["messages"][1]["content"] for row in rows_of(tmp_path / "d")] == ["one", "two", "one", "six"]
    path.write_bytes(path.read_bytes().replace(b"six", b"ten"))
    done = curator(*line, "--replace", "--json")
    assert json.loads(done.out)["files"]["changed"] == {"raw.jsonl": "raw.jsonl"}
    assert [row["messages"][1]["content"] for row in rows_of(tmp_path / "d")] == ["one", "ten"]
    assert curator("check", tmp_path / "d").code == 0


def test_b151_a_damaged_file_among_new_ones_is_no_success(tmp_path: Path) -> None:
    import gzip

    raw = tmp_path / "raw"
    write_lines(raw / "a.jsonl", [{"instruction": "q", "output": "a"}])
    line = ("ingest", raw, "--source", "s", "--out", tmp_path / "d", "--json")
    assert curator(*line).code == 0
    whole = gzip.compress(b'{"instruction": "q", "output": "b"}\n' * 5_000)
    (raw / "b.jsonl.gz").write_bytes(whole[:-30])
    done = curator(*line)
    assert done.code in (1, 3) and "b.jsonl.gz" in done.error and done.out == ""
    (raw / "b.jsonl.gz").write_bytes(whole)
    assert json.loads(curator(*line).out)["kept"] == 5_001


def columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


@pytest.mark.parametrize("name", ["alpaca.json", "chats", "broken.jsonl", "qa.csv", "preference.jsonl"])
def test_a_dry_run_fits_a_terminal_and_writes_nothing(tmp_path: Path, name: str) -> None:
    before = tree(SAMPLES)
    done = curator("ingest", "--dry-run", SAMPLES / name, "--out", tmp_path / "d")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert max(map(columns, lines)) <= 100 and lines[-1] == "nothing was written"
    assert "format: " in done.out and "goes to" in done.out and "\x1b" not in done.out
    assert done.out.count("  before  ") == done.out.count("  after   ") in (3, 6)
    assert not (tmp_path / "d").exists() and tree(SAMPLES) == before
    if name in ("alpaca.json", "qa.csv", "preference.jsonl"):
        assert len(lines) <= 40
    else:
        assert ("ingest would stop" in done.out) == (name == "broken.jsonl")


def test_a_dry_run_as_json_and_from_a_pipe(tmp_path: Path, path: Path) -> None:
    done = curator("ingest", "--dry-run", path, "--map", "prompt=body.question", "--json")
    (result,) = json.loads(done.out)["files"]
    assert result["families"] == [{"name": "map", "rows": 5, "share": 1.0}]
    assert [row["after"][0]["messages"][0]["content"] for row in result["rows"]] == ["q", "q", "q"]
    done = curator("ingest", "--dry-run", path)
    assert done.code == 0
    assert "format: none that is known; --map says where things are" in done.out
    assert "quarantined: 5 of 5 rows, row 0: no adapter: fields are answers, body, topic" in done.out
    assert "ingest would stop" in done.out


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "raw.jsonl", [{"instruction": "\x1b[31mred\x07\u202e", "output": "数" * 400}])
    done = curator("ingest", "--dry-run", path)
    assert "\x1b" not in done.out and "\x07" not in done.out and "\u202e" not in done.out
    assert max(map(columns, done.out.splitlines())) <= 100
