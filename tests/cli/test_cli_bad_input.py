"""Bad input: one error line with what and where, one hint with the next step, and nothing half-done called complete."""

import errno
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_helpers import Done, curator

from curator.io.dataset import Dataset, ShardWriter

SAMPLE = Path(__file__).parents[2] / "sample_data"


def refused(done: Done, code: int, *parts: object) -> None:
    """The command ended with `code`, one error line that holds all `parts`, and a hint."""
    assert done.code == code, done.err
    assert all(str(part) in done.error for part in parts), done.err
    assert done.hint
    assert not done.out


def assert_not_complete(out: Path) -> None:
    """No manifest, and no reader takes the folder."""
    assert not (out / "manifest.json").exists()
    assert curator("stats", out).code == 1
    if out.exists():
        assert curator("check", out).code == 1


# --- missing and empty --------------------------------------------------------------------------------------------


def test_path_that_is_not_there(tmp_path: Path, small: Path) -> None:
    out = tmp_path / "out"
    for line in (
        ("ingest", tmp_path / "nope.jsonl"),
        ("ingest", tmp_path / "nope/*.jsonl"),
        ("ingest", small / "raw.jsonl", tmp_path / "nope.jsonl"),
        ("tag", "signals", tmp_path / "nope"),
        ("concat", small / "d", tmp_path / "nope"),
        ("mix", tmp_path / "nope"),
        ("filter", "where", tmp_path / "nope.arrow", "true"),
    ):
        done = curator(*line, "--out", out)
        refused(done, 1, "nope")
        assert os.getcwd() in done.hint
        assert not out.exists()
    for looking in (("show",), ("stats",), ("check",), ("why", "id")):
        refused(curator(*looking, tmp_path / "nope"), 1, "nope: no such folder")
    refused(curator("run", tmp_path / "nope.yaml", "--out", out), 2, "nope.yaml: no such recipe")
    refused(curator("mix", small / "d", "--spec", tmp_path / "nope.yaml", "--out", out), 2, "nope.yaml: no such file")


def test_empty_folder(tmp_path: Path) -> None:
    empty, hidden, out = tmp_path / "empty", tmp_path / "hidden", tmp_path / "out"
    empty.mkdir()
    hidden.mkdir()
    for name in (".tmp-part.jsonl", "_SUCCESS"):
        (hidden / name).touch()
    refused(curator("ingest", empty, "--out", out), 1, f"{empty} is an empty folder")
    refused(curator("ingest", hidden, "--out", out), 1, hidden)
    refused(curator("tag", "signals", empty, "--out", out), 1, f"{empty} has no manifest.json")
    refused(curator("show", empty), 1, f"{empty} has no manifest.json")
    refused(curator("check", empty), 1, f"{empty} holds no folder made by curator")
    assert not out.exists()


def test_raw_file_where_a_folder_belongs(tmp_path: Path) -> None:
    done = curator("tag", "signals", SAMPLE / "alpaca.json", "--out", tmp_path / "out")
    refused(done, 1, "alpaca.json is a file, not a dataset folder")
    assert "curator ingest" in done.hint


# --- folders of others --------------------------------------------------------------------------------------------


