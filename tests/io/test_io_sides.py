"""Side files: answers join their questions by id; what meets nothing is quarantined, and every row is accounted for."""

import json
from pathlib import Path
from typing import Any

import pytest
from record_samples import files_of, ids_of, ingested, ledger_of, quarantine_of, rows_of, texts_of, write_lines

from curator.errors import CuratorError, UsageError
from curator.io import sides
from curator.io.build import Builder, SourceSettings
from curator.io.manifest import Manifest
from curator.io.raw import RawRow
from curator.io.sides import Side
from curator.pipeline.passes import Options

CALL = {"add": {"a": [1], "b": [2, ""]}}


def question(number: int, **fields: Any) -> dict[str, Any]:
    turns = [[{"role": "user", "content": f"{number} + 1?"}]]
    return {"id": f"q_{number}", "question": turns, "function": [{"name": "add"}], **fields}


def answer(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": f"q_{number}", "ground_truth": [CALL], **fields}


def folder(path: Path, questions: list[Any], answers: list[Any], name: str = "sums.json") -> Path:
    write_lines(path / name, questions)
    write_lines(path / "possible_answer" / name, answers)
    return path


def notes(out: Path) -> dict[str, int]:
    return {key: count for task in Manifest.read(out).tasks for key, count in task.notes.items()}


def test_an_answer_beside_its_question_becomes_a_verifier(tmp_path: Path) -> None:
    raw = folder(tmp_path / "raw", [question(0), question(1), question(2)], [answer(2), answer(0, note=1.50)])
    ingested(raw, tmp_path / "out")
    rows = rows_of(tmp_path / "out")
    assert ids_of(tmp_path / "out") == ["s/sums.json#0", "s/sums.json#1", "s/sums.json#2"]
    payload = '[{"add": {"a": [1], "b": [2, ""]}}]'
    assert [row["verifier"] for row in rows] == [
        {"kind": "schema", "payload": payload},
        None,
        {"kind": "schema", "payload": payload},
    ]
    assert {row["kind"] for row in rows} == {"prompt"}
    assert rows[0]["tools"] == '[{"name": "add"}]' and rows[0]["metadata"]["original_id"] == "q_0"
    assert [row["extra"] for row in rows] == ['{"note":1.5}', None, None]
    assert json.loads(rows[0]["provenance"]["form"])["joined"] == ["ground_truth", "note"]
    assert notes(tmp_path / "out")["answers joined"] == 2
    assert notes(tmp_path / "out")["questions without an answer"] == 1
    assert ledger_of(tmp_path / "out").read == ledger_of(tmp_path / "out").kept == 3


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (answer(9), 'no question: no record has id "q_9"'),
        (answer(0), 'id twice: "q_0" has an answer already, in row 0'),
        ({"ground_truth": []}, "no id: an answer needs the id of its question"),
        ({"id": None, "ground_truth": []}, "no id: an answer needs the id of its question"),
        ({"id": "q_3", "ground_truth": []}, 'no question: no record has id "q_3"'),
        (b"broken", "not JSON: JSON is malformed: invalid character (byte 0)"),
        (b"[]", "wrong type: the row is not an object"),
        (b'{"id":"q_1","ground_truth":1,"ground_truth":2}', "key twice: ground_truth"),
    ],
)
def test_an_answer_that_meets_no_question_is_quarantined(tmp_path: Path, line: Any, reason: str) -> None:
    raw = folder(tmp_path / "raw", [question(0), question(1), b'{"id":"q_3",'], [answer(0), line, answer(1)])
    ingested(raw, tmp_path / "out")
    assert ids_of(tmp_path / "out") == ["s/sums.json#0", "s/sums.json#1"]
    bad = quarantine_of(tmp_path / "out")
    data = line if isinstance(line, bytes) else json.dumps(line).encode()
    side = "possible_answer/sums.json"
    assert [(row["id"], row["file"], row["row"], row["reason"], row["raw"]) for row in bad[1:]] == [
        (f"s/{side}#1", side, 1, reason, data)
    ]
    assert bad[1]["byte_offset"] == len(json.dumps(answer(0))) + 1
    ledger = ledger_of(tmp_path / "out")
    assert (ledger.read, ledger.kept, sum(ledger.quarantined.values())) == (4, 2, 2)


