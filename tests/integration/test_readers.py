"""A folder is read by DuckDB and polars without curator, rows in order and every column there."""

from pathlib import Path

import duckdb
import polars
import pyarrow.parquet as pq
import pytest

from curator.io.build import SourceSettings
from curator.io.dataset import Dataset
from curator.pipeline.ingest import ingest
from curator.pipeline.passes import Options, run_pass
from curator.stages.catalog import build_stage

SAMPLE = Path(__file__).parents[2] / "sample_data"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("readers")
    options = Options(workers=1)
    ingest(
        [str(SAMPLE / "alpaca.json"), str(SAMPLE / "chats/talk.jsonl.gz")], SourceSettings("s"), root / "raw", options
    )
    run_pass([root / "raw"], [build_stage("tag.signals", None)], root / "tagged", options)
    return root / "tagged"


def test_duckdb_reads_the_folder(folder: Path) -> None:
    ids = Dataset.open(folder)
    expected = [record_id for batch in ids.batches(["id"]) for record_id in batch.column("id").to_pylist()]
    found = duckdb.sql(f"select id, scores.num_turns.value from read_parquet('{folder}/data/*.parquet')").fetchall()
    assert [row[0] for row in found] == expected
    assert all(row[1] >= 2 for row in found)


def test_polars_reads_the_folder(folder: Path) -> None:
    frame = polars.read_parquet(f"{folder}/data/*.parquet")
    assert frame.height == Dataset.open(folder).num_rows
    assert frame.columns == Dataset.open(folder).schema.names


def test_every_shard_has_the_same_schema(folder: Path) -> None:
    schemas = [pq.read_schema(path) for path in sorted((folder.parent / "raw/data").glob("*.parquet"))]
    assert len(schemas) == 2
    assert schemas[0].equals(schemas[1], check_metadata=True)
