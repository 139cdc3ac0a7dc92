"""When a source is too bad to go on with: gates, rows of two readings, nothing at all; and the way on from there."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from record_samples import ONE, files_of, ids_of, ingested, ledger_of, quarantine_of, write_lines

from curator.errors import CuratorError, UsageError
from curator.io.gate import Gate, wide_enough
from curator.pipeline.recipe import load_recipe
from curator.pipeline.run import run_recipe

GOOD = {"instruction": "q", "output": "a"}
TURNS = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
BOTH = {"messages": TURNS, "conversations": [{"from": "human", "value": "q"}]}


@pytest.mark.parametrize(
    ("text", "bad", "read", "allowed"),
    [
        ("1%", 0, 0, True), ("1%", 1, 3, True), ("1%", 2, 3, False), ("1%", 2, 200, True), ("1%", 3, 200, False),
        ("0.5%", 1, 200, True), ("0.5 %", 2, 200, False), ("0%", 1, 1000, False), ("100%", 9, 9, True),
        ("0", 1, 1000, False), ("0", 0, 1000, True), ("50", 50, 51, True), (50, 51, 10**6, False),
    ],
)  # fmt: skip
def test_a_gate_is_a_share_or_a_number(text: str | int, bad: int, read: int, allowed: bool) -> None:
    assert Gate.parse(text).allows(bad, read) == allowed


@pytest.mark.parametrize("text", ["", "x", "-1", "101%", "1,5%", "%", "0.01", "1e2", "1 2"])
def test_a_gate_that_is_neither(text: str) -> None:
    with pytest.raises(UsageError, match="max_quarantine") as caught:
        Gate.parse(text)
    assert caught.value.hint == "a share such as 1%, or a number of rows such as 50"


def test_the_hint_names_a_gate_that_is_wide_enough() -> None:
    for read in range(1, 60):
        for bad in range(1, read + 1):
            assert Gate.parse(wide_enough(bad, read)).allows(bad, read)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows: list[Any] = [GOOD] * 20
    rows[7], rows[9], rows[11] = b"broken", {"instruction": "x", "output": 1}, b"also broken"
    return write_lines(tmp_path / "raw.jsonl", rows)


def test_too_many_bad_rows_stop_the_run_and_lose_nothing(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CuratorError) as caught:
        ingested(path, tmp_path / "d", max_quarantine="1%")
    assert caught.value.exit_code == 1
    assert caught.value.message == (
        "source s: 3 of 20 rows are quarantined, more than 1%: not JSON 2, wrong type 1; "
        "the first is row 7 of raw.jsonl: not JSON: invalid character (byte 0)"
    )
    assert caught.value.hint == (
        f"they are in {tmp_path / 'd' / 'quarantine'} with their bytes; --max-quarantine 15% (in a recipe "
        "max_quarantine) goes on without them"
    )
    assert not (tmp_path / "d" / "manifest.json").exists()
    assert list((tmp_path / "d" / "quarantine").glob("*.parquet"))
    from curator.pipeline import ingest as module

    monkeypatch.setattr(module.IngestTask, "run", None)
    for gate in ("14%", 2, "0"):
        with pytest.raises(CuratorError, match="3 of 20 rows are quarantined"):
            ingested(path, tmp_path / "d", max_quarantine=gate)
    outcome = ingested(path, tmp_path / "d", max_quarantine="15%")
    assert (outcome.ledger.kept, len(quarantine_of(tmp_path / "d"))) == (17, 3)
    # The gate is no part of what the folder is made of.
    assert ingested(path, tmp_path / "d", max_quarantine=3).reused


@pytest.mark.parametrize(("gate", "stops"), [("1%", False), ("0", True), ("0%", True), ("1", False)])
def test_one_bad_row_passes_a_share(tmp_path: Path, gate: str, stops: bool) -> None:
    path = write_lines(tmp_path / "raw.jsonl", [GOOD, b"broken", GOOD])
    if stops:
        with pytest.raises(CuratorError, match="1 of 3 rows are quarantined, more than"):
            ingested(path, tmp_path / "d", max_quarantine=gate)
    else:
        assert ingested(path, tmp_path / "d", max_quarantine=gate).ledger.kept == 2


def test_new_files_are_judged_by_themselves(tmp_path: Path, path: Path) -> None:
    write_lines(tmp_path / "raw" / "a.jsonl", [GOOD] * 1000)
    ingested(tmp_path / "raw", tmp_path / "d", max_quarantine="1%")
    before = files_of(tmp_path / "d")
    path.rename(tmp_path / "raw" / "b.jsonl")
    with pytest.raises(CuratorError, match="3 of 20 rows are quarantined, more than 1%"):
        ingested(tmp_path / "raw", tmp_path / "d", max_quarantine="1%")
    # Let in once, its rows are not judged again with the next file.
    ingested(tmp_path / "raw", tmp_path / "d", max_quarantine="20%")
    write_lines(tmp_path / "raw" / "c.jsonl", [GOOD])
    assert ingested(tmp_path / "raw", tmp_path / "d", max_quarantine="1%").ledger.kept == 1018
    # And one that is taken back leaves what was there.
    ingested(tmp_path / "raw" / "a.jsonl", tmp_path / "e", max_quarantine="1%")
    with pytest.raises(CuratorError, match="more than 1%"):
        ingested(tmp_path / "raw" / "b.jsonl", tmp_path / "e", max_quarantine="1%")
    ingested(tmp_path / "raw" / "a.jsonl", tmp_path / "e", max_quarantine="1%")
    assert files_of(tmp_path / "e") == before


@pytest.mark.parametrize("gate", ["1%", "0", "2"])
def test_b022_a_bad_line_is_no_row_of_nulls(tmp_path: Path, gate: str) -> None:
    rows = [{"id": "1", "messages": TURNS}, b'{"id":"2","path":"C:\\path"}', {"id": "3", "messages": TURNS}]
    path = write_lines(tmp_path / "raw.jsonl", rows)
    if gate == "0":
        with pytest.raises(CuratorError, match="1 of 3 rows are quarantined, more than 0 rows") as caught:
            ingested(path, tmp_path / "d", max_quarantine=gate)
        assert caught.value.exit_code == 1
        ingested(path, tmp_path / "d", max_quarantine="1%")
    else:
        ingested(path, tmp_path / "d", max_quarantine=gate)
    ledger = ledger_of(tmp_path / "d")
    assert (ledger.read, ledger.kept, ledger.quarantined) == (3, 2, {"not JSON": 1})
    (bad,) = quarantine_of(tmp_path / "d")
    assert (bad["file"], bad["row"], bad["raw"]) == ("raw.jsonl", 1, rows[1])
    assert ids_of(tmp_path / "d") == ["s/raw.jsonl#0", "s/raw.jsonl#2"]


# --- two readings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "readings"),
    [
        (BOTH, "openai by messages, or sharegpt by conversations"),
        ({"messages": TURNS, **GOOD}, "openai by messages, or alpaca by instruction, output"),
        ({**GOOD, "prompt": "x", "completion": "y"}, "alpaca by instruction, output, or pairs by completion, prompt"),
        (
            {"prompt": "a", "completion": "b", "question": "c", "answer": "d"},
            "pairs by completion, prompt, or pairs by",
        ),
    ],
)
def test_rows_of_two_readings_stop_the_run(tmp_path: Path, row: Any, readings: str) -> None:
    with pytest.raises(CuratorError) as caught:
        ingested(write_lines(tmp_path / "raw.jsonl", [GOOD, row, row]), tmp_path / "d", max_quarantine="1%")
    assert f"source s: 2 of 3 rows can be read in two ways; row 1 of raw.jsonl as {readings}" in caught.value.message
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(f"--adapter NAME decides, or --map; the row begins: {json.dumps(row)[:40]}")


@pytest.mark.parametrize(
    "row",
    [
        {**GOOD, "text": "Below is an instruction.", "input": ""},
        {**GOOD, "prompt": "Below is an instruction."},
        {"messages": TURNS, "prompt": "q", "text": "q"},
        {"prompt": "q", "chosen": "a", "rejected": "b", "response": "a"},
        {"messages": TURNS, "conversations": None, "instruction": "q", "output": None},
        {"messages": TURNS, "conversations": 7, "instruction": "q", "output": ["a"]},
        {"messages": TURNS, "metadata": {"question": "q", "answer": "a"}, "id": 1, "tools": None},
    ],
)
def test_what_two_families_share_is_not_ambiguous(tmp_path: Path, row: Any) -> None:
    assert ingested(write_lines(tmp_path / "raw.jsonl", [row]), tmp_path / "d").ledger.kept == 1


@pytest.mark.parametrize(
    "settings", [{"adapter": "openai"}, {"adapter": "sharegpt"}, {"map": {"messages": "messages"}}]
)
def test_a_person_decides(tmp_path: Path, settings: dict[str, Any]) -> None:
    outcome = ingested(write_lines(tmp_path / "raw.jsonl", [BOTH]), tmp_path / "d", max_quarantine="1%", **settings)
    assert outcome.ledger.kept == 1


def test_the_verdict_does_not_depend_on_the_order_of_rows_or_files(tmp_path: Path) -> None:
    for number, order in enumerate(itertools.permutations([BOTH, GOOD, {"messages": TURNS}])):
        path = write_lines(tmp_path / f"{number}.jsonl", order)
        with pytest.raises(CuratorError, match=r"1 of 3 rows can be read in two ways; row \d of"):
            ingested(path, tmp_path / f"d{number}", max_quarantine="1%")
        files = [
            write_lines(tmp_path / f"{number}" / f"{name}.jsonl", [row]) for name, row in zip("abc", order, strict=True)
        ]
        with pytest.raises(CuratorError, match="1 of 3 rows can be read in two ways"):
            ingested(files, tmp_path / f"e{number}", max_quarantine="1%")


def test_one_row_of_two_readings_in_many_is_quarantined(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "raw.jsonl", [GOOD] * 150 + [BOTH])
    outcome = ingested(path, tmp_path / "d", max_quarantine="1%")
    assert outcome.ledger.quarantined == {"ambiguous": 1}


# --- nothing ------------------------------------------------------------------------------------------------------


def test_b152_a_source_without_rows_must_be_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_lines(tmp_path / "raw.jsonl", [])
    with pytest.raises(CuratorError, match="source s: no rows at all") as caught:
        ingested(path, tmp_path / "d")
    assert caught.value.hint is not None and "--allow-empty" in caught.value.hint
    assert ingested(path, tmp_path / "d", allow_empty=True).ledger.read == 0
    assert ids_of(tmp_path / "d") == []


def test_b152_patterns_that_match_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    nothing = [tmp_path / "gone.jsonl", tmp_path / "x*.jsonl", tmp_path / "empty"]
    for pattern in nothing:
        with pytest.raises(CuratorError, match=pattern.name.replace("*", r"\*")):
            ingested(pattern, tmp_path / "d")
    assert ingested(nothing, tmp_path / "d", allow_empty=True).ledger.read == 0
    told = capsys.readouterr().err
    assert all(f"{pattern}" in told for pattern in nothing)
    assert ids_of(tmp_path / "d") == [] and ingested(nothing, tmp_path / "d", allow_empty=True).reused
    # Files that come later are not taken for the task of no file.
    path = write_lines(tmp_path / "gone.jsonl", [GOOD])
    assert ingested([path, nothing[1]], tmp_path / "d", allow_empty=True).ledger.kept == 1
    assert ids_of(tmp_path / "d") == ["s/gone.jsonl#0"]


def test_the_settings_stand_in_a_recipe(tmp_path: Path, path: Path) -> None:
    source = {"name": "s", "path": str(path)}
    recipe = tmp_path / "r.yaml"

    def run(**settings: Any) -> Any:
        recipe.write_text(json.dumps({"name": "r", "sources": [{**source, **settings}]}))
        return run_recipe(load_recipe(recipe), tmp_path / "w", ONE).sources[str(source["name"])]

    with pytest.raises(CuratorError, match="more than 1%"):
        run()
    assert run(max_quarantine="15%", retry_failed=True, replace=True).ledger.kept == 17
    source = {"name": "t", "path": str(tmp_path / "none*.jsonl")}
    with pytest.raises(CuratorError, match="no file matches"):
        run()
    assert run(allow_empty=True).ledger.read == 0
    source = {"name": "u", "path": str(path), "max_quarantine": "50%"}
    assert run(map={"prompt": "instruction", "response": "output"}).ledger.kept == 17
    with pytest.raises(UsageError, match=r"source u: map: promt: no such place"):
        run(map={"promt": "instruction"})
