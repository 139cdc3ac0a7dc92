"""Law 10, order: the order of records is a function of mixture, seed and phases alone."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import xxhash
from law_samples import MIX, Story, curator, parquet_rows
from record_samples import write_dataset

from curator.errors import CuratorError
from curator.io.dataset import Dataset
from curator.mixture.sampler import Order
from curator.mixture.spec import MixSpec
from curator.pipeline.mix import mix
from curator.pipeline.passes import Options


def mixed(inputs: Path, out: Path, workers: int = 1, **changes: Any) -> Path:
    mix([inputs], MixSpec.from_mapping({**MIX, **changes}), out, Options(workers=workers))
    return out


def order(folder: Path) -> list[dict[str, Any]]:
    return pq.read_table(folder / "order.parquet").to_pylist()


def described(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "mixture.json").read_bytes())


def sequence(folder: Path) -> list[str]:
    """The ids at every position, from the table and the rows."""
    rows = parquet_rows(folder, columns=["id"])
    return [rows[line["row"]]["id"] for line in order(folder)]


def before(story: Story) -> Path:
    return story.passes[-2]


def in_shards(story: Story, folder: Path, shard_rows: int) -> Path:
    """The records before the mixture in shards of another size."""
    dataset = Dataset.open(before(story))
    rows = [row for batch in dataset.batches() for row in batch.to_pylist()]
    return write_dataset(folder, rows, dataset.schema, shard_rows)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_change_nothing(story: Story, tmp_path: Path, workers: int) -> None:
    again = mixed(before(story), tmp_path / "other-name", workers)
    for name in ("order.parquet", "splits.parquet", "mixture.json", "manifest.json"):
        assert (again / name).read_bytes() == (story.mixture / name).read_bytes()


@pytest.mark.parametrize("shard_rows", [37, 10_000])
def test_shards_change_nothing(story: Story, tmp_path: Path, shard_rows: int) -> None:
    again = mixed(in_shards(story, tmp_path / "in", shard_rows), tmp_path / "mix")
    assert sequence(again) == sequence(story.mixture)
    assert (again / "order.parquet").read_bytes() == (story.mixture / "order.parquet").read_bytes()


def test_columns_that_no_weight_reads_change_nothing(story: Story, tmp_path: Path) -> None:
    curator("tag", "metadata", before(story), "--set", "mood='fine'", "--out", tmp_path / "tagged")
    again = mixed(tmp_path / "tagged", tmp_path / "mix")
    assert sequence(again) == sequence(story.mixture)


def test_another_seed_gives_another_order_of_the_same_slices(story: Story, tmp_path: Path) -> None:
    spec = {"budget": {}, "max_epochs": 1, "phases": [], "splits": {}, "weights": {"by": {"domain": {"code": 1}}}}
    one, other = (mixed(before(story), tmp_path / str(seed), seed=seed, **spec) for seed in (7, 8))
    assert sequence(one) != sequence(other)
    assert sorted(sequence(one)) == sorted(sequence(other))
    assert [line["slice"] for line in order(one)] == [line["slice"] for line in order(other)]
    moved = sum(left != right for left, right in zip(sequence(one), sequence(other), strict=True))
    assert moved > 0.8 * len(sequence(one))


def test_a_seed_also_chooses_the_validation_rows(story: Story, tmp_path: Path) -> None:
    held = []
    for seed in (7, 8):
        folder = mixed(before(story), tmp_path / str(seed), seed=seed)
        held.append({row["id"] for row in parquet_rows(folder) if row["metadata"]["split"] == "validation"})
        assert held[-1].isdisjoint(sequence(folder))
    assert held[0] and held[0] != held[1]


def test_a_later_phase_changes_nothing_before_it(story: Story, tmp_path: Path) -> None:
    phases = [dict(MIX["phases"][0]), {**MIX["phases"][1], "weights": {"by": {"domain": {"code": 9}}}}]
    other = mixed(before(story), tmp_path / "other", phases=phases)
    first, last = described(story.mixture)["phases"]
    assert sequence(other)[: first["last"]] == sequence(story.mixture)[: first["last"]]
    assert sequence(other)[first["last"] :] != sequence(story.mixture)[last["first"] :]


def test_the_stored_digests_are_those_of_the_files(story: Story) -> None:
    stored = described(story.mixture)["order"]
    data = (story.mixture / "order.parquet").read_bytes()
    assert stored == {"positions": len(order(story.mixture)), "xxh3": xxhash.xxh3_128_hexdigest(data)}
    files = json.loads((story.mixture / "manifest.json").read_bytes())["extra"]["files"]
    assert {entry["path"] for entry in files} == {"order.parquet", "splits.parquet", "mixture.json"}
    for entry in files:
        data = (story.mixture / entry["path"]).read_bytes()
        assert (entry["bytes"], entry["xxh3"]) == (len(data), xxhash.xxh3_128_hexdigest(data))


def test_an_order_that_was_changed_is_refused(story: Story, tmp_path: Path) -> None:
    folder = mixed(before(story), tmp_path / "mix")
    table = pq.read_table(folder / "order.parquet")
    pq.write_table(table.take([1, 0, *range(2, len(table))]), folder / "order.parquet")
    with pytest.raises(CuratorError, match="not the order that"):
        Order.open(folder)
    curator("order", folder, expect=1)
    curator("check", folder, expect=1)
    mixed(before(story), folder)
    assert (folder / "order.parquet").read_bytes() == (story.mixture / "order.parquet").read_bytes()


def test_phases_are_contiguous_and_cover_the_order(story: Story) -> None:
    lines, phases = order(story.mixture), described(story.mixture)["phases"]
    assert [phase["name"] for phase in phases] == ["broad", "long"]
    ends = [(phase["first"], phase["last"]) for phase in phases]
    assert ends[0][0] == 0 and ends[0][1] == ends[1][0] and ends[1][1] == len(lines)
    numbers = [number for number, (first, last) in enumerate(ends) for _ in range(first, last)]
    assert [line["phase"] for line in lines] == numbers
    rows = parquet_rows(story.mixture)
    tokens = [rows[line["row"]]["scores"]["num_supervised_tokens"]["value"] for line in lines]
    assert sum(tokens[: ends[0][1]]) / sum(tokens) == pytest.approx(0.6, abs=0.02)
    assert sum(tokens) == described(story.mixture)["supervised_tokens"]


def test_the_order_is_of_training_rows_in_their_slices(story: Story) -> None:
    rows, lines, mixture = parquet_rows(story.mixture), order(story.mixture), described(story.mixture)
    for line in lines:
        row = rows[line["row"]]
        assert row["metadata"]["split"] == "train"
        assert mixture["slices"][line["slice"]] == (row["metadata"]["domain"] or "null")
    # A record has its k-th draw in epoch k, and is drawn at most three times.
    draws: Counter[int] = Counter()
    for line in lines:
        assert line["epoch"] == draws[line["row"]]
        draws[line["row"]] += 1
    assert max(draws.values()) <= MIX["max_epochs"]
    assert set(draws) == {number for number, row in enumerate(rows) if row["metadata"]["split"] == "train"}
    splits = pq.read_table(story.mixture / "splits.parquet").to_pylist()
    assert [(line["id"], line["split"]) for line in splits] == [(row["id"], row["metadata"]["split"]) for row in rows]


@pytest.mark.parametrize(("at", "show"), [(0, 5), (3, 40), (-1, 10), (0, 100_000)])
def test_curator_order_lists_what_table_and_rows_say(story: Story, at: int, show: int) -> None:
    lines, rows, mixture = order(story.mixture), parquet_rows(story.mixture), described(story.mixture)
    at = at % len(lines)
    listed = json.loads(curator("order", story.mixture, "--at", at, "--show", show, "--json").out)
    expected = []
    for position, line in list(enumerate(lines))[at : at + show]:
        row = rows[line["row"]]
        prompt = "\n\n".join(turn["content"] for turn in row["messages"] if turn["role"] == "user")
        expected.append(
            {
                "position": position,
                "phase": mixture["phases"][line["phase"]]["name"],
                "slice": mixture["slices"][line["slice"]],
                "epoch": line["epoch"],
                "id": row["id"],
                "prompt": " ".join(prompt.split())[:60],
            }
        )
    assert listed == expected
    assert expected


def test_positions_that_are_not_there(story: Story) -> None:
    curator("order", story.mixture, "--at", len(order(story.mixture)), expect=2)
    curator("order", story.mixture, "--at", -1, expect=2)