def test_folder_of_a_newer_schema(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "newer"
    shutil.copytree(small / "d", folder)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "schema_version": manifest["schema_version"] + 1}))
    for line in (
        ("show", folder),
        ("concat", folder, "--out", tmp_path / "out"),
        ("mix", folder, "--out", tmp_path / "out"),
    ):
        refused(curator(*line), 1, f"{folder} has schema version")
    refused(curator("ingest", small / "raw.jsonl", "--out", folder), 1, f"{folder} has schema version")
    assert json.loads((folder / "manifest.json").read_bytes())["schema_version"] == manifest["schema_version"] + 1
    assert curator("check", folder).code == 1


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": "curator.dataset"}', '{"format": "curator.dataset", "schema_version": "1"}']
)
def test_damaged_manifest(text: str, small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    shutil.copytree(small / "d", folder)
    (folder / "manifest.json").write_text(text)
    refused(curator("show", folder), 1, f"{folder}/manifest.json")
    line = ("ingest", small / "raw.jsonl", "--shard-bytes", 1300, "--out", folder)
    refused(curator(*line), 1, f"{folder}/manifest.json")
    assert curator(*line, "--overwrite").code == 0
    assert curator("check", folder).code == 0


def test_overwrite_deletes_nothing_of_a_person(small: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(small / "raw.jsonl", home / "raw.jsonl")
    refused(curator("ingest", home, "--out", home, "--overwrite"), 1, home)
    refused(curator("ingest", small / "raw.jsonl", "--out", home, "--overwrite"), 1, "it holds raw.jsonl")
    assert (home / "raw.jsonl").exists()
    folder = tmp_path / "d"
    shutil.copytree(small / "d", folder)
    for line in (
        ("filter", "where", folder, "true", "--out", folder),
        ("mix", folder, "--out", folder),
        ("ingest", folder / "data", "--out", folder),
    ):
        refused(curator(*line, "--overwrite"), 1, f"--out {folder}")
    assert curator("check", folder).code == 0


def test_other_settings_name_the_first_field_that_differs(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert curator("filter", "where", small / "d", "true", "--out", out).code == 0
    done = curator("filter", "where", small / "d", "false", "--out", out)
    refused(done, 1, out, 'steps[0].settings.expression: was "true", now "false"')
    assert "--overwrite" in done.hint
    assert (
        json.loads(curator("filter", "where", small / "d", "false", "--out", out, "--overwrite", "--json").out)["kept"]
        == 0
    )


def test_two_folders_that_share_ids(small: Path, tmp_path: Path) -> None:
    first, second, out = tmp_path / "a", tmp_path / "b", tmp_path / "out"
    shutil.copytree(small / "d", first)
    assert curator("sample", first, "-n", 5, "--out", second).code == 0
    for line in (("concat",), ("tag", "signals"), ("mix",), ("dedup", "exact")):
        refused(curator(*line, first, second, "--out", out), 1, first, second, "share ids, for example raw/raw.jsonl#")
        assert_not_complete(out)
    refused(curator("concat", first, first, "--out", out), 1, "named twice")


# --- broken files -------------------------------------------------------------------------------------------------


def cut_footer(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 8)


def cut_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty_it(path: Path) -> None:
    os.truncate(path, 0)


def say_hello(path: Path) -> None:
    path.write_text("hello")


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [cut_footer, cut_half, empty_it, say_hello, flip_a_byte, Path.unlink])
def test_broken_shard_is_named(harm: Callable[[Path], None], small: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "d", tmp_path / "out"
    shutil.copytree(small / "d", folder)
    shard = sorted((folder / "data").iterdir())[2]
    harm(shard)
    for line in (
        ("filter", "where", folder, "true"),
        ("tag", "signals", folder),
        ("dedup", "exact", folder),
        ("mix", folder),
        ("concat", folder),
    ):
        done = curator(*line, "--out", out, "--workers", 1)
        refused(done, done.code, shard)
        assert done.code in (1, 3)
        assert_not_complete(out)
        shutil.rmtree(out, ignore_errors=True)
    done = curator("check", folder)
    assert done.code == 1 and f"data/{shard.name}" in done.error
    shown = curator("show", folder, "--head", 1000, "--full")
    assert shown.code == 1 and str(shard) in shown.error


@pytest.mark.parametrize("harm", [cut_footer, cut_half, empty_it, say_hello])
def test_broken_raw_parquet_is_named(harm: Callable[[Path], None], tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copy(SAMPLE / "qa.parquet", tmp_path / f"{name}.parquet")
    harm(tmp_path / "b.parquet")
    done = curator("ingest", tmp_path / "*.parquet", "--out", tmp_path / "out")
    assert done.code in (1, 3)
    assert str(tmp_path / "b.parquet") in done.error and done.hint
    assert not (tmp_path / "out/manifest.json").exists()


@pytest.mark.parametrize("name", ["transcripts.jsonl.gz", "messages.jsonl.zst"])
def test_cut_compressed_file_is_no_short_file(name: str, tmp_path: Path) -> None:
    shutil.copy(SAMPLE / name, tmp_path / name)
    os.truncate(tmp_path / name, 4000)
    refused(curator("ingest", tmp_path / name, "--out", tmp_path / "out"), 1, tmp_path / name, "damaged or cut")
    assert_not_complete(tmp_path / "out")


def test_shards_of_other_schemas_are_both_named(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    shutil.copytree(small / "d", folder)
    shards = sorted((folder / "data").iterdir())
    table = pq.read_table(shards[1])
    pq.write_table(table.set_column(0, "id", pa.array(range(len(table)))), shards[1])
    pq.write_table(pq.read_table(shards[3]).drop(["tools"]), shards[3])
    done = curator("check", folder)
    assert done.code == 1
    assert f"data/{shards[1].name}" in done.out and f"data/{shards[3].name}" in done.out
    assert str(shards[1]) in curator("filter", "where", folder, "true", "--out", tmp_path / "out", "--workers", 1).err
    assert_not_complete(tmp_path / "out")


# --- disks --------------------------------------------------------------------------------------------------------


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=120k", "tmpfs", folder], capture_output=True
        ).returncode
    )
    if not mounted:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("workers", [1, 2])
def test_full_disk(workers: int, tiny_disk: Path, tmp_path: Path) -> None:
    rows = "".join(json.dumps({"instruction": os.urandom(400).hex(), "output": "x"}) + "\n" for _ in range(600))
    (tmp_path / "raw.jsonl").write_text(rows)
    out = tiny_disk / "out"
    line = ("ingest", tmp_path / "raw.jsonl", "--shard-bytes", 50_000, "--out", out, "--workers", workers)
    done = curator(*line)
    # 3 when a worker met it; 1 when it was the account of a finished shard that found no room.
    refused(done, 3 if "/data/" in done.error else 1, f"{out}/", "no space left on the disk")
    assert done.err.count("\n") <= workers + 1, "one line a shard is too many"
    assert not list((out / "data").glob(".tmp-*")), "half shards keep the disk full"
    assert_not_complete(out)
    subprocess.run(["mount", "-o", "remount,size=8m", tiny_disk], check=True)
    assert curator(*line).code == 0
    assert curator("check", out).code == 0


@pytest.fixture
def no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every shard is a task of its own, however small."""
    monkeypatch.setattr("curator.io.dataset.GROUP_BYTES", 1)


def test_simulated_full_disk(no_groups: None, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    close = ShardWriter.close

    def full(self: ShardWriter) -> object:
        written.append(self)
        if len(written) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "out/data"))
        return close(self)

    monkeypatch.setattr(ShardWriter, "close", full)
    line = ("filter", "where", small / "d", "true", "--out", tmp_path / "out", "--workers", 1)
    refused(curator(*line), 3, "no space left on the disk")
    assert len(written) == 3, "the other shards would meet the same disk"
    assert_not_complete(tmp_path / "out")
    monkeypatch.setattr(ShardWriter, "close", close)
    assert curator(*line).code == 0


def test_failure_before_any_shard_leaves_nothing_behind(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: ShardWriter) -> object:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(ShardWriter, "close", full)
    refused(curator("filter", "where", small / "d", "true", "--out", tmp_path / "out"), 1, "no space left")
    monkeypatch.undo()
    assert not (tmp_path / "out").exists()
    assert curator("filter", "where", small / "d", "false", "--out", tmp_path / "out").code == 0


def test_out_that_is_a_file(small: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    refused(curator("sample", small / "d", "-n", 5, "--out", tmp_path / "out"), 1, f"{tmp_path / 'out'} is a file")
    refused(curator("sample", small / "d", "-n", 5, "--out", tmp_path / "out/deeper"), 1, tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


# --- expressions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ("length(id", "does not parse"),
        ("id =", "does not parse"),
        ("", "is empty"),
        ("length(id)", "gives int64, not true or false"),
        ("lenght(id) > 3", "calls lenght"),
        ("scores.nope.value > 1", "no column scores.nope.value"),
        ("metadata.sorce = 'x'", "no column metadata.sorce"),
        ("read_text('/etc/passwd') is not null", "calls read_text"),
        ("exists (select * from '/etc/passwd')", "uses a subquery"),
        ("id in (select content from read_text('/etc/passwd'))", "uses a subquery"),
        ("getenv('HOME') = 'x'", "calls getenv"),
        ("random() < 0.5", "calls random"),
        ("true; drop table x", "filter.where"),
        ("true) from read_text('/etc/passwd') where (true", "filter.where"),
    ],
)
def test_expression_that_is_no_condition(expression: str, part: str, small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for line in (
        ("filter", "where", small / "d", expression, "--out", out),
        ("show", small / "d", "--where", expression),
    ):
        done = curator(*line)
        assert done.code == 2, done.err
        assert done.error
        assert not out.exists()
    refused(curator("filter", "where", small / "d", expression, "--out", out), 2, part)


# --- models and mixtures ------------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> Path:
    shutil.copytree(SAMPLE / "tiny-model", tmp_path / "model")
    return tmp_path / "model"


def users_of_a_model(model: Path, small: Path, tmp_path: Path) -> Iterator[tuple[object, ...]]:
    yield ("tag", "tokens", small / "d", "--tokenizer", model, "--out", tmp_path / "out")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        json.dumps(
            {
                "name": "x",
                "sources": [{"name": "s", "path": str(small / "raw.jsonl")}],
                "mix": {},
                "train": {"model": str(model), "steps": 1},
            }
        )
    )
    yield ("run", recipe, "--out", tmp_path / "out")
    if not (tmp_path / "mixed").exists():
        assert curator("mix", small / "d", "--out", tmp_path / "mixed").code == 0
    (tmp_path / "train.yaml").write_text(json.dumps({"model": str(model), "steps": 1}))
    yield ("train", tmp_path / "mixed", "--config", tmp_path / "train.yaml", "--out", tmp_path / "out")


def test_model_folder_without_tokenizer(model: Path, small: Path, tmp_path: Path) -> None:
    (model / "tokenizer.json").unlink()
    for line in users_of_a_model(model, small, tmp_path):
        refused(curator(*line), 1, f"{model} has no tokenizer.json")
        assert not (tmp_path / "out").exists()


def test_model_folder_that_is_not_there(small: Path, tmp_path: Path) -> None:
    for line in users_of_a_model(tmp_path / "nope", small, tmp_path):
        refused(curator(*line), 1, f"{tmp_path / 'nope'}: no such model folder")
        assert not (tmp_path / "out").exists()


def test_template_without_generation_marks(model: Path, small: Path, tmp_path: Path) -> None:
    template = model / "chat_template.jinja"
    template.write_text(re.sub(r"{%-? (end)?generation -?%}", "", template.read_text()))
    for line in users_of_a_model(model, small, tmp_path):
        done = curator(*line)
        refused(done, 1, model, "generation")
        assert "{% generation %}" in done.hint
        assert not (tmp_path / "out").exists()


def test_mixture_with_kinds_that_training_does_not_take(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text(json.dumps({"text": "A plain text, which holds no answer to learn."}) + "\n")
    assert curator("ingest", SAMPLE / "preference.jsonl", "--source", "p", "--out", tmp_path / "p").code == 0
    assert curator("mix", tmp_path / "p", "--out", tmp_path / "mixed").code == 0
    (tmp_path / "train.yaml").write_text(json.dumps({"model": str(SAMPLE / "tiny-model"), "steps": 1}))
    done = curator("train", tmp_path / "mixed", "--config", tmp_path / "train.yaml", "--out", tmp_path / "run")
    refused(done, 1, tmp_path / "mixed", "of kind preference")
    assert "use: chosen" in done.hint
    assert not (tmp_path / "run/manifest.json").exists()


def test_train_needs_a_mixture(small: Path, tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(json.dumps({"model": str(SAMPLE / "tiny-model"), "steps": 1}))
    done = curator("train", small / "d", "--config", tmp_path / "train.yaml", "--out", tmp_path / "run")
    refused(done, 1, small / "d", "is not a mixture")
    assert "curator mix" in done.hint
    refused(curator("order", small / "d"), 1, small / "d", "is not a mixture")


def test_mixture_of_nothing(small: Path, tmp_path: Path) -> None:
    (tmp_path / "mix.yaml").write_text("kinds: [preference]\n")
    done = curator("mix", small / "d", "--spec", tmp_path / "mix.yaml", "--out", tmp_path / "out")
    refused(done, 1, "the mixture is empty: none of 60 records")
    assert not (tmp_path / "out").exists()
    assert Dataset.open(small / "d").num_rows == 60
