"""Real files in the four forms that export restores, there and back: the same objects, digits and order included."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from adapter_samples import exact

from curator.errors import CuratorError
from curator.io.build import Builder, SourceSettings
from curator.io.export import TARGETS
from curator.io.export.base import export_record
from curator.io.raw import RawReader, RawRow

FAMILIES = {family: target for target in TARGETS.values() for family in target.families or ()}
ROWS = 200
"""Of a file; the slow test reads them all."""


def readers(data: Path) -> Iterator[tuple[str, RawReader]]:
    for path in sorted(data.rglob("*")):
        if not path.is_file() or path.suffix in (".tsv", ".md", ".txt", ".jpg", ".png") or "LICENSE" in path.name:
            continue
        try:
            yield path.relative_to(data).as_posix(), RawReader(str(path))
        except CuratorError:  # what ingest says of such files has tests of its own
            continue


def back(name: str, rows: Iterator[RawRow], counts: dict[str, int]) -> None:
    seen: dict[int, bytes] = {}

    def noted() -> Iterator[RawRow]:
        for row in rows:
            seen[row.row] = row.data
            yield row

    for built in Builder(SourceSettings("s"), name).build(noted()):
        for record in built.records.to_pylist():
            family = record["provenance"]["adapter"]
            # Images of a row are read from the file's folder, which a test of their own does.
            if family not in FAMILIES or any(turn["images"] for turn in record["messages"]):
                continue
            exported = export_record(record, FAMILIES[family], with_tags=False)
            line = seen[record["provenance"]["row"]]
            assert exported.is_restored or not FAMILIES[family].restores(record), (name, line)
            if exported.is_restored:
                assert exact(exported.text) == exact(line), name
                counts[family] = counts.get(family, 0) + 1


def test_the_beginning_of_every_file_comes_back(real_data: Path) -> None:
    counts: dict[str, int] = {}
    for name, reader in readers(real_data):
        with reader:
            back(name, islice(reader.rows(), ROWS), counts)
    assert counts.keys() == FAMILIES.keys()
    assert min(counts.values()) >= ROWS, counts


@pytest.mark.slow
def test_every_row_of_every_file_comes_back(real_data: Path) -> None:
    counts: dict[str, int] = {}
    for name, reader in readers(real_data):
        with reader:
            back(name, reader.rows(), counts)
    assert sum(counts.values()) > 110_000, counts
