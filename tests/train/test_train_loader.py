"""Tokens are written once and never stale; micro-batches keep records apart and ranks in step."""

import json
from pathlib import Path

import numpy as np
import pytest
from train_samples import make_mixture, make_model, record, sample_records

from curator.chat.tokenizer import ChatTokenizer
from curator.io.dataset import Dataset
from curator.mixture.sampler import Order
from curator.train.config import TrainConfig
from curator.train.loader import MicroBatch, PackLoader, TokenStore, slice_values, tokenise
from curator.train.packing import pack_order


def tokens_of(mixture: Path, model: Path, **settings: object) -> TokenStore:
    config = TrainConfig.from_mapping({"model": str(model), **settings})
    return tokenise(Dataset.open(mixture), ChatTokenizer.load(model), config)


def test_tokens_are_those_of_the_chat_template(mixture: Path, model: Path) -> None:
    tokens, chat = tokens_of(mixture, model), ChatTokenizer.load(model)
    records = sample_records(40, num_validation=4)
    assert tokens.num_rows == 40
    for row, item in enumerate(records):
        expected = chat.encode(item["messages"])
        ids, weights = tokens.row(row)
        np.testing.assert_array_equal(ids, expected.ids)
        np.testing.assert_array_equal(weights, expected.weights)
        assert tokens.lengths[row] == len(expected.ids) and tokens.supervised[row] == expected.supervised
    assert tokens.record_ids(np.array([39, 0])) == [records[39]["id"], records[0]["id"]]
    assert tokens.rows_of("validation").tolist() == [36, 37, 38, 39]


def test_the_cache_is_used_again_and_never_stale(mixture: Path, model: Path) -> None:
    first = tokens_of(mixture, model)
    stamp = (first.folder / "tokens.json").stat().st_mtime_ns
    assert (tokens_of(mixture, model).folder / "tokens.json").stat().st_mtime_ns == stamp
    others = [tokens_of(mixture, model, max_tokens=100), tokens_of(mixture, model, too_long="truncate")]
    template = model / "chat_template.jinja"
    template.write_text(template.read_text() + " ")
    others.append(tokens_of(mixture, model))
    assert len({store.folder for store in [first, *others]}) == 4


@pytest.mark.parametrize("damage", ["truncated", "flipped", "without index", "other key"])
def test_a_damaged_cache_is_made_again(mixture: Path, model: Path, damage: str) -> None:
    folder = tokens_of(mixture, model).folder
    part, index = folder / "tokens-00000.arrow", folder / "tokens.json"
    good = part.read_bytes()
    if damage == "truncated":
        part.write_bytes(good[:-100])
    elif damage == "flipped":
        part.write_bytes(good[:300] + bytes([good[300] ^ 1]) + good[301:])
    elif damage == "without index":
        index.unlink()
    else:
        index.write_text(json.dumps({**json.loads(index.read_text()), "key": {}}))
    tokens_of(mixture, model)
    assert part.read_bytes() == good


def test_rows_that_cannot_be_used_are_counted_and_stay_out(tmp_path: Path, model: Path) -> None:
    records = [
        record(0, "fits", "yes"),
        record(1, "long " * 50, "answer"),
        record(2, "short", "long " * 50),
        record(3, "no answer", "x", messages=[{"role": "user", "content": "alone"}]),
        record(4, "broken call", "x", messages=[{"role": "assistant", "content": "a", "tool_calls": "{"}]),
        record(5, "weight", "none", loss_weight=0.0),
    ]
    mixture = make_mixture(tmp_path / "mix", records)
    dropping = tokens_of(mixture, model, max_tokens=100)
    assert dropping.dropped("train") == {"no_supervised_tokens": 2, "template_error": 1, "too_long": 2}
    assert np.flatnonzero(dropping.lengths).tolist() == [0]

    cutting = tokens_of(mixture, model, max_tokens=100, too_long="truncate")
    assert cutting.dropped("train") == {"answer_cut_off": 1, "no_supervised_tokens": 2, "template_error": 1}
    assert cutting.num_truncated == 2
    whole = ChatTokenizer.load(model).encode(records[2]["messages"])
    ids, weights = cutting.row(2)
    np.testing.assert_array_equal(ids, whole.ids[:100])
    np.testing.assert_array_equal(weights, whole.weights[:100])

    packs = pack_order(Order.open(mixture), dropping.lengths, 100)
    assert packs.table.num_rows + sum(dropping.dropped("train").values()) == Order.open(mixture).num_positions


