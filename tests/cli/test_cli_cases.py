"""Awkward command lines and inputs, by their numbers in COVERAGE.toml."""

import gzip
import json
import os
from pathlib import Path

import pytest
from cli_helpers import curator
from record_samples import record, write_dataset

from curator.io import dataset
from curator.io.dataset import Dataset

SAMPLES = Path(__file__).parents[2] / "sample_data"


def write_lines(path: Path, count: int, start: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"id": f"{n}", "messages": [{"role": "user", "content": f"q{n}"}]} for n in range(start, start + count)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_b013_side_files_of_another_system_are_skipped_aloud(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    write_lines(raw / "en.jsonl", 2)
    (raw / "._en.jsonl").write_bytes(b"\x00\x05\x16\x07" + bytes(60))
    (raw / "_SUCCESS").touch()
    write_lines(raw / ".tmp-part.jsonl", 1)
    for number, what in enumerate((raw, f"{raw}/*.jsonl")):
        done = curator("ingest", what, "--source", "s", "--out", tmp_path / f"d{number}")
        assert done.code == 0, done.err
        assert Dataset.open(tmp_path / f"d{number}").num_rows == 2
    done = curator("ingest", raw, "--source", "s", "--out", tmp_path / "again")
    assert "._en.jsonl" in done.err and ".tmp-part.jsonl" in done.err and "_SUCCESS" in done.err
    named = curator("ingest", raw / ".tmp-part.jsonl", "--source", "s", "--out", tmp_path / "named")
    assert named.code == 0 and Dataset.open(tmp_path / "named").num_rows == 1


def test_b029_no_split_is_guessed_from_a_name(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    for name in ("www_farodevigo_es.jsonl.gz", "contest.jsonl", "seqeval.jsonl", "train.jsonl", "dev/test.jsonl"):
        write_lines(raw / name, 3)
    assert curator("ingest", raw, "--source", "s", "--out", tmp_path / "d").code == 0
    rows = [row for batch in Dataset.open(tmp_path / "d").batches(["metadata"]) for row in batch.to_pylist()]
    assert [row["metadata"]["split"] for row in rows] == [None] * 15


def test_b045_a_shard_of_another_type_is_named(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = write_dataset(tmp_path / "d", [record(f"s/f#{n}", "q", "a") for n in range(40)], shard_rows=1)
    shards = sorted((folder / "data").iterdir())
    for number, change in ((23, "int"), (31, "missing")):
        table = pq.read_table(shards[number])
        if change == "int":
            table = table.set_column(0, "id", pa.array([7]))
        else:
            table = table.drop_columns(["metadata"])
        pq.write_table(table, shards[number])
    done = curator("check", folder)
    assert done.code == 1
    assert shards[23].name in done.out + done.err and shards[31].name in done.out + done.err


@pytest.mark.parametrize("threshold", ["0", "1.5", "-1", "80", "nan", "0,8"])
def test_b075_a_threshold_on_the_command_line(tmp_path: Path, threshold: str) -> None:
    folder = write_dataset(tmp_path / "d", [record(f"s/f#{n}", "one two three", "a") for n in range(3)])
    done = curator("dedup", "near", folder, "--threshold", threshold, "--out", tmp_path / "out")
    assert done.code == 2
    assert "threshold" in done.error
    assert not (tmp_path / "out").exists()
    for whole in ("1", "1.0"):
        done = curator("dedup", "near", folder, "--threshold", whole, "--out", tmp_path / whole)
        assert (done.code, Dataset.open(tmp_path / whole).num_rows) == (0, 1)


def test_b060_a_shared_template_is_said_aloud(tmp_path: Path) -> None:
    block = " ".join(f"tool_{n} takes a word_{n} and gives it back," for n in range(60))
    rows = [record(f"s/f#{n}", ("system", block), ("user", f"q{n}"), ("assistant", f"{n}")) for n in range(120)]
    folder = write_dataset(tmp_path / "d", rows)
    done = curator("dedup", "near", folder, "--on", "conversation", "--out", tmp_path / "out")
    assert "99% of 120 records are duplicates; do they share a template?" in done.err
    assert "template" not in curator("dedup", "near", folder, "--out", tmp_path / "turns").err


def test_b097_everything_filtered_out(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "d", [record(f"s/f#{n}", "q", "a") for n in range(3)])
    done = curator("filter", "where", folder, "length(messages) > 9", "--out", tmp_path / "none")
    assert done.code == 0
    assert "0 of 3 records kept (filter.where/where 3)" in done.err
    assert Dataset.open(tmp_path / "none").num_rows == 0
    assert curator("dedup", "near", tmp_path / "none", "--out", tmp_path / "near").code == 0
    done = curator("mix", tmp_path / "near", "--out", tmp_path / "mix")
    assert done.code == 1 and "the mixture is empty: none of 0 records" in done.error


def test_b144_overwriting_with_two_workers_leaves_all_rows_and_nothing_else(tmp_path: Path) -> None:
    for number in range(10):
        write_lines(tmp_path / "raw" / f"{number}.jsonl", 100, number * 100)
    line = ["ingest", tmp_path / "raw", "--source", "s", "--out", tmp_path / "d", "--workers", 2, "--overwrite"]
    files = []
    for license in ("mit", "apache-2.0"):
        assert curator(*line, "--license", license).code == 0
        rows = [row for batch in Dataset.open(tmp_path / "d").batches(["messages"]) for row in batch.to_pylist()]
        assert [row["messages"][0]["content"] for row in rows] == [f"q{n}" for n in range(1000)]
        files.append(sorted(path.relative_to(tmp_path / "d") for path in (tmp_path / "d").rglob("*")))
        assert curator("check", tmp_path / "d").code == 0
    assert files[0] == files[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("treshold: 0.9", "did you mean threshold"),
        ("threshold: '0.9'", "threshold"),
        ("threshold: 1,5", "threshold"),
        ("threshold: 0.9, threshold: 0.8", "threshold"),
        ("threshold: [0.9]", "threshold"),
        ("budget: 5", "budget"),
    ],
)
def test_b150_a_misspelt_key_is_refused(tmp_path: Path, text: str, message: str) -> None:
    write_lines(tmp_path / "raw.jsonl", 3)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"name: r\nsources:\n  - {{name: s, path: raw.jsonl}}\nsteps:\n  - dedup.near: {{on: prompt, {text}}}\n"
    )
    done = curator("run", recipe, "--out", tmp_path / "out")
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "out").exists()
    misplaced = curator("dedup", "near", tmp_path, "--treshold", "0.9", "--out", tmp_path / "out")
    assert misplaced.code == 2 and "--treshold" in misplaced.err
    for damage in ("", "\t- x", "name: r\nname: q\n"):
        recipe.write_text(damage)
        assert curator("run", recipe, "--out", tmp_path / "out").code == 2