def test_a_field_that_both_have_must_be_the_same(tmp_path: Path) -> None:
    raw = folder(
        tmp_path / "raw",
        [question(0, level=1), question(1, level=1), question(2)],
        [answer(0, level=1), answer(1, level=2), answer(2)],
    )
    ingested(raw, tmp_path / "out")
    assert ids_of(tmp_path / "out") == ["s/sums.json#0", "s/sums.json#2"]
    assert [row["reason"] for row in quarantine_of(tmp_path / "out")] == [
        "field twice: level is another in possible_answer/sums.json, row 1",
        'no question: no record has id "q_1"',
    ]


def test_ids_meet_by_value_and_kind() -> None:
    answers = [b'{"id":"\\u0061","x":1}', b'{"id":1,"x":1}', b'{"id":"2","x":1}', b'{"id":2.0,"x":1}']
    side = Side("side", [RawRow(index, 0, data) for index, data in enumerate(answers)])
    rows = [b'{"id":"a"', b'{"id":1', b'{"id":2', b'{"id":"1"', b'{"id":2.0', b'{"id":true', b"{"]
    data = [row + (b"" if row == b"{" else b",") + b'"question":"q","answer":"b"}' for row in rows]
    builder = Builder(SourceSettings("s"), "f", side)
    parts = list(builder.build(RawRow(index, 0, text) for index, text in enumerate(data)))
    extras = [record["extra"] for part in parts for record in part.records.to_pylist()]
    assert [extra is not None and '"x":1' in extra for extra in extras] == [
        True,
        True,
        False,
        False,
        True,
        False,
        False,
    ]
    assert (side.met, side.unanswered) == (3, 4)
    assert [row.row for row, _ in side.unmet()] == [2]


def test_any_family_may_be_joined_by_a_setting(tmp_path: Path) -> None:
    questions = write_lines(tmp_path / "raw/a.jsonl", [{"id": 1, "question": "1 + 1?"}, {"id": 2, "question": "?"}])
    write_lines(tmp_path / "raw/gold/a.jsonl.truth", [{"id": 1, "answer": "2"}, {"id": 3, "answer": "4"}])
    ingested(questions, tmp_path / "out", join="gold/{name}.truth")
    answered, open_question = rows_of(tmp_path / "out")
    assert texts_of(answered) == [("user", "1 + 1?"), ("assistant", "2")]
    assert texts_of(open_question) == [("user", "?")] and open_question["kind"] == "prompt"
    assert [(row["id"], row["reason"]) for row in quarantine_of(tmp_path / "out")] == [
        ("s/gold/a.jsonl.truth#1", "no question: no record has id 3"),
    ]
    # One name for one file; also when the side file was named beside it.
    ingested([questions, tmp_path / "raw/gold/a.jsonl.truth"], tmp_path / "two", join="gold/a.jsonl.truth")
    assert rows_of(tmp_path / "two") == rows_of(tmp_path / "out")


def test_a_side_file_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [question(0)])
    with pytest.raises(CuratorError, match="no file .*/answers/a.jsonl"):
        ingested(path, tmp_path / "out", join="answers/{name}")
    write_lines(tmp_path / "b.jsonl", [question(0)])
    write_lines(tmp_path / "answers", [answer(0)])
    with pytest.raises(UsageError, match="join answers names one file for 2") as error:
        ingested([path, tmp_path / "b.jsonl"], tmp_path / "out", join="answers")
    assert error.value.hint == "put {name} into it, as in {name}.answers"


def test_answers_alone_say_what_they_lack(tmp_path: Path) -> None:
    folder(tmp_path / "raw", [question(0)], [answer(0)])
    write_lines(tmp_path / "raw/possible_answer/lost.json", [answer(5)])
    ingested(tmp_path / "raw", tmp_path / "out")
    assert [(row["id"], row["reason"]) for row in quarantine_of(tmp_path / "out")] == [
        ("s/possible_answer/lost.json#0", "no question: an answer, and no file of questions beside it")
    ]


def test_a_side_file_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides, "MAX_SIDE_BYTES", 100)
    folder(tmp_path / "raw", [question(0)], [answer(0), answer(1), answer(2)])
    with pytest.raises(CuratorError, match=r"possible_answer/sums.json: a side file may hold 0 MiB"):
        ingested(tmp_path / "raw", tmp_path / "out")


