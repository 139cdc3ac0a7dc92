"""Every file of the real data opens, and gives the rows that the index of the data counts."""

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from curator.errors import CuratorError
from curator.io.raw import RawReader, expand

ROOT = os.environ.get("CURATOR_REAL_DATA")
WHOLE = ("bbh/", "lilac_concepts/", "llamafactory_demo/dataset_info.json")
"""Files that are one JSON object whose rows lie inside it: one raw row each, of which an adapter makes records."""

ASKED = ("mmlu/mmlu.zip",)
"""Tables that stop and ask, since a first row of theirs may be a header: said to have none, as a person would."""


@pytest.mark.skipif(ROOT is None, reason="CURATOR_REAL_DATA is not set")
def test_every_real_file_gives_the_rows_of_the_index() -> None:
    wrong = list(_compared(Path(ROOT or "")))
    assert wrong == []


def _compared(root: Path) -> Iterator[str]:
    with (root / "MANIFEST.tsv").open(newline="") as file:
        entries = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for entry in entries:
        name = f"{entry['dataset']}/{entry['file']}"
        expected = 1 if name.startswith(WHOLE) else int(entry["records"])
        if not int(entry["records"]) or name.endswith(".txt"):
            continue
        try:
            rows = problems = 0
            for path, _ in expand([str(root / name)])[0]:
                with RawReader(path, header=False if name in ASKED else None) as reader:
                    for row in reader.rows():
                        rows += 1
                        problems += row.problem is not None
        except CuratorError as error:
            yield f"{name}: {error}"
            continue
        if rows != expected or problems:
            yield f"{name}: {rows} rows ({problems} bad) of {expected} as {reader.container}"


@pytest.mark.skipif(ROOT is None, reason="CURATOR_REAL_DATA is not set")
def test_yaml_gives_the_rows_of_its_json_twin() -> None:
    twins = []
    for name in ("roleplay-simple-deduped-roleplay-instruct.yaml", "roleplay-simple-deduped-roleplay-instruct.json"):
        with RawReader(f"{ROOT}/gpteacher/{name}") as reader:
            twins.append([json.loads(row.data) for row in reader.rows()])
    assert len(twins[0]) == 1923
    assert twins[0] == twins[1]
