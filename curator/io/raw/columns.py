"""Parquet: rows as JSON text, row group by row group."""

import json
from collections.abc import Iterator
from typing import Any

from curator.errors import CuratorError
from curator.io.raw.base import STDIN, Container, RawRow


def parquet_file(path: str, container: Container) -> Any:
    """The file with its footer read. Raises CuratorError when it has none."""
    import pyarrow.parquet as pq

    if container.compression != "none" or path == STDIN:
        raise CuratorError(f"{path}: Parquet must be a plain file", hint="unpack it first")
    try:
        return pq.ParquetFile(path)
    except Exception as error:
        raise CuratorError(f"{path} is not a whole Parquet file: {error}", hint="fetch it again") from None


def parquet_rows(file: Any) -> Iterator[RawRow]:
    row = 0
    for batch in file.iter_batches(batch_size=1024, use_threads=False):
        for values in batch.to_pylist():
            try:
                yield RawRow(row, 0, json.dumps(values, ensure_ascii=False, allow_nan=True).encode())
            except (TypeError, UnicodeEncodeError) as error:
                yield RawRow(row, 0, repr(values).encode(errors="replace"), f"not text: {error}")
            row += 1
