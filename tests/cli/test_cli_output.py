"""stdout is data and stderr is people; `--json` is one object; exit codes say how it ended; looking commands tell the
truth."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cli_helpers import bash, curator, tree

from curator.io.dataset import Dataset

# --- stage commands -----------------------------------------------------------------------------------------------

DATA = Path(__file__).parents[2] / "curator" / "data"
STAGES = {
    "ingest": ("ingest", "{raw}"),
    "tag signals": ("tag", "signals", "{d}"),
    "tag tokens": ("tag", "tokens", "{d}", "--tokenizer", "sample_data/tiny-model"),
    "tag metadata": ("tag", "metadata", "{d}", "--set", "domain='x'"),
    "classify language": ("classify", "language", "{d}"),
    "classify domain": ("classify", "domain", "{d}"),
    "classify difficulty": ("classify", "difficulty", "{d}"),
    "classify apply": ("classify", "apply", "{d}", "--model", "{data}/domain"),
    "dedup exact": ("dedup", "exact", "{d}", "--on", "response"),
    "dedup near": ("dedup", "near", "{d}", "--on", "response", "--threshold", "0.9"),
    "filter where": ("filter", "where", "{d}", "length(messages[2].content) < 20"),
    "sample": ("sample", "{d}", "-n", "7"),
    "concat": ("concat", "{d}"),
    "mix": ("mix", "{d}"),
}


@pytest.mark.parametrize("name", STAGES)
def test_json_is_one_object(name: str, at_work: Path, small: Path, tmp_path: Path) -> None:
    line = [part.format(raw=small / "raw.jsonl", d=small / "d", data=DATA) for part in STAGES[name]]
    out = tmp_path / "out"
    done = curator(*line, "--out", out, "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert done.out.count("\n") == 1
    assert report["out"] == str(out)
    assert report["read"] == 60
    assert report["read"] == report["kept"] + sum(report["dropped"].values()) + report["quarantined"]
    assert report["kept"] == Dataset.open(out).num_rows
    assert isinstance(report["dropped"], dict)
    assert not report["reused"]

    before = tree(out)
    again = json.loads(curator(*line, "--out", out, "--json").out)
    assert again["reused"]
    assert {key: again[key] for key in ("read", "kept", "dropped", "quarantined", "out")} == {
        key: report[key] for key in ("read", "kept", "dropped", "quarantined", "out")
    }
    assert tree(out) == before


def test_every_stage_command_is_in_the_table_above() -> None:
    from cli_helpers import commands

    looking = {"order", "train", "run", "show", "why", "stats", "check", "export", "classify train"}
    assert {name.removeprefix("curator ") for name, _ in commands()} - looking == set(STAGES)


ANYHOW = ("--max-quarantine", "40%")


def test_result_goes_to_stdout_and_remarks_to_stderr(at_work: Path, tmp_path: Path) -> None:
    done = curator("ingest", "sample_data/broken.jsonl", *ANYHOW, "--source", "b", "--out", tmp_path / "b")
    assert done.code == 0
    assert "quarantined  not JSON" in done.out and "curator show" in done.out
    assert done.err.startswith("warning: 10 of 30 rows are quarantined")
    assert "warning" not in done.out


def test_quarantined_rows_are_in_the_json(at_work: Path, tmp_path: Path) -> None:
    report = json.loads(
        curator("ingest", "sample_data/broken.jsonl", *ANYHOW, "--source", "b", "--out", tmp_path / "b", "--json").out
    )
    assert (report["read"], report["kept"], report["quarantined"]) == (30, 20, 10)
    assert sum(report["quarantined_by_reason"].values()) == 10


# --- exit codes ---------------------------------------------------------------------------------------------------


def test_empty_result_is_0_with_a_warning(small: Path, tmp_path: Path) -> None:
    done = curator("filter", "where", small / "d", "false", "--out", tmp_path / "none")
    assert done.code == 0
    assert done.err == f"warning: {tmp_path / 'none'}: 0 of 60 records kept (filter.where/where 60)\n"
    assert curator("check", tmp_path / "none").code == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("tga",), "no such command 'tga'"),
        (("ingest", "--sorce", "x", "y"), "no such option: --sorce"),
        (("ingest",), "missing argument 'files'"),
        (("order", "x", "--at", "three"), "invalid value for '--at'"),
        (("filter", "where", "x"), "missing argument 'expression'"),
        (("train", "x", "--out", "y"), "missing option '--config'"),
        (("mix", "x"), "missing option '--out'"),
        (("ingest", "{raw}", "--out", "{out}", "--workers", "0"), "--workers 0"),
        (("ingest", "{raw}", "--out", "{out}", "--adapter", "alpacca"), "no adapter 'alpacca'"),
        (("ingest", "{raw}", "--out", "{out}", "--field", "team"), "--field team"),
        (("ingest", "{raw}", "--out", "{out}", "--source", "a/b"), "source name 'a/b'"),
        (("filter", "where", "{d}", "true", "--null", "maybe", "--out", "{out}"), "filter.where: null is 'maybe'"),
        (("filter", "where", "{d}", "true", "--rejects", "r", "--out", "{out}"), "--rejects is for pipes"),
        (("dedup", "exact", "{d}", "--on", "promt", "--out", "{out}"), "no selector 'promt'"),
        (("sample", "{d}", "-n", "-3", "--out", "{out}"), "sample: -3 rows"),
        (("show", "{d}", "--head", "0"), "--head 0"),
        (("show", "{d}", "--part", "good"), "no part 'good'"),
        (("show", "{d}", "--grep", "("), "--grep ("),
        (("tag", "metadata", "{d}", "--out", "{out}"), "tag.metadata takes either set or join"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_command_line_is_2(line: tuple[str, ...], message: str, small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = curator(*(part.format(raw=small / "raw.jsonl", d=small / "d", out=out) for part in line))
    assert done.code == 2
    assert done.error.startswith(message) or message in done.error
    assert not done.out
    assert not out.exists()


def test_failed_shard_among_good_ones_is_3(small: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes((small / "raw.jsonl").read_bytes())
    import gzip

    cut = gzip.compress((small / "raw.jsonl").read_bytes())[:-20]
    (tmp_path / "c.jsonl.gz").write_bytes(cut)
    out = tmp_path / "out"
    done = curator("ingest", tmp_path / "*.jsonl*", "--out", out)
    assert done.code == 3
    assert "c.jsonl.gz" in done.error and "damaged or cut" in done.error
    assert not (out / "manifest.json").exists()
    assert len(list((out / "data").glob("part-*.parquet"))) == 2

    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress((small / "raw.jsonl").read_bytes()))
    before = {path.name: path.stat().st_mtime_ns for path in (out / "data").glob("part-*.parquet")}
    changed = curator("ingest", tmp_path / "*.jsonl*", "--out", out, "--json")
    assert (changed.code, json.loads(changed.out)["kept"]) == (0, 180)
    after = {path.name: path.stat().st_mtime_ns for path in (out / "data").glob("part-*.parquet")}
    assert len(after) == 3 and before.items() <= after.items()


def test_reader_that_goes_away_is_no_traceback(at_work: Path) -> None:
    done = bash(
        "curator show d/clean --head 100000 | head -1; curator tag signals d/clean | head -c 10 > /dev/null", at_work
    )
    assert done.out.startswith("== tutor/")
    assert done.err == "" or "Traceback" not in done.err


# --- looking ------------------------------------------------------------------------------------------------------


def test_order_names_the_records_at_positions(at_work: Path) -> None:
    order = pq.read_table("d/mix/order.parquet")
    ids = [id_ for batch in Dataset.open("d/mix").batches(["id"]) for id_ in batch.column("id").to_pylist()]
    lines = json.loads(curator("order", "d/mix", "--at", 30, "--show", 5, "--json").out)
    assert [line["position"] for line in lines] == [30, 31, 32, 33, 34]
    assert [line["id"] for line in lines] == [ids[row] for row in order.column("row").to_pylist()[30:35]]
    assert {line["phase"] for line in lines} <= {"broad", "tools"}
    text = curator("order", "d/mix", "--at", 30, "--show", 5).out
    assert len(text.splitlines()) == 7
    assert lines[0]["id"] in text

    num_positions = order.num_rows
    assert len(json.loads(curator("order", "d/mix", "--at", num_positions - 1, "--json").out)) == 1
    done = curator("order", "d/mix", "--at", num_positions)
    assert done.code == 2 and f"{num_positions:,} positions" in done.error


def test_show_finds_by_id_expression_and_pattern(at_work: Path) -> None:
    record = json.loads(curator("show", "d/tutor", "tutor/alpaca.json#3", "--json").out)
    raw = json.loads(Path("sample_data/alpaca.json").read_text())[3]
    assert record["messages"][0]["content"].startswith(raw["instruction"])
    assert record["messages"][1]["content"] == raw["output"]

    lines = curator("show", "d/tutor", "--where", "id = 'tutor/alpaca.json#3'", "--json").out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["tutor/alpaca.json#3"]
    assert len(curator("show", "d/tutor", "--json").out.splitlines()) == 5
    assert len(curator("show", "d/tutor", "--head", 9, "--json").out.splitlines()) == 9

    sample = [json.loads(line)["id"] for line in curator("show", "d/tutor", "--sample", 4, "--json").out.splitlines()]
    assert len(set(sample)) == 4
    assert sample == [
        json.loads(line)["id"] for line in curator("show", "d/tutor", "--sample", 4, "--json").out.splitlines()
    ]
    found = curator("show", "d/tutor", "--grep", "(?i)python", "--head", 1000, "--json").out.splitlines()
    assert found and all("python" in line.lower() for line in found)

    missing = curator("show", "d/tutor", "tutor/alpaca.json#9999")
    assert missing.code == 1 and "has no record tutor/alpaca.json#9999" in missing.error
    nothing = curator("show", "d/tutor", "--where", "false")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "no record\n")


def test_show_lets_no_control_character_through(tmp_path: Path) -> None:
    row = {"instruction": "clear \x1b[2J and \u009b2J", "input": "", "output": "ring \x07\x00 \u202e"}
    (tmp_path / "x.jsonl").write_text(json.dumps(row))
    assert curator("ingest", tmp_path / "x.jsonl", "--out", tmp_path / "x").code == 0
    text = curator("show", tmp_path / "x").out
    assert "\\x1b[2J" in text
    assert not set(text) & {"\x1b", "\x07", "\x00", "\u009b"}


def test_why_follows_a_record_to_its_end(at_work: Path) -> None:
    reject = json.loads(
        curator("show", "work/quickstart/02-dedup.exact", "--part", "rejects", "--json").out.split("\n")[0]
    )
    entries = json.loads(curator("why", reject["id"], "work/quickstart", "--json").out)
    assert [entry["fate"] for entry in entries] == ["kept", "kept", "dropped"]
    assert entries[0]["folder"].startswith("work/quickstart/sources/")
    assert reject["drop"]["keeper"] in entries[-1]["detail"]

    keeper = json.loads(curator("why", reject["drop"]["keeper"], "work/quickstart", "--json").out)
    assert [entry["fate"] for entry in keeper][:3] == ["kept", "kept", "kept"]

    order = pq.read_table("d/mix/order.parquet").column("row").to_pylist()
    ids = [id_ for batch in Dataset.open("d/mix").batches(["id"]) for id_ in batch.column("id").to_pylist()]
    trained = json.loads(curator("why", ids[order[0]], "d/mix", "--json").out)
    assert f"{order.count(order[0])} times in the order, at 0" in trained[0]["detail"]

    bad = curator("show", "work/quickstart/sources/broken", "--part", "quarantine", "--json").out.splitlines()[0]
    entries = json.loads(curator("why", json.loads(bad)["id"], "work/quickstart", "--json").out)
    assert [entry["fate"] for entry in entries] == ["quarantined"]
    assert json.loads(bad)["reason"] in entries[0]["detail"]


def test_stats_counts_what_is_there(at_work: Path) -> None:
    stats = json.loads(curator("stats", "d/labelled", "--json").out)
    table = pq.read_table("d/labelled/data")
    assert stats["rows"] == table.num_rows
    assert stats["tags"]["source"] == {"tutor": table.num_rows}
    turns = [score["value"] for score in table.column("scores").combine_chunks().field("num_turns").to_pylist()]
    assert stats["scores"]["num_turns"]["coverage"] == 1
    assert stats["scores"]["num_turns"]["mean"] == pytest.approx(sum(turns) / len(turns))
    text = curator("stats", "d/labelled").out
    assert f"{table.num_rows:,} records" in text and "num_turns" in text


def test_check_names_folders_strays_and_damage(at_work: Path, small: Path, tmp_path: Path) -> None:
    import shutil

    assert all(not entry["problems"] for entry in json.loads(curator("check", "work", "--json").out))
    shutil.copytree(small / "d", tmp_path / "good")
    shutil.copytree(small / "d", tmp_path / "stray")
    shutil.copytree(small / "d", tmp_path / "bad")
    (tmp_path / "stray/data/part-extra.parquet").write_bytes(b"")
    shard = sorted((tmp_path / "bad/data").iterdir())[1]
    shard.write_bytes(shard.read_bytes()[:-1])
    done = curator("check", tmp_path)
    assert done.code == 1
    assert f"data/{shard.name}" in done.error and str(tmp_path / "bad") in done.error
    assert "stray file: data/part-extra.parquet" in done.out
    report = {Path(entry["folder"]).name: entry for entry in json.loads(curator("check", tmp_path, "--json").out)}
    assert [len(report[name]["problems"]) for name in ("good", "stray", "bad")] == [0, 0, 1]
