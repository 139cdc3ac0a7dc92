"""The name of a source that is not given."""

import pytest

from curator.cli.ingest import default_source


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["s3://bucket/chats/*.jsonl.gz"], "chats"),
        (["s3://bucket/chats/2024/**/*.jsonl"], "2024"),
        (["s3://bucket/*.jsonl"], "bucket"),
        (["gs://bucket/chats/a.jsonl.gz"], "a"),
        (["gs://bucket/chats/"], "chats"),
        (["s3://bucket/chats/a.jsonl", "s3://bucket/chats/b.jsonl"], "chats"),
        (["hf://datasets/owner/name@v1.0"], "name"),
        (["hf://datasets/owner/name@refs/convert/parquet/*.parquet"], "parquet"),
    ],
)
def test_a_url_names_its_source_as_a_path_would(files: list[str], name: str) -> None:
    assert default_source(files) == name
