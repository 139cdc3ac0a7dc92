"""The manifest: the account of every row, what a folder was made from, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from record_samples import record, write_dataset

from curator.errors import CuratorError
from curator.io.manifest import (
    FileEntry,
    Fingerprint,
    Ledger,
    Manifest,
    TaskResult,
    digest_bytes,
    digest_file,
    first_difference,
    total_ledger,
    write_atomic,
)
from curator.schema.record import ids_digest


def ledger(read: str, kept: str, dropped: str = "", quarantined: str = "") -> Ledger:
    """Ids are single letters."""
    return Ledger(
        len(read),
        len(kept),
        {"s/r": len(dropped)} if dropped else {},
        {"bad": len(quarantined)} if quarantined else {},
        ids_digest(read),
        ids_digest(kept),
        ids_digest(dropped),
        ids_digest(quarantined),
    )


def test_an_account_that_adds_up_has_no_problem() -> None:
    assert ledger("abcdef", "ace", "bf", "d").problem() is None
    assert ledger("", "").problem() is None


@pytest.mark.parametrize(
    ("account", "problem"),
    [
        (ledger("abc", "ab"), "3 rows were read, 2 are accounted for"),
        (ledger("abc", "abc", "c"), "3 rows were read, 4 are accounted for"),
        (ledger("abc", "abb"), "the ids that went in are not the ids that came out"),
        (ledger("abc", "ab", "b"), "the ids that went in are not the ids that came out"),
        (ledger("aabb", "aaab"), "the ids that went in are not the ids that came out"),
        (ledger("abc", "ab", "", "x"), "the ids that went in are not the ids that came out"),
    ],
)
def test_lost_doubled_and_foreign_rows_are_noticed(account: Ledger, problem: str) -> None:
    assert account.problem() == problem


def test_accounts_add_up_by_rule_and_reason() -> None:
    total = ledger("ab", "a", "b")
    total.add(ledger("cde", "c", "d", "e"))
    assert total == Ledger(
        5, 2, {"s/r": 2}, {"bad": 1}, ids_digest("abcde"), ids_digest("ac"), ids_digest("bd"), ids_digest("e")
    )
    assert Ledger.from_json(json.loads(json.dumps(total.to_json()))) == total


def test_totals_of_tasks() -> None:
    tasks = [TaskResult("0", "f", ledger=ledger("ab", "ab")), TaskResult("1", "g", ledger=ledger("c", "", "c"))]
    assert total_ledger(tasks) == ledger("abc", "ab", "c")
    assert TaskResult.from_json(json.loads(json.dumps(tasks[1].to_json()))) == tasks[1]


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": {"b": [1, {"c": "x"}]}}, {"a": {"b": [1, {"c": "y"}]}}, 'a.b[1].c: was "x", now "y"'),
        ({"a": 1}, {}, "a: was 1, now not there"),
        ({}, {"a": None}, "a: was not there, now null"),
        ({"a": [1]}, {"a": [1, 2]}, "a: had 1 entries, now 2"),
        ({"a": 1, "b": 1}, {"a": 2, "b": 2}, "a: was 1, now 2"),
        ({"a": "x" * 99}, {"a": ""}, 'a: was "' + "x" * 56 + '..., now ""'),
        ([1, 2], [1, 3], "[1]: was 2, now 3"),
    ],
)
def test_the_first_difference_is_named_by_its_path(old: Any, new: Any, difference: str | None) -> None:
    assert first_difference(old, new) == difference


def test_a_fingerprint_is_its_values_alone() -> None:
    left = Fingerprint(({"step": "a", "settings": {"x": 1, "y": (1, 2)}},), ({"digest": "d"},))
    right = Fingerprint(({"settings": {"y": [1, 2], "x": 1}, "step": "a"},), ({"digest": "d"},))
    assert left.digest() == right.digest()
    assert left.digest() != Fingerprint(left.steps, ({"digest": "e"},)).digest()
    assert len(left.digest()) == 32


def test_digests_are_of_bytes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 3_000_000)
    assert digest_file(tmp_path / "f") == digest_bytes(b"x" * 3_000_000)
    assert digest_bytes(b"") == "99aa06d3014798d86001c324468d497f"


def test_a_file_entry_knows_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    entry = FileEntry("f", 1, 5, digest_bytes(b"12345"))
    assert entry.problem(tmp_path) is None
    (tmp_path / "f").write_bytes(b"12346")
    assert entry.problem(tmp_path) == "has other bytes than were written"
    (tmp_path / "f").write_bytes(b"123")
    assert entry.problem(tmp_path) == "has 3 bytes, 5 were written"
    (tmp_path / "f").unlink()
    assert entry.problem(tmp_path) == "is missing"


def test_atomic_writing_leaves_one_file(tmp_path: Path) -> None:
    write_atomic(tmp_path / "f", b"1")
    write_atomic(tmp_path / "f", b"2")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert (tmp_path / "f").read_bytes() == b"2"


# --- reading ------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "d", [record(f"s/f#{n}", "q", "a") for n in range(3)])


def test_a_manifest_survives_its_file(folder: Path) -> None:
    manifest = Manifest.read(folder)
    assert manifest.to_bytes() == (folder / "manifest.json").read_bytes()
    assert manifest.digest == digest_bytes((folder / "manifest.json").read_bytes())
    data = json.loads((folder / "manifest.json").read_bytes())
    assert data["rows"] == 3
    assert data["filled"] == [
        "content_hash",
        "id",
        "kind",
        "messages",
        "messages.content",
        "messages.role",
        "metadata.source",
    ]
    assert data["ledger"]["read_ids"] == f"{ids_digest(f's/f#{n}' for n in range(3)):032x}"
    assert manifest.passes() == [{"steps": [{"step": "test"}], "ledger": data["ledger"]}]


def refused(folder: Path) -> CuratorError:
    with pytest.raises(CuratorError) as caught:
        Manifest.read(folder)
    return caught.value


def test_what_is_no_complete_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    assert refused(tmp_path / "nothing").message == f"{tmp_path}/nothing: no such folder"
    assert refused(folder / "manifest.json").message == f"{folder}/manifest.json is a file, not a dataset folder"
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path / "empty").message == f"{tmp_path}/empty has no manifest.json: it is not a dataset folder"
    (tmp_path / "empty" / ".partial").mkdir()
    assert refused(tmp_path / "empty").message == f"{tmp_path}/empty has no manifest.json: it is not complete"


def change(folder: Path, **changes: Any) -> None:
    data = json.loads((folder / "manifest.json").read_bytes())
    data.update(changes)
    (folder / "manifest.json").write_text(json.dumps(data))


def test_a_newer_schema_is_refused(folder: Path) -> None:
    change(folder, schema_version=2)
    error = refused(folder)
    assert error.message == f"{folder} has schema version 2, this curator reads up to 1"
    assert error.hint == "pip install --upgrade sft-curator"


def test_other_manifests_and_damage_are_told_apart(folder: Path) -> None:
    change(folder, format="curator.run")
    assert refused(folder).message == f"{folder} is a training run, not a dataset"
    change(folder, format="someone.else")
    assert refused(folder).message == f"{folder}/manifest.json is not the manifest of a dataset"
    (folder / "manifest.json").write_bytes(b'{"format": "curator.data')
    assert refused(folder).message.startswith(f"{folder}/manifest.json is damaged: ")
    (folder / "manifest.json").write_bytes(b"[]")
    assert refused(folder).message == f"{folder}/manifest.json is not the manifest of a dataset"
    (folder / "manifest.json").write_bytes(b'{"format": "curator.dataset", "schema_version": 1}')
    assert refused(folder).message.startswith(f"{folder}/manifest.json is damaged: ")
