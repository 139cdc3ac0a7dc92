"""Exported folders as `datasets` reads them: the records' values, features as declared, and a card that is valid."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from curator.errors import CuratorError
from curator.io.build import SourceSettings
from curator.io.dataset import Dataset
from curator.io.export import card, hf
from curator.io.export.card import Contents, size_category
from curator.io.export.hf import split_name, write_hf
from curator.io.manifest import Manifest
from curator.pipeline.ingest import ingest
from curator.pipeline.passes import Options, run_pass
from curator.stages.catalog import build_stage

datasets = pytest.importorskip("datasets")
hub = pytest.importorskip("huggingface_hub")

ONE = Options(workers=1)
TOOLS = '[ {"type": "function", "function": {"name": "f", "parameters": {"z": 1e400, "a": 12345678901234567890}}} ]'
CALL = '[{"id":"1","type":"function","function":{"name":"f","arguments":"{\\"b\\": 1.0}"}}]'
LINES = [
    '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "odd": {"k": [1.50]}}',
    '{"messages": [{"role": "user", "content": "שלום \\u0000 \\u2028 \\ud83d\\ude00"},'
    ' {"role": "assistant", "content": "<think>\\nhm\\n</think>\\n\\n好"}]}',
    '{"messages": [{"role": "user", "content": "c"}, {"role": "assistant", "content": null, "tool_calls": '
    + CALL
    + "},"
    ' {"role": "tool", "content": "1", "tool_call_id": "1"}, {"role": "assistant", "content": ""}],'
    ' "tools": ' + TOOLS + ', "metadata": {"domain": "tools|code"}}',
    '{"prompt": "p", "chosen": "good", "rejected": "bad"}',
    '{"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "x"}, {"role": "user", "content":'
    ' "r"}, {"role": "assistant", "content": "y"}], "rejected": [{"role": "user", "content": "q"}, {"role":'
    ' "assistant", "content": "x"}, {"role": "user", "content": "r"}, {"role": "assistant", "content": "z"}]}',
    '{"messages": [{"role": "user", "content": "d"}, {"role": "assistant", "content": "e"}]}',
]


SPLITS = [None, "validation", "test", None, None, "held out"]
"""Of each line; the last is a name that `datasets` does not take."""


def folder_of(tmp_path: Path, lines: list[str], name: str = "d", **settings: Any) -> Path:
    (tmp_path / f"{name}.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    ingest([str(tmp_path / f"{name}.jsonl")], SourceSettings("x", **settings), tmp_path / name, ONE)
    return tmp_path / name


def in_splits(tmp_path: Path, lines: list[str], splits: list[str | None], **settings: Any) -> Dataset:
    """One folder a split, as sources that came with splits of their own, read as one dataset."""
    folders = []
    for number, split in enumerate(dict.fromkeys(splits)):
        own = [line for line, its in zip(lines, splits, strict=True) if its == split]
        metadata = {} if split is None else {"split": split}
        folders.append(folder_of(tmp_path, own, f"d{number}", metadata=metadata, **settings))
    return Dataset.open(*folders)


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()
    return lambda folder, *config: datasets.load_dataset(str(folder), *config, cache_dir=str(tmp_path / "cache"))


def records_by_id(dataset: Dataset) -> dict[str, dict[str, Any]]:
    return {record["id"]: record for batch in dataset.batches() for record in batch.to_pylist()}


def turns(messages: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("role", "content", "reasoning", "tool_calls", "tool_call_id", "wrap")
    return [tuple(message[name] for name in names) for message in messages]


def loaded_turns(messages: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "wrap")
    return [tuple(message.get(name) for name in names) for message in messages]


def test_values_are_those_of_the_records(tmp_path: Path, load: Any) -> None:
    dataset = in_splits(tmp_path, LINES, SPLITS, license="mit")
    written = write_hf(dataset, tmp_path / "hf")
    assert written.by_kind_and_split == {
        "sft": {"train": 1, "validation": 1, "test": 1, "held_out": 1},
        "preference": {"train": 2},
    }
    records = records_by_id(dataset)
    sft, preference = load(tmp_path / "hf", "sft"), load(tmp_path / "hf", "preference")
    assert {split: len(rows) for split, rows in sft.items()} == written.by_kind_and_split["sft"]
    assert load(tmp_path / "hf").keys() == sft.keys()
    seen = 0
    for rows in sft.values():
        for row in rows:
            record = records[row["id"]]
            assert loaded_turns(row["messages"]) == turns(record["messages"])
            assert (row["tools"], row["extra"]) == (record["tools"], record["extra"])
            assert row["metadata"] == {name: record["metadata"][name] for name in row["metadata"]}
            seen += 1
    for row in preference["train"]:
        record = records[row["id"]]
        assert loaded_turns(row["prompt"] + row["chosen"]) == turns(record["messages"])
        assert loaded_turns(row["rejected"]) == turns(record["rejected"])
        assert len(row["chosen"]) == 1 and row["rejected"][0]["role"] == "assistant"
        seen += 1
    assert seen == len(records) == len(LINES)
    assert sft["test"][0]["tools"] == TOOLS and sft["test"][0]["messages"][1]["tool_calls"] == CALL
    assert sft["train"][0]["extra"] == '{"odd":{"k": [1.50]}}'


def test_features_are_the_same_in_every_split_and_filled_somewhere(tmp_path: Path, load: Any) -> None:
    write_hf(in_splits(tmp_path, LINES, SPLITS), tmp_path / "hf")
    features = [rows.features for rows in load(tmp_path / "hf", "sft").values()]
    assert all(each == features[0] for each in features)
    text = datasets.Value("string")
    assert features[0]["tools"] == text and features[0]["id"] == text
    turn = dict.fromkeys(("role", "content", "reasoning_content", "tool_calls", "tool_call_id"), text)
    assert features[0]["messages"] == datasets.List({**turn, "wrap": {"open": text, "close": text}})
    assert set(features[0]["metadata"]) == {"source", "domain", "split", "turn_issues"}
    assert set(load(tmp_path / "hf", "preference")["train"].features) >= {"id", "prompt", "chosen", "rejected"}


def test_an_empty_folder_is_refused_because_datasets_cannot_load_it(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, LINES[:1])
    run_pass([folder], [build_stage("filter.where", "false", "test")], tmp_path / "none", ONE)
    with pytest.raises(CuratorError, match="none holds no record"):
        write_hf(Dataset.open(tmp_path / "none"), tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


def test_the_card_is_valid_and_tells_the_story(tmp_path: Path) -> None:
    lines = [
        *LINES,
        "{broken",
        '{"messages": [{"role": "user", "content": "zz"}, {"role": "assistant", "content": ""}]}',
    ]
    folder = folder_of(tmp_path, lines, license="Apache-2.0", metadata={"language": "en"})
    run_pass([folder], [build_stage("filter.where", "metadata.domain is null", "test")], tmp_path / "kept", ONE)
    write_hf(Dataset.open(tmp_path / "kept"), tmp_path / "hf", "My | set")
    text = (tmp_path / "hf" / "README.md").read_text()
    data = hub.DatasetCard(text).data
    assert (data.license, data.language, data.size_categories) == ("apache-2.0", ["en"], ["n<1K"])
    assert data.pretty_name == "My | set" and data.tags == ["sft", "preference", "curator"]
    assert [config["config_name"] for config in data.configs] == ["sft", "preference"]
    assert data.configs[0]["data_files"][0] == {"split": "train", "path": "data/sft/train-*.parquet"}
    for line in (
        "| x | Apache-2.0 | 6 |",
        "| sft | train | 4 |",
        "| filter.where/where | 1 |",
        "| not JSON | 1 |",
        f"`{Manifest.read(tmp_path / 'kept').digest}`",
    ):
        assert line in text, text
    assert "# My \\| set" in text


@pytest.mark.parametrize(
    ("counts", "header"),
    [
        ({"mit": 3}, {"license": "mit"}),
        ({"MIT": 3}, {"license": "mit"}),
        ({"": 3}, {"license": "unknown"}),
        ({}, {"license": "unknown"}),
        ({"mit": 1, "cc-by-4.0": 2}, {"license": "other", "license_name": "cc-by-4.0-mit"}),
        ({"": 1, "mit": 2}, {"license": "other", "license_name": "mit-unknown"}),
        ({"Our Own": 1}, {"license": "other", "license_name": "our-own"}),
    ],
)
def test_licence_header(counts: dict[str, int], header: dict[str, str]) -> None:
    contents = Contents(["sft"])
    for license_, rows in counts.items():
        contents.sources["s", license_] += rows
    shown = card._header(contents, "n")
    assert {name: shown[name] for name in header} == header
    hub.DatasetCard(f"---\n{yaml.safe_dump(shown)}---\n")


@pytest.mark.parametrize(
    ("rows", "name"), [(0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (10**6, "1M<n<10M"), (10**13, "n>1T")]
)
def test_size_category(rows: int, name: str) -> None:
    assert size_category(rows) == name


@pytest.mark.parametrize(
    ("split", "name"), [(None, "train"), ("", "train"), ("test", "test"), ("held out", "held_out"), ("日本", "train")]
)
def test_split_name(split: str | None, name: str) -> None:
    assert split_name(split) == name


def test_files_are_cut_by_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: Any) -> None:
    lines = [json.dumps({"instruction": f"{number}", "output": "x" * 500}) for number in range(200)]
    splits: list[str | None] = [["train", "test"][number % 2] for number in range(200)]
    monkeypatch.setattr(hf, "GROUP_BYTES", 5_000)
    monkeypatch.setattr(hf, "FILE_BYTES", 20_000)
    monkeypatch.setattr("curator.io.dataset.BATCH_ROWS", 16)
    written = write_hf(in_splits(tmp_path, lines, splits), tmp_path / "hf")
    names = sorted(path.name for path in (tmp_path / "hf/data").iterdir())
    assert "train-00001.parquet" in names and "test-00001.parquet" in names
    assert sum(pq.read_metadata(path).num_rows for path in (tmp_path / "hf/data").iterdir()) == written.rows == 200
    assert [int(row["messages"][0]["content"]) for row in load(tmp_path / "hf")["train"]] == list(range(0, 200, 2))


def test_only_an_export_is_replaced(tmp_path: Path) -> None:
    dataset = Dataset.open(folder_of(tmp_path, LINES[:1]))
    write_hf(dataset, tmp_path / "hf")
    before = (tmp_path / "hf/README.md").read_bytes()
    with pytest.raises(CuratorError, match="exists"):
        write_hf(dataset, tmp_path / "hf")
    write_hf(dataset, tmp_path / "hf", overwrite=True)
    assert (tmp_path / "hf/README.md").read_bytes() == before
    (tmp_path / "hf/mine.txt").write_text("keep me")
    with pytest.raises(CuratorError, match=r"holds mine\.txt"):
        write_hf(dataset, tmp_path / "hf", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".tmp")) == []