def micro_batches(mixture: Path, model: Path, **where: int) -> list[MicroBatch]:
    tokens = tokens_of(mixture, model, max_tokens=100)
    packs = pack_order(Order.open(mixture), tokens.lengths, 100)
    defaults = {"first": 0, "stop": packs.num_packs, "slots": packs.num_packs, "rank": 0, "world_size": 1, "size": 1}
    return list(PackLoader(tokens, packs, pad_id=0).micro_batches(**{**defaults, **where}))


def test_labels_are_the_next_tokens_of_the_same_record(mixture: Path, model: Path) -> None:
    chat = ChatTokenizer.load(model)
    answers = sorted(item["messages"][1]["content"] for item in sample_records(40, num_validation=4)[:36])
    found = []
    for batch in micro_batches(mixture, model):
        ids, positions = batch.ids.reshape(-1), batch.positions.reshape(-1)
        # The chosen place and the one it predicts stand side by side in one record.
        np.testing.assert_array_equal(positions[batch.chosen + 1], positions[batch.chosen] + 1)
        np.testing.assert_array_equal(ids[batch.chosen + 1], batch.labels)
        found += chat.decode(batch.labels).split("<|im_end|>")[:-1]
        assert batch.num_supervised == len(batch.chosen) and (batch.weights == 1).all()
    assert sorted(found) == answers


def test_positions_restart_in_every_record_and_in_the_padding(mixture: Path, model: Path) -> None:
    (batch,) = micro_batches(mixture, model, stop=2, slots=2, size=2)
    for line in batch.positions:
        starts = np.flatnonzero(line == 0)
        pieces = np.split(line, starts[1:])
        assert all(piece.tolist() == list(range(len(piece))) for piece in pieces)
    assert batch.num_tokens <= batch.num_places == batch.ids.size


def test_ranks_share_a_step_evenly(mixture: Path, model: Path) -> None:
    whole = micro_batches(mixture, model, stop=5, slots=5)
    for world_size in (1, 2, 3, 4, 8):
        for size in (1, 2, 3):
            shares = [
                micro_batches(mixture, model, stop=5, slots=5, rank=rank, world_size=world_size, size=size)
                for rank in range(world_size)
            ]
            assert len({len(share) for share in shares}) == 1
            batches = [batch for share in shares for batch in share]
            assert sum(batch.num_tokens for batch in batches) == sum(batch.num_tokens for batch in whole)
            labels = np.concatenate([batch.labels for batch in batches if batch.num_supervised])
            np.testing.assert_array_equal(labels, np.concatenate([batch.labels for batch in whole]))
            empty = [batch for batch in batches if not batch.num_supervised]
            assert all(batch.weights.tolist() == [0.0] and len(batch.chosen) == 1 for batch in empty)


def test_packs_begin_again_after_the_last(mixture: Path, model: Path) -> None:
    once = micro_batches(mixture, model)
    again = micro_batches(mixture, model, first=len(once), stop=len(once) + 1, slots=1)
    np.testing.assert_array_equal(again[0].ids, once[0].ids)


def test_slice_values_of_chosen_rows(mixture: Path) -> None:
    values = slice_values(Dataset.open(mixture), ["source", "domain"], np.array([1, 20, 39]))
    assert values == {"source": ["green", "red", "green"], "domain": ["null"] * 3}


def test_records_may_be_repeated_by_the_order(tmp_path: Path) -> None:
    model = make_model(tmp_path / "m")
    mixture = make_mixture(tmp_path / "mix", sample_records(4), order=[0, 1, 0, 2, 0])
    tokens = tokens_of(mixture, model)
    packs = pack_order(Order.open(mixture), tokens.lengths, 512)
    assert sorted(packs.entries(0, packs.num_packs).row.tolist()) == [0, 0, 0, 1, 2]
    assert packs.entries(0, packs.num_packs).epoch.max() == 2
