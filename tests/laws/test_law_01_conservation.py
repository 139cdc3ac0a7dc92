"""Law 1, conservation: every row that was read is kept, dropped or quarantined, by identity and not by count."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from law_samples import SOURCES, TRUTH, Story, curator, id_sum, ids, parquet_rows, raw_rows
from record_samples import batch_of, record

from curator.errors import CuratorError
from curator.io.dataset import TaskWriter
from curator.io.manifest import TaskResult
from curator.pipeline.inspect.check import check
from curator.schema.record import QUARANTINE_SCHEMA, RECORD_SCHEMA, ids_digest

KINDS = (("kept", "shards"), ("dropped", "rejects"), ("quarantined", "quarantine"))


def manifest_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_bytes())


def ids_of_entries(folder: Path, entries: list[dict[str, Any]]) -> list[str]:
    return [
        name for entry in entries for name in pq.read_table(folder / entry["path"], columns=["id"])["id"].to_pylist()
    ]


def total(value: Any) -> int:
    return value if isinstance(value, int) else sum(value.values())


def file_names(source: str) -> dict[str, str]:
    """File as an id names it, to file as truth.json names it."""
    names = SOURCES[source]
    return {Path(name).name if source == "agents" else name: name for name in names}


@pytest.mark.parametrize("source", SOURCES)
def test_every_raw_row_is_a_record_or_in_quarantine(story: Story, source: str) -> None:
    folder = story.root / "sources" / source
    kept, bad = ids(folder), parquet_rows(folder, "quarantine")
    expected, expected_bad = [], []
    for file, name in file_names(source).items():
        rows = list(raw_rows(name))
        assert len(rows) == TRUTH["files"][name]["rows"]
        expected += [f"{source}/{file}#{number}" for number in range(len(rows))]
        places = [entry["row"] for entry in TRUTH["files"][name]["bad"]]
        expected_bad += [f"{source}/{file}#{number}" for number in places]
        raw = {row["row"]: row["raw"] for row in bad if row["file"] == file}
        assert raw == {number: rows[number] for number in places}
    assert sorted(expected) == sorted([*kept, *(row["id"] for row in bad)])
    assert [row["id"] for row in bad] == expected_bad
    assert kept == [name for name in expected if name not in set(expected_bad)]
    ledger = manifest_of(folder)["ledger"]
    assert (ledger["read"], ledger["read_ids"]) == (len(expected), id_sum(expected))


def test_the_account_of_every_task_is_what_its_files_hold(story: Story) -> None:
    num_tasks = 0
    for folder in story.folders:
        manifest = manifest_of(folder)
        sums: Counter[str] = Counter()
        for task in manifest["tasks"]:
            ledger, out = task["ledger"], 0
            for kind, key in KINDS:
                found = ids_of_entries(folder, task[key])
                sums[kind] += len(found)
                if kind == "dropped" and folder == story.pass_of("sample"):
                    assert not task[key]
                    found = []
                    sums[kind] += total(ledger[kind])
                else:
                    assert ledger[f"{kind}_ids"] == id_sum(found)
                    assert total(ledger[kind]) == len(found)
                out += total(ledger[kind])
            assert ledger["read"] == out
            digests = sum(int(ledger[f"{kind}_ids"], 16) for kind, _ in KINDS)
            assert int(ledger["read_ids"], 16) == digests % 2**128
            num_tasks += 1
        assert {kind: total(manifest["ledger"][kind]) for kind, _ in KINDS} == {
            kind: sums.get(kind, 0) for kind, _ in KINDS
        }
    assert num_tasks > 25


def test_each_raw_file_has_an_account_of_its_own(story: Story) -> None:
    for source in SOURCES:
        read: Counter[str] = Counter()
        quarantined: Counter[str] = Counter()
        for task in manifest_of(story.root / "sources" / source)["tasks"]:
            read[task["label"]] += task["ledger"]["read"]
            quarantined[task["label"]] += total(task["ledger"]["quarantined"])
        truth = {file: TRUTH["files"][name] for file, name in file_names(source).items()}
        assert read == {file: entry["rows"] for file, entry in truth.items()}
        assert quarantined == Counter({file: len(entry["bad"]) for file, entry in truth.items()})


def test_every_step_accounts_for_what_the_one_before_kept(story: Story) -> None:
    for folder in story.passes:
        came = [name for source in story.before(folder) for name in ids(source)]
        kept, dropped = ids(folder), ids(folder, "rejects")
        ledger = manifest_of(folder)["ledger"]
        assert (ledger["read"], ledger["read_ids"]) == (len(came), id_sum(came))
        if "sample" in folder.name:
            gone = Counter(came) - Counter(kept)
            assert ledger["dropped_ids"] == id_sum(gone.elements())
            assert total(ledger["dropped"]) == gone.total()
        else:
            assert Counter(came) == Counter(kept) + Counter(dropped)
        place = {name: number for number, name in enumerate(came)}
        assert kept == sorted(kept, key=place.__getitem__)
        rules = Counter(f"{row['drop']['step']}/{row['drop']['rule']}" for row in parquet_rows(folder, "rejects"))
        if "sample" not in folder.name:
            assert ledger["dropped"] == dict(rules)


def test_history_holds_the_accounts_of_all_passes(story: Story) -> None:
    history = manifest_of(story.mixture)["history"]
    assert [entry["ledger"] for entry in history] == [manifest_of(path)["ledger"] for path in story.folders[:-1]]


def test_a_finished_recipe_is_sound(story: Story) -> None:
    report = check(story.root)
    assert len(report) == len(story.folders)
    assert [entry for entry in report if entry["problems"] or entry["notes"]] == []


# --- one lost and one doubled ---------------------------------------------------------------------------------------


def writer(folder: Path, names: list[str]) -> TaskWriter:
    result = TaskWriter(folder, TaskResult("00000", "shard 00000"), RECORD_SCHEMA)
    result.begin_shard("part-00000")
    result.result.ledger.read = len(names)
    result.result.ledger.read_ids = ids_digest(names)
    return result


@pytest.mark.parametrize("where", ["kept", "dropped", "quarantined"])
def test_one_lost_and_one_doubled_do_not_cancel_in_a_task(tmp_path: Path, where: str) -> None:
    names = ["s/f#0", "s/f#1", "s/f#2"]
    twice = {"kept": ["s/f#0", "s/f#0"], "dropped": ["s/f#0"], "quarantined": ["s/f#0"]}[where]
    task = writer(tmp_path, names)
    rows = [record(name, "q", "a") for name in twice]
    if where == "kept":
        task.keep(batch_of(rows))
    else:
        task.keep(batch_of(rows))
        drop = {"step": "x", "rule": "y", "value": None, "threshold": None, "keeper": None, "detail": None}
        if where == "dropped":
            task.reject(batch_of([{**row, "drop": drop} for row in rows]))
        else:
            row = {"id": "s/f#0", "file": "f", "row": 0, "byte_offset": 0, "reason": "not JSON: x", "raw": b"{"}
            task.quarantine(pa.RecordBatch.from_pylist([row], QUARANTINE_SCHEMA))
    task.keep(batch_of([record("s/f#2", "q", "a")]))
    with pytest.raises(CuratorError, match="the ids that went in are not the ids that came out"):
        task.close()


def doubled(folder: Path, also_in_ledger: bool) -> None:
    """Put the first record of a shard in the place of the second; sizes and digests of the file are made to agree."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    place = next(n for n, task in enumerate(manifest["tasks"]) if task["shards"] and task["shards"][0]["rows"] > 1)
    task = manifest["tasks"][place]
    entry = task["shards"][0]
    file = folder / entry["path"]
    table = pq.read_table(file)
    pq.write_table(table.take([0, 0, *range(2, len(table))]).cast(table.schema), file)
    changed = {"bytes": file.stat().st_size, "xxh3": xxhash.xxh3_128_hexdigest(file.read_bytes())}
    entry.update(changed)
    next(shard for shard in manifest["shards"] if shard["path"] == entry["path"]).update(changed)
    if also_in_ledger:
        task["ledger"]["kept_ids"] = id_sum(ids_of_entries(folder, task["shards"]))
    path.write_bytes(json.dumps(manifest, indent=1, ensure_ascii=False).encode() + b"\n")


@pytest.mark.parametrize("step", ["sources/tutor", "tag.signals", "dedup.exact", "filter.where", "mix"])
@pytest.mark.parametrize("also_in_ledger", [False, True])
def test_one_lost_and_one_doubled_do_not_cancel_in_a_folder(
    story: Story, tmp_path: Path, step: str, also_in_ledger: bool
) -> None:
    origin = story.root / step if step.startswith("sources") else story.pass_of(step)
    folder = tmp_path / "d"
    shutil.copytree(origin, folder)
    assert check(folder)[0]["problems"] == []
    doubled(folder, also_in_ledger)
    problems = check(folder)[0]["problems"]
    wanted = "the ids that went in" if also_in_ledger else "the ids of kept rows are not those of the ledger"
    assert any(wanted in problem for problem in problems), problems
    assert "error: " in curator("check", folder, expect=1).err


def test_a_shard_that_is_whole_but_short_is_found(story: Story, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    shutil.copytree(story.pass_of("dedup.exact"), folder)
    file = next(iter(sorted((folder / "data").iterdir())))
    table = pq.read_table(file)
    pq.write_table(table.slice(1), file)
    assert any(f"data/{file.name} has" in problem for problem in check(folder)[0]["problems"])
