"""Opening files: compression is told by magic bytes, and damage is an error that names the file."""

import gzip
import io
import zlib
from collections.abc import Iterator
from typing import IO, Any

from curator.errors import CuratorError
from curator.io.raw import base


def open_bytes(file: IO[bytes], path: str) -> tuple[IO[bytes], str]:
    """The decompressed bytes of an open file and the compression, which magic bytes tell, not the name."""
    buffered: Any = file if hasattr(file, "peek") else io.BufferedReader(file, 1 << 20)  # type: ignore[type-var]
    magic = buffered.peek(4)[:4]
    if magic[:2] == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=buffered), "gzip"  # type: ignore[return-value]
    if magic == b"\x28\xb5\x2f\xfd":
        import pyarrow as pa

        # Unlike the reader of zstandard, Arrow's takes a frame that is cut off for the damage it is.
        return pa.CompressedInputStream(pa.PythonFile(buffered, mode="r"), "zstd"), "zstd"
    for start, name in ((b"BZh", "bzip2"), (b"\xfd7zX", "xz"), (b"PK\x03\x04", "zip")):
        if magic.startswith(start):
            raise CuratorError(
                f"{path} is a {name} file, which is not read yet", hint="unpack it first, or use gz or zst"
            )
    return buffered, "none"


def read_up_to(stream: IO[bytes], size: int, path: str) -> bytes:
    """Up to `size` bytes, fewer only at the end. Raises CuratorError when the compression is damaged."""
    parts = []
    left = size
    while left > 0:
        try:
            part = stream.read(left)
        except (OSError, EOFError, zlib.error) as error:
            raise _damaged(path, error) from None
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _damaged(path: str, error: Any) -> CuratorError:
    return CuratorError(
        f"{path}: the compressed data is damaged or cut: {error}", hint="fetch the file again, or repair it"
    )


def limited_blocks(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0:
        block = file.read(min(base.BLOCK_BYTES, size))
        if not block:
            return
        size -= len(block)
        yield block