def test_shards_and_workers_change_nothing(tmp_path: Path) -> None:
    raw = folder(tmp_path / "raw", [question(n) for n in range(300)], [answer(n) for n in range(400, 100, -3)])
    folder(raw, [question(n) for n in range(100)], [answer(n) for n in range(50)], "more.json")
    ingested(raw, tmp_path / "whole")
    ingested(raw, tmp_path / "cut", Options(workers=2), shard_bytes=2048)
    ingested(raw, tmp_path / "again", Options(workers=1), shard_bytes=2048)
    assert rows_of(tmp_path / "cut") == rows_of(tmp_path / "whole")
    assert quarantine_of(tmp_path / "cut") == quarantine_of(tmp_path / "whole")
    assert len(quarantine_of(tmp_path / "cut")) == 34
    assert files_of(tmp_path / "again") == files_of(tmp_path / "cut")
    # The answers are an input: a file with other answers is another version of the file.
    assert ingested(raw, tmp_path / "whole").reused
    write_lines(raw / "possible_answer/sums.json", [answer(1)])
    assert ingested(raw, tmp_path / "whole").notes["files"]["changed"] == {"sums.json": "sums.json@2"}


@pytest.mark.parametrize(
    ("turns", "texts", "kept"),
    [
        ("1?", [("user", "1?")], "text"),
        ([{"role": "user", "content": "1?"}], [("user", "1?")], "turns"),
        ([[{"role": "user", "content": "1?"}]], [("user", "1?")], None),
        (
            [
                [{"role": "system", "content": "s"}, {"role": "user", "content": "1?"}],
                [],
                [{"role": "user", "content": "2?"}],
            ],
            [("system", "s"), ("user", "1?"), ("user", "2?")],
            [2, 0, 1],
        ),
    ],
)
def test_questions_come_as_text_turns_or_lists_of_turns(tmp_path: Path, turns: Any, texts: Any, kept: Any) -> None:
    path = write_lines(tmp_path / "a.json", [question(0, question=turns, ground_truth="2")])
    ingested(path, tmp_path / "out")
    (row,) = rows_of(tmp_path / "out")
    assert texts_of(row) == texts
    assert json.loads(row["provenance"]["form"]).get("question") == kept
    assert row["verifier"] == {"kind": "exact", "payload": '"2"'}


@pytest.mark.parametrize("turns", [[], [[]], [[], []], None, 5, {}, [["text"]], [1]])
def test_a_question_without_turns_is_no_record(turns: Any) -> None:
    data = json.dumps(question(0, question=turns)).encode()
    (built,) = Builder(SourceSettings("s"), "f").build([RawRow(0, 0, data)])
    assert built.bad.column("reason")[0].as_py().partition(":")[0] in ("no turns", "wrong type")


def test_real_questions_meet_their_answers(real_data: Path, tmp_path: Path) -> None:
    files = sorted((real_data / "bfcl_v4").glob("*.json"))
    rows = {file.name: [json.loads(line) for line in file.read_bytes().splitlines()] for file in files}
    truths = {
        (name.removeprefix("possible_answer__"), row["id"]): row["ground_truth"]
        for name, part in rows.items()
        if name.startswith("possible_answer__")
        for row in part
    }
    outcome = ingested(real_data / "bfcl_v4", tmp_path / "out")
    records = rows_of(tmp_path / "out")
    assert outcome.ledger.read == len(records) == sum(len(rows[name]) for name in rows if name.startswith("BFCL"))
    assert sum(record["verifier"] is not None for record in records) == len(truths) == 1458
    for record in records:
        row = rows[record["provenance"]["file"]][record["provenance"]["row"]]
        truth = truths.get((record["provenance"]["file"], row["id"]))
        assert record["metadata"]["original_id"] == row["id"]
        assert (record["verifier"] and json.loads(record["verifier"]["payload"])) == truth
        assert (record["tools"] and json.loads(record["tools"])) == row.get("function")
        turns = [turn for part in row["question"] for turn in part]
        assert texts_of(record) == [(turn["role"], turn["content"]) for turn in turns]
        rest = {"initial_config", "path", "involved_classes", "excluded_function"} & row.keys()
        assert json.loads(record["extra"] or "{}") == {key: row[key] for key in rest}
