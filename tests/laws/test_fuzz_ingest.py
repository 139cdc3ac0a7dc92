"""Mutated rows through ingest: an independent reader says which are records, and both must agree on every one.

Every row is compared: a record's turns, tools and unmapped fields with what the reader saw, a bad row's bytes with its
quarantine.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from adapter_samples import assert_kept
from record_samples import ingested, rows_of
from row_mutants import mutants, real_lines, sample_lines
from row_reader import BLANKS, BOM, Bad, assert_same, exact_int, read

from curator.io.dataset import Dataset
from curator.io.raw import base as raw_files
from curator.pipeline import ingest
from curator.pipeline.passes import Options, run_pass
from curator.stages.base import Stage
from curator.stages.classify.label import Domain
from curator.stages.classify.language import Language
from curator.stages.dedup.exact import Exact
from curator.stages.dedup.near import Near
from curator.stages.filter.where import Where
from curator.stages.tag.signals import Signals
from curator.stages.tag.tokens import Tokens

READ = ("openai", "sharegpt", "preference", "alpaca", "pairs", "transcripts")
"""Families that the reader reads whole; of some others it knows the rows that mutants fall into."""
SAMPLES = Path(__file__).parents[2] / "sample_data"


@dataclass
class Rows:
    """What a folder made of the rows of one file, by number."""

    records: dict[int, list[dict[str, Any]]]
    bad: dict[int, dict[str, Any]]

    @classmethod
    def of(cls, path: Path, out: Path) -> "Rows":
        ledger = ingested(path, out, shard_bytes=1 << 20).ledger
        columns = ["id", "kind", "messages", "rejected", "tools", "verifier", "metadata", "extra", "provenance"]
        records: dict[int, list[dict[str, Any]]] = {}
        for row in rows_of(out, columns):
            records.setdefault(row["provenance"]["row"], []).append(row)
        bad = {row["row"]: row for batch in Dataset.open(out).quarantine() for row in batch.to_pylist()}
        assert (
            ledger.read == ledger.kept + sum(ledger.quarantined.values()) == sum(map(len, records.values())) + len(bad)
        )
        assert not records.keys() & bad.keys()
        return cls(records, bad)

    def is_record(self, number: int, row: bytes, begin: int) -> bool:
        """Whether a row is a record, which must be what the reader says too."""
        found = self.records.get(number, [])
        try:
            seen = read(row)
            if found and found[0]["provenance"]["adapter"] not in (seen.shape, *READ):
                raise Bad("another family")
        except Bad as error:
            if found and found[0]["provenance"]["adapter"] not in READ:
                # The reader does not know every family; what such a row says must be there all the same.
                assert found[0]["provenance"]["byte_offset"] == begin, row
                assert_kept(row, found)
                return True
            assert number in self.bad, f"taken, but should not be ({error}): {row!r}"
            # The offset is where the line begins, with mark and blanks: shards are cut by it.
            assert self.bad[number]["raw"] == row and self.bad[number]["byte_offset"] == begin, row
            return False
        assert number in self.records, f"refused ({self.bad[number]['reason']}): {row!r}"
        (record,) = found
        assert record["provenance"]["byte_offset"] == begin, row
        assert_same(record, row, seen)
        return True


def agree(tmp_path: Path, lines: list[bytes], count: int, seed: int) -> None:
    """Ingest the mutants as lines and compare each with the reader's verdict."""
    # A sound row first: the container is read off the beginning of the file.
    made = [lines[0], *mutants(seed, count, lines)]
    data = b"\n".join(made) + b"\n"
    (tmp_path / "raw.jsonl").write_bytes(data)
    rows = Rows.of(tmp_path / "raw.jsonl", tmp_path / "lines")
    number = begin = valid = 0
    for mutant in made:
        verdicts = []
        for line in mutant.split(b"\n"):
            if row := line.removeprefix(BOM).strip(BLANKS):
                verdicts.append(rows.is_record(number, row, begin))
                number += 1
            begin += len(line) + 1
        valid += all(verdicts) and bool(verdicts)
    assert number == len(rows.records) + len(rows.bad)
    assert valid >= 0.4 * count, f"only {valid} of {count} mutants are valid"
    assert count - valid >= 0.2 * count, f"only {count - valid} of {count} mutants are not"


def agree_in_array(tmp_path: Path, lines: list[bytes], count: int, seed: int) -> None:
    """The same for mutants that are JSON, as elements of one array."""
    made = [lines[0], *(mutant.strip(BLANKS + b"\n") for mutant in mutants(seed, count, lines) if is_json(mutant))]
    data = b"[\n" + b" ,\n".join(made) + b"]\n"
    (tmp_path / "raw.json").write_bytes(data)
    rows = Rows.of(tmp_path / "raw.json", tmp_path / "array")
    begin = 2
    for number, mutant in enumerate(made):
        rows.is_record(number, mutant, begin)
        begin += len(mutant) + 3
    assert len(made) == len(rows.records) + len(rows.bad)


def is_json(mutant: bytes) -> bool:
    try:
        json.loads(mutant, parse_int=exact_int)
    except (ValueError, RecursionError):
        return False
    return True


@pytest.mark.parametrize("worth", [0, 1 << 40], ids=["kernel", "general"])
def test_eight_thousand_mutated_sample_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worth: int) -> None:
    monkeypatch.setattr(ingest, "WORTH_BYTES", worth)
    agree(tmp_path, sample_lines(), 8_000, 1)


def test_twelve_thousand_of_real_lines(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Without real data, sample lines under another seed: the number stays twenty thousand."""
    lines = real_lines(request.getfixturevalue("real_data")) if os.environ.get("CURATOR_REAL_DATA") else sample_lines()
    agree(tmp_path, lines, 12_000, 2)


@pytest.mark.parametrize("block", [1000, 8 << 20])
def test_mutants_as_elements_of_an_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(raw_files, "BLOCK_BYTES", block)
    agree_in_array(tmp_path, sample_lines(), 2_000, 3)


STAGES: list[Stage] = [
    Signals(),
    Language(),
    Domain(),
    Tokens(str(SAMPLES / "tiny-model")),
    Exact(on="prompt"),
    Near(on="response", threshold=0.5),
    Where("scores.num_tokens.value > 20 or scores.num_tokens.value is null"),
]


def test_what_is_kept_goes_through_every_stage(tmp_path: Path) -> None:
    lines = sample_lines()
    with_json_inside = [line for line in lines if b'{\\"' in line]
    made = [lines[0], *mutants(4, 1_000, lines), *mutants(5, 1_500, with_json_inside)]
    (tmp_path / "raw.jsonl").write_bytes(b"\n".join(made))
    folder = tmp_path / "lines"
    kept = ingested(tmp_path / "raw.jsonl", folder).ledger.kept
    for number, stage in enumerate(STAGES):
        outcome = run_pass([folder], [stage], tmp_path / f"{number}", Options(workers=1))
        folder = outcome.out
        assert outcome.ledger.read == kept and outcome.ledger.problem() is None
        kept = outcome.ledger.kept
    assert 300 < kept < 1_500


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 20))
def test_two_hundred_thousand(tmp_path: Path, real_data: Path, seed: int) -> None:
    agree(tmp_path, [*sample_lines(), *real_lines(real_data)], 20_000, seed)
    agree_in_array(tmp_path, real_lines(real_data), 2_000, seed)
