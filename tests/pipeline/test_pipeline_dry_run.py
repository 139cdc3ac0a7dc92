"""The dry run: what it says of a file is what ingest then does, and it writes nothing."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from record_samples import ingested, rows_of, write_lines

from curator.errors import CuratorError
from curator.io.build import SourceSettings
from curator.pipeline.inspect import dry_run as module
from curator.pipeline.inspect.dry_run import dry_run

SAMPLES = Path(__file__).parents[2] / "sample_data"


def looked(path: Path, **settings: Any) -> dict[str, Any]:
    (result,) = dry_run([str(path)], SourceSettings("s", **settings))["files"]
    return json.loads(json.dumps(result))


def places(result: dict[str, Any]) -> dict[str, list[str]]:
    return {entry["field"]: entry["places"] for entry in result["fields"]}


@pytest.mark.parametrize(
    ("rows", "family", "expected"),
    [
        (
            [{"instruction": "q", "input": "", "output": "a", "id": 7, "score": 1.5, "note": None}],
            "alpaca",
            {
                "instruction": ["messages: content of user"],
                "output": ["messages: content of assistant"],
                "id": ["metadata.original_id"],
                "score": ["extra"],
                "note": ["extra"],
            },
        ),
        (
            [
                {
                    "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}],
                    "tools": '[{"name": "t"}]',
                    "meta": {"deep": {"er": 1, "x": "y"}},
                }
            ],
            "sharegpt",
            {
                "conversations[].from": ["messages role"],
                "conversations[].value": ["messages: content of assistant, user"],
                "tools": ["tools"],
                "meta": ["extra"],
            },
        ),
        (
            [{"prompt": "q", "chosen": "good", "rejected": "bad", "metadata": {"domain": "math", "other": "x"}}],
            "preference",
            {
                "prompt": ["messages: content of user"],
                "chosen": ["messages: content of assistant"],
                "rejected": ["rejected: content of assistant"],
                "metadata.domain": ["metadata.domain"],
                "metadata.other": ["extra"],
            },
        ),
    ],
)
def test_each_field_has_its_place(tmp_path: Path, rows: list[Any], family: str, expected: dict[str, Any]) -> None:
    result = looked(write_lines(tmp_path / "raw.jsonl", rows))
    assert [entry["name"] for entry in result["families"]] == [family]
    assert expected.items() <= places(result).items()


def test_a_mapping_is_shown_as_it_works(tmp_path: Path) -> None:
    rows = [{"body": {"q": "q", "n": 1}, "answers": [{"text": "a"}], "topic": "math", "level": 3}] * 3
    mapping = {
        "prompt": "body.q",
        "response": "answers[0].text",
        "metadata.domain": "topic",
        "metadata.difficulty": "level",
    }
    result = looked(write_lines(tmp_path / "raw.jsonl", rows), map=mapping)
    assert result["families"] == [{"name": "map", "rows": 3, "share": 1.0}]
    assert result["also_possible"] == {}
    assert places(result) == {
        "body.q": ["messages: content of user"],
        "body.n": ["extra"],
        "answers": ["messages: content of assistant"],
        "topic": ["metadata.domain"],
        "level": ["extra", "metadata.difficulty"],
    }


def test_how_sure_and_what_else(tmp_path: Path) -> None:
    rows: list[Any] = [{"instruction": "q", "output": "a", "text": "t"}] * 6
    rows += [{"prompt": "q", "completion": "a"}] * 2 + [b"broken", {"x": 1}]
    result = looked(write_lines(tmp_path / "raw.jsonl", rows))
    assert result["families"] == [
        {"name": "alpaca", "rows": 6, "share": 0.6},
        {"name": "pairs", "rows": 2, "share": 0.2},
    ]
    assert result["also_possible"] == {"transcripts": 6}
    assert result["quarantined"]["rows"] == 2 and result["stops"]
    first = result["quarantined"]["reasons"][0]
    assert (first["reason"], first["example"]["row"], first["example"]["begins"]) == ("not JSON", 8, "broken")
    assert not looked(tmp_path / "raw.jsonl", max_quarantine="20%")["stops"]


def test_rows_of_two_readings_are_named(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "q"}]
    path = write_lines(tmp_path / "raw.jsonl", [{"messages": turns, "instruction": "q", "output": "a"}])
    result = looked(path)
    assert result["quarantined"]["reasons"][0]["reason"] == "ambiguous" and result["stops"]
    assert looked(path, adapter="openai")["families"][0]["name"] == "openai"


@pytest.mark.parametrize("packed", [False, True])
def test_the_sample_is_spread_over_the_file(tmp_path: Path, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(f'{{"instruction": "{n}", "output": "a"}}\n' for n in range(5000)).encode()
    path = tmp_path / "raw.jsonl"
    path.write_bytes(gzip.compress(lines) if packed else lines)
    if not packed:
        # As if the file were too large to be read whole.
        monkeypatch.setattr(module, "_BUDGET_BYTES", 40_000)
    result = looked(path)
    assert module.SAMPLE_ROWS <= result["rows_seen"] < 2 * module.SAMPLE_ROWS
    assert result["is_whole"] == packed and result["quarantined"]["rows"] == 0
    seen = [int(row["before"]["instruction"]) for row in result["rows"]]
    assert seen[0] == 0 and 2000 < seen[1] < 3000 and seen[2] > 4500
    assert [row["row"] for row in result["rows"]] == (seen if packed else [0, -1, -1])


@pytest.mark.parametrize(
    "name", ["alpaca.json", "chats/talk.jsonl.gz", "messages.jsonl.zst", "qa.csv", "qa.parquet", "transcripts.jsonl.gz"]
)
def test_it_says_what_ingest_does_and_writes_nothing(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = looked(SAMPLES / name)
    assert os.listdir(tmp_path) == []
    ingested(SAMPLES / name, tmp_path / "d")
    rows = rows_of(tmp_path / "d")
    adapters = [row["provenance"]["adapter"] for row in rows]
    assert {entry["name"] for entry in result["families"]} == set(adapters)
    assert result["rows_seen"] == len(rows)
    extra = {key for row in rows if row["extra"] for key in json.loads(row["extra"])}
    to_extra = {entry["field"].split(".")[0].split("[")[0] for entry in result["fields"] if "extra" in entry["places"]}
    assert to_extra == extra
    for shown in result["rows"]:
        (record,) = (row for row in rows if row["provenance"]["row"] == shown["row"])
        (after,) = shown["after"]
        assert [turn["role"] for turn in after["messages"]] == [turn["role"] for turn in record["messages"]]


def test_a_file_of_no_known_format_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(100))
    with pytest.raises(CuratorError, match="not a format that is read"):
        looked(tmp_path / "x.bin")
    with pytest.raises(CuratorError, match="no such file"):
        looked(tmp_path / "gone.jsonl")


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    result = looked(write_lines(tmp_path / "raw.jsonl", []))
    assert (result["rows_seen"], result["families"], result["fields"], result["rows"]) == (0, [], [], [])


def test_numbers_that_python_cannot_hold_are_shown(tmp_path: Path) -> None:
    line = b'{"instruction": "q", "output": "a", "n": ' + b"7" * 5000 + b', "e": 1e400}'
    assert {"n", "e"} <= places(looked(write_lines(tmp_path / "raw.jsonl", [line]))).keys()
