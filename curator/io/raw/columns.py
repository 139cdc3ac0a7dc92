"""Parquet and Arrow: rows as JSON text, batch by batch."""

import base64
import datetime
import decimal
import json
import math
import os
from collections.abc import Iterable, Iterator
from typing import Any

from curator.errors import CuratorError
from curator.io.raw import base as limits
from curator.io.raw.base import STDIN, Container, RawRow

_BATCH_ROWS = 1024


def parquet_file(path: str, container: Container) -> Any:
    """The file with its footer read. Raises CuratorError when it has none."""
    import pyarrow.parquet as pq

    if container.compression != "none" or path == STDIN or not os.path.isfile(path):
        raise CuratorError(f"{path}: Parquet must be a plain file", hint="unpack it first")
    try:
        return pq.ParquetFile(path)
    except Exception as error:
        raise CuratorError(f"{path} is not a whole Parquet file: {error}", hint="fetch it again") from None


def parquet_rows(file: Any, path: str) -> Iterator[RawRow]:
    """Rows of an open Parquet file."""
    yield from _rows(file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False), file.schema_arrow.names, path)


def arrow_rows(source: Any, path: str, layout: str) -> Iterator[RawRow]:
    """Rows of an Arrow file or stream. Raises CuratorError when it is damaged."""
    import pyarrow as pa

    try:
        if layout == "arrow stream":
            reader = pa.ipc.open_stream(source)
            batches: Iterable[Any] = reader
        else:
            reader = pa.ipc.open_file(source)
            batches = (reader.get_batch(index) for index in range(reader.num_record_batches))
        yield from _rows(batches, reader.schema.names, path)
    except (pa.ArrowInvalid, OSError) as error:
        raise CuratorError(f"{path} is not a whole Arrow file: {error}", hint="fetch it again") from None


def _rows(batches: Iterable[Any], names: list[str], path: str) -> Iterator[RawRow]:
    if len(set(names)) < len(names):
        raise CuratorError(f"{path}: two columns have the same name", hint="rename one")
    row = 0
    for batch in batches:
        for begin in range(0, batch.num_rows, _BATCH_ROWS):
            for values in _python(batch.slice(begin, _BATCH_ROWS), path, row):
                try:
                    yield RawRow(row, 0, json.dumps(_plain(values), ensure_ascii=False, allow_nan=False).encode())
                except (TypeError, ValueError) as error:
                    kept = repr(values).encode(errors="replace")[: limits.KEPT_RAW_BYTES]
                    yield RawRow(row, 0, kept, f"not text: {error}")
                row += 1


def _python(batch: Any, path: str, row: int) -> list[dict[str, Any]]:
    """Rows as dictionaries. Times finer than Python's, to the nanosecond, are text that Arrow writes."""
    import pyarrow as pa

    for index, field in enumerate(batch.schema):
        if pa.types.is_temporal(field.type) and getattr(field.type, "unit", "us") == "ns":
            is_span = pa.types.is_duration(field.type)
            column = batch.column(index).cast(pa.int64() if is_span else pa.string())
            batch = batch.set_column(index, field.name, column)
    try:
        rows: list[dict[str, Any]] = batch.to_pylist()
    except (ValueError, ArithmeticError) as error:  # inside lists and structs, or a year that Python has not
        raise CuratorError(
            f"{path}: a value from row {row:,} on has no form in Python: {error}", hint="cast that column to text"
        ) from None
    return rows


def _plain(value: Any) -> Any:
    """The value with JSON types only: dates in ISO 8601, spans of time in microseconds, decimals and NaN as text,
    bytes as UTF-8 or a data URI."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(microseconds=1)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            # Bytes that are no text, such as those of an image.
            return "data:application/octet-stream;base64," + base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
