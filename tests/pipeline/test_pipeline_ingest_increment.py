"""ingest into a folder that holds something: only what is new is read, nothing goes unsaid, no interruption shows."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from record_samples import ONE, files_of, ids_of, ingested, ledger_of, passed, rows_of, write_lines

from curator.errors import CuratorError
from curator.io.build import SourceSettings
from curator.io.dataset import Dataset, OutputFolder
from curator.io.manifest import Manifest
from curator.io.raw import RawFile
from curator.pipeline import ingest as module
from curator.pipeline.increment import increment
from curator.pipeline.passes import Options
from curator.pipeline.recipe import load_recipe
from curator.pipeline.run import run_recipe, what_would_run
from curator.stages.filter.where import Where


def raw(folder: Path, name: str, *words: str) -> Path:
    return write_lines(folder / name, [{"instruction": word, "output": word.upper()} for word in words])


def said(folder: Path) -> dict[str, tuple[str, int]]:
    """Id to prompt and generation."""
    return {
        row["id"].partition("/")[2]: (row["messages"][0]["content"], row["provenance"]["generation"])
        for row in rows_of(folder)
    }


def notes(outcome: Any) -> dict[str, Any]:
    return {key: value for key, value in outcome.notes["files"].items() if value}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    raw(tmp_path / "raw", "a.jsonl", "a0", "a1")
    raw(tmp_path / "raw", "b.jsonl", "b0")
    ingested(tmp_path / "raw", tmp_path / "d")
    return tmp_path / "raw"


def times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "data").iterdir()}


def test_only_new_files_are_read(tmp_path: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = times(tmp_path / "d")
    raw(files, "_hidden.jsonl", "h")
    raw(files, "c.jsonl", "c0", "c1")
    # It comes first in the alphabet, and last in the folder: what is there keeps its place.
    raw(files, "A.jsonl", "A0")
    outcome = ingested(files, tmp_path / "d")
    assert notes(outcome) == {"new": ["A.jsonl", "c.jsonl"], "known": 2}
    assert before.items() <= times(tmp_path / "d").items()
    assert list(said(tmp_path / "d").items()) == [
        ("a.jsonl#0", ("a0", 0)),
        ("a.jsonl#1", ("a1", 0)),
        ("b.jsonl#0", ("b0", 0)),
        ("A.jsonl#0", ("A0", 1)),
        ("c.jsonl#0", ("c0", 1)),
        ("c.jsonl#1", ("c1", 1)),
    ]
    assert "d: 2 new (A.jsonl, c.jsonl), 2 known" in capsys.readouterr().err
    assert Manifest.read(tmp_path / "d").extra["generations"] == [
        {"generation": 0, "files": 2, "kept": 3},
        {"generation": 1, "files": 2, "kept": 3},
    ]
    assert outcome.ledger.kept == 6 and ledger_of(tmp_path / "d").problem() is None
    again = ingested(files, tmp_path / "d")
    assert again.reused and notes(again) == {"known": 4}


def test_a_first_run_is_told_nothing_of_old_files(tmp_path: Path) -> None:
    outcome = ingested(raw(tmp_path, "a.jsonl", "a"), tmp_path / "d")
    assert "files" not in outcome.notes
    assert Manifest.read(tmp_path / "d").fingerprint["inputs"][0].keys() == {"file", "digest"}


def test_files_that_are_not_named_keep_their_rows(
    tmp_path: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = ingested(raw(tmp_path, "late.jsonl", "l"), tmp_path / "d")
    assert notes(outcome) == {"new": ["late.jsonl"], "not_named": ["a.jsonl", "b.jsonl"]}
    assert len(ids_of(tmp_path / "d")) == 4
    assert "not among the files now, their rows stay: a.jsonl, b.jsonl" in capsys.readouterr().err


def test_a_known_file_under_another_name_keeps_its_ids(
    tmp_path: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_of(tmp_path / "d")
    (files / "a.jsonl").rename(files / "z.jsonl")
    shutil.copy(files / "b.jsonl", files / "copy.jsonl")
    outcome = ingested(files, tmp_path / "d")
    assert outcome.reused and files_of(tmp_path / "d") == before
    assert notes(outcome) == {"known": 3, "renamed": {"copy.jsonl": "b.jsonl", "z.jsonl": "a.jsonl"}}
    assert "z.jsonl has the bytes of a.jsonl, whose ids stay" in capsys.readouterr().err


def test_a_changed_file_is_another_version(tmp_path: Path, files: Path) -> None:
    for version, generation in ((2, 1), (3, 2)):
        raw(files, "a.jsonl", f"new{version}")
        outcome = ingested(files, tmp_path / "d")
        assert notes(outcome) == {"changed": {"a.jsonl": f"a.jsonl@{version}"}, "known": 1}
        assert said(tmp_path / "d")[f"a.jsonl@{version}#0"] == (f"new{version}", generation)
    assert {"a.jsonl#0", "a.jsonl#1", "b.jsonl#0"} < said(tmp_path / "d").keys()
    # Back to what it was: known.
    raw(files, "a.jsonl", "a0", "a1")
    assert ingested(files, tmp_path / "d").reused


def test_a_changed_file_may_replace_its_rows(tmp_path: Path, files: Path) -> None:
    old = {name for name in times(tmp_path / "d") if name.startswith("part-00000")}
    raw(files, "a.jsonl", "new")
    outcome = ingested(files, tmp_path / "d", replace=True)
    assert notes(outcome) == {"changed": {"a.jsonl": "a.jsonl"}, "known": 1}
    assert said(tmp_path / "d") == {"b.jsonl#0": ("b0", 0), "a.jsonl#0": ("new", 1)}
    assert not old & times(tmp_path / "d").keys()
    assert ledger_of(tmp_path / "d").read == 2
    assert ingested(files, tmp_path / "d").reused
    # The old bytes are gone from the folder; brought again they are new.
    raw(files, "a.jsonl", "a0", "a1")
    ingested(files, tmp_path / "d", replace=True)
    assert said(tmp_path / "d") == {"b.jsonl#0": ("b0", 0), "a.jsonl#0": ("a0", 2), "a.jsonl#1": ("a1", 2)}
    assert Manifest.read(tmp_path / "d").extra["generations"] == [
        {"generation": 0, "files": 1, "kept": 1},
        {"generation": 2, "files": 1, "kept": 2},
    ]


def test_quarantined_rows_of_a_replaced_file_go_with_it(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [b"broken", {"instruction": "q", "output": "a"}])
    ingested(path, tmp_path / "d")
    ingested(raw(tmp_path, "a.jsonl", "whole"), tmp_path / "d", replace=True)
    assert ledger_of(tmp_path / "d").quarantined == {}
    assert not list((tmp_path / "d" / "quarantine").glob("*"))


def test_other_settings_are_an_error_that_names_the_field(tmp_path: Path, files: Path) -> None:
    raw(files, "c.jsonl", "c")
    with pytest.raises(CuratorError, match=r'settings: steps\[0\]\.settings\.license: was null, now "mit"'):
        ingested(files, tmp_path / "d", license="mit")
    ingested(files, tmp_path / "d", Options(workers=1, overwrite=True), license="mit")
    assert set(said(tmp_path / "d").values()) == {("a0", 0), ("a1", 0), ("b0", 0), ("c", 0)}


def test_overwrite_starts_afresh_unless_nothing_is_new(tmp_path: Path, files: Path) -> None:
    raw(files, "c.jsonl", "c")
    ingested(files, tmp_path / "d")
    assert ingested(files, tmp_path / "d", Options(workers=1, overwrite=True)).reused
    (files / "a.jsonl").unlink()
    raw(files, "e.jsonl", "e")
    ingested(files, tmp_path / "d", Options(workers=1, overwrite=True))
    ingested(files, tmp_path / "fresh")
    assert files_of(tmp_path / "d") == files_of(tmp_path / "fresh")


class Interrupted(Exception):
    pass


def interrupt_after(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Stop when so many task results, and the manifest as the last, have been asked to be written."""
    left = [number]

    def wrapped(original: Any) -> Any:
        def write(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Interrupted
            return original(*arguments, **named)

        return write

    monkeypatch.setattr(OutputFolder, "record", wrapped(OutputFolder.record))
    monkeypatch.setattr(OutputFolder, "finish", wrapped(OutputFolder.finish))
    monkeypatch.setattr(OutputFolder, "_reopen", wrapped(OutputFolder._reopen))


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("number", range(5))
def test_an_interruption_leaves_no_trace(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch, number: int, replaces: bool
) -> None:
    shutil.copytree(tmp_path / "d", tmp_path / "whole")
    raw(files, "a.jsonl", "new")
    raw(files, "c.jsonl", "c0")
    raw(files, "e.jsonl", "e0")
    ingested(files, tmp_path / "whole", replace=replaces)
    with monkeypatch.context() as context:
        interrupt_after(context, number)
        with pytest.raises(Interrupted):
            ingested(files, tmp_path / "d", replace=replaces)
    ingested(files, tmp_path / "d", replace=replaces)
    assert files_of(tmp_path / "d") == files_of(tmp_path / "whole")


@pytest.mark.parametrize("number", range(1, 4))
def test_what_changes_between_an_interruption_and_the_next_run(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Rows of the complete folder stay whatever happens; what was begun is as if it had not been."""
    shutil.copytree(tmp_path / "d", tmp_path / "whole")
    raw(files, "c.jsonl", "c0")
    raw(files, "e.jsonl", "e0")
    with monkeypatch.context() as context:
        interrupt_after(context, number)
        with pytest.raises(Interrupted):
            ingested(files, tmp_path / "d")
    with pytest.raises(CuratorError, match="not complete"):
        Dataset.open(tmp_path / "d")
    raw(files, "c.jsonl", "other")
    (files / "a.jsonl").unlink()
    for out in ("d", "whole"):
        ingested(files, tmp_path / out)
    assert files_of(tmp_path / "d") == files_of(tmp_path / "whole")
    assert said(tmp_path / "d")["a.jsonl#0"] == ("a0", 0)


def test_a_run_that_is_given_up_leaves_the_folder_as_it_was(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_of(tmp_path / "d")
    late = raw(tmp_path, "late.jsonl", "l")
    with monkeypatch.context() as context:
        interrupt_after(context, 2)
        with pytest.raises(Interrupted):
            ingested([*sorted(files.iterdir()), late], tmp_path / "d")
    ingested(files, tmp_path / "d")
    assert files_of(tmp_path / "d") == before


def damage(folder: Path, name: str) -> None:
    path = folder / "data" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_damaged_shard_is_read_again_where_its_file_is_at_hand(tmp_path: Path, files: Path) -> None:
    before = files_of(tmp_path / "d")
    damage(tmp_path / "d", "part-00000-00000.parquet")
    with pytest.raises(CuratorError, match=r"a\.jsonl, of which it was made, is not among the files"):
        ingested(files / "b.jsonl", tmp_path / "d")
    assert (tmp_path / "d" / "manifest.json").exists()
    ingested(files, tmp_path / "d")
    assert files_of(tmp_path / "d") == before


def test_a_redo_that_is_interrupted_forgets_nothing(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_of(tmp_path / "d")
    damage(tmp_path / "d", "part-00000-00000.parquet")
    with monkeypatch.context() as context:
        interrupt_after(context, 1)
        with pytest.raises(Interrupted):
            ingested(files, tmp_path / "d")
    damage(tmp_path / "d", "part-00000-00000.parquet")
    with pytest.raises(CuratorError, match="is not among the files"):
        ingested(files / "b.jsonl", tmp_path / "d")
    ingested(files, tmp_path / "d")
    assert files_of(tmp_path / "d") == before


def test_known_files_are_not_opened(tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def counting(files: Sequence[RawFile], source: SourceSettings) -> None:
        opened.extend(file.relative for file in files)

    monkeypatch.setattr(module, "_open_all", counting)
    raw(files, "c.jsonl", "c")
    ingested(files, tmp_path / "d")
    assert opened == ["c.jsonl"]


def test_large_files_stay_cut_where_they_were(tmp_path: Path) -> None:
    words = [f"word {n}" for n in range(200)]
    raw(tmp_path / "raw", "a.jsonl", *words)
    ingested(tmp_path / "raw", tmp_path / "d", shard_bytes=2048)
    raw(tmp_path / "raw", "b.jsonl", *words, "more")
    ingested(tmp_path / "raw", tmp_path / "d", shard_bytes=2048)
    assert [name.split("#")[0] for name in said(tmp_path / "d")] == ["a.jsonl"] * 200 + ["b.jsonl"] * 201
    assert ledger_of(tmp_path / "d").kept == 401


def test_a_later_step_sees_that_its_input_has_grown(tmp_path: Path, files: Path) -> None:
    passed(Where("true"), tmp_path / "d", tmp_path / "kept")
    raw(files, "c.jsonl", "c")
    ingested(files, tmp_path / "d")
    with pytest.raises(CuratorError, match="was made with other inputs or settings: input 1 has other content now"):
        passed(Where("true"), tmp_path / "d", tmp_path / "kept")


def test_sources_of_a_recipe_grow(tmp_path: Path, files: Path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text(f"name: r\nsources:\n  - {{name: s, path: {files}}}\n")
    run_recipe(load_recipe(recipe), tmp_path / "w", ONE)
    raw(files, "c.jsonl", "c")
    raw(files, "b.jsonl", "b changed")
    (line,) = what_would_run(load_recipe(recipe), tmp_path / "w")
    assert line[1] == ("would go on: 1 new (c.jsonl), 1 known; b.jsonl has changed and is read as b.jsonl@2")
    result = run_recipe(load_recipe(recipe), tmp_path / "w", ONE)
    assert result.sources["s"].ledger.kept == 5
    assert what_would_run(load_recipe(recipe), tmp_path / "w")[0][1] == "done"
    assert run_recipe(load_recipe(recipe), tmp_path / "w", ONE).sources["s"].reused


def test_files_that_failed_are_read_again_on_request(tmp_path: Path) -> None:
    bad = write_lines(tmp_path / "raw" / "bad.jsonl", [b"broken", {"instruction": "q", "output": "a"}])
    raw(tmp_path / "raw", "good.jsonl", "g")
    ingested(tmp_path / "raw", tmp_path / "d")
    before, old = files_of(tmp_path / "d"), times(tmp_path / "d")
    assert ingested(tmp_path / "raw", tmp_path / "d").reused
    outcome = ingested(tmp_path / "raw", tmp_path / "d", retry_failed=True)
    assert not outcome.reused and files_of(tmp_path / "d") == before
    new = times(tmp_path / "d")
    assert [name for name in old if old[name] != new[name]] == ["part-00000-00000.parquet"]
    # What is not at hand is left as it is.
    os.unlink(bad)
    assert ingested(tmp_path / "raw", tmp_path / "d", retry_failed=True).reused


def test_a_name_that_looks_like_a_version_is_not_taken_twice() -> None:
    first = [RawFile("x", "a", 1, "1"), RawFile("x", "a@2", 1, "2")]
    plan = increment((), first, False)
    assert [entry.file for entry in plan.entries] == ["a", "a@2"]
    plan = increment(plan.inputs(), [RawFile("x", "a", 1, "3")], False)
    assert [entry.file for entry in plan.entries] == ["a", "a@2", "a@3"]
    assert plan.absent == ["a@2"]
    plan = increment(plan.inputs(), [RawFile("x", "a@3", 1, "4")], False)
    assert [entry.file for entry in plan.entries][3:] == ["a@3@2"]
