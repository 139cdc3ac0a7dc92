"""Records in a pipe: an Arrow IPC stream that ends with a mark; without it the producer was killed."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from curator.errors import CuratorError
from curator.io.manifest import Ledger
from curator.schema.record import add_digests, ids_digest

_END = b"curator.end"
_PRODUCER = "see what the command in front of the pipe printed; set -o pipefail in scripts"


class StreamWriter:
    """Writes batches of one schema to a byte stream."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        self._sink = sink
        self._schema = schema
        self._writer = pa.ipc.new_stream(sink, schema)
        self._rows = 0
        self._ids = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._rows += batch.num_rows
        self._ids = add_digests(self._ids, ids_digest(batch.column("id")))
        self._writer.write_batch(batch)

    def close(self, passes: list[dict[str, Any]]) -> None:
        """Write the end mark: rows, digest of ids, and the accounts of the passes behind the stream."""
        mark = {"rows": self._rows, "ids": f"{self._ids:032x}", "passes": passes}
        empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in self._schema], schema=self._schema)
        self._writer.write_batch(empty, custom_metadata=pa.KeyValueMetadata({_END: json.dumps(mark).encode()}))
        self._writer.close()
        self._sink.flush()


class StreamReader:
    """Reads such a stream; `passes` is known once the batches have been read to the end."""

    def __init__(self, source: IO[bytes] | pa.NativeFile, name: str) -> None:
        self._name = name
        self.passes: list[dict[str, Any]] = []
        try:
            self._reader = pa.ipc.open_stream(source)
        except (pa.ArrowInvalid, OSError, EOFError) as error:
            if "length 0" in str(error):
                raise CuratorError(f"{name} is empty: no records came", hint=_PRODUCER) from None
            raise CuratorError(
                f"{name} is not a stream of records", hint="put curator ingest - in front, or name a dataset folder"
            ) from None
        self.schema: pa.Schema = self._reader.schema

    @classmethod
    def open(cls, path: str) -> "StreamReader":
        """Open `-` (stdin) or a file that holds a stream."""
        if path == "-":
            if sys.stdin.isatty():
                raise CuratorError(
                    "- reads stdin, which is a terminal", hint="pipe records in, or name a dataset folder"
                )
            return cls(sys.stdin.buffer, "stdin")
        if not Path(path).is_file():
            raise CuratorError(f"{path}: no such file", hint=f"looked in {Path.cwd()}")
        return cls(pa.OSFile(path, "rb"), path)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All batches. Raises CuratorError when the stream ends without its mark, or not with the rows it names."""
        rows, ids = 0, 0
        while True:
            try:
                batch, metadata = self._reader.read_next_batch_with_custom_metadata()
            except (StopIteration, pa.ArrowInvalid, OSError, EOFError):
                raise CuratorError(
                    f"{self._name} ended without its end mark after {rows:,} records: the producer failed",
                    hint=_PRODUCER,
                ) from None
            if metadata is not None and _END in metadata:
                mark = json.loads(metadata[_END])
                if mark["rows"] != rows or mark["ids"] != f"{ids:032x}":
                    raise CuratorError(f"{self._name} holds {rows:,} records, {mark['rows']:,} were sent")
                self.passes = mark["passes"]
                return
            rows += batch.num_rows
            ids = add_digests(ids, ids_digest(batch.column("id")))
            yield batch


def pass_entry(steps: list[dict[str, Any]], ledger: Ledger) -> dict[str, Any]:
    """One pass as manifests and end marks record it."""
    return {"steps": steps, "ledger": ledger.to_json()}