COMMANDS = {
    "concat": [],
    "sample": ["--rows", 9],
    "tag signals": [],
    "tag metadata": ["--set", "topic='x'"],
    "tag tokens": ["--tokenizer", SAMPLES / "tiny-model"],
    "classify language": [],
    "dedup exact": [],
    "dedup near": [],
    "filter where": ["length(messages) > 0"],
    "mix": [],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_b151_a_corrupt_shard_is_no_success(tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "GROUP_BYTES", 1)
    folder = write_dataset(tmp_path / "d", [record(f"s/f#{n}", f"q {n}", "a") for n in range(9)], shard_rows=3)
    shard = sorted((folder / "data").iterdir())[1]
    data = shard.read_bytes()
    shard.write_bytes(data[: len(data) // 4] + bytes(len(data) // 2) + data[len(data) // 4 + len(data) // 2 :])
    line = [*command.split(), folder, *COMMANDS[command], "--out", tmp_path / "out", "--json"]
    done = curator(*line)
    assert done.code in (1, 3)
    assert shard.name in done.error
    assert done.out == ""
    assert not (tmp_path / "out" / "manifest.json").exists()
    shard.write_bytes(data)
    done = curator(*line)
    assert (done.code, json.loads(done.out)["kept"]) == (0, 9)


def test_b152_no_input_matched(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / ".a.jsonl").touch()
    good = write_lines(tmp_path / "good.jsonl", 2)
    for what in ([f"{tmp_path}/nope/*.jsonl"], [tmp_path / "empty"], [tmp_path / "hidden"], [good, tmp_path / "gone"]):
        done = curator("ingest", *what, "--source", "s", "--out", tmp_path / "out")
        assert done.code == 1
        assert str(what[-1]) in done.error and os.getcwd() in done.hint
        assert not (tmp_path / "out").exists()
    assert curator("ingest", good, "--source", "s", "--out", tmp_path / "out").code == 0
