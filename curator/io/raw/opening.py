"""Opening files: compression is told by magic bytes, and damage is an error that names the file."""

import bz2
import io
import lzma
import zipfile
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
        return io.BufferedReader(_Members(buffered, "gzip"), 1 << 20), "gzip"
    if magic == b"\x28\xb5\x2f\xfd":
        import pyarrow as pa

        # Unlike the reader of zstandard, Arrow's takes a frame that is cut off for the damage it is.
        return pa.CompressedInputStream(pa.PythonFile(buffered, mode="r"), "zstd"), "zstd"
    for start, name in ((b"BZh", "bzip2"), (b"\xfd7zX", "xz")):
        if magic.startswith(start):
            return io.BufferedReader(_Members(buffered, name), 1 << 20), name
    if magic == b"PK\x03\x04":
        raise CuratorError(f"{path} is a zip file inside another file or on stdin", hint="name the zip file itself")
    return buffered, "none"


class _Members(io.RawIOBase):
    """Decompressed bytes of all members (gzip) or streams (bzip2, xz) of a file, with no damage passed over.

    The readers of the standard library take junk behind the last stream of bzip2 and xz for its end.
    """

    def __init__(self, file: IO[bytes], kind: str) -> None:
        self._file = file
        self._kind = kind
        self._taken = 0
        self._input = b""
        self._decoder: Any = None
        self._members = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self._decoder is None and not self._begin():
                return 0
            if not self._input and (self._kind == "gzip" or self._decoder.needs_input):
                self._fill()
                if not self._input:
                    raise EOFError("the last member ends before its end marker")
            try:
                data = self._decoder.decompress(self._input, len(buffer))
            except (zlib.error, OSError, lzma.LZMAError) as error:
                what = f"junk behind member {self._members}, or damage" if self._members else "damage"
                raise OSError(f"{what} before byte {self._taken:,}: {error}") from None
            if self._decoder.eof:
                self._input = self._decoder.unused_data
                self._decoder = None
                self._members += 1
            else:
                self._input = self._decoder.unconsumed_tail if self._kind == "gzip" else b""
            if data:
                buffer[: len(data)] = data
                return len(data)

    def _fill(self) -> None:
        block = self._file.read(1 << 18)
        self._taken += len(block)
        self._input += block

    def _begin(self) -> bool:
        """Open the next member; False at the end. Zero bytes may pad the end, as tapes do."""
        while len(self._input) < 6:
            before = self._taken
            self._fill()
            if self._taken == before:
                break
        while self._members and self._input[:1] == b"\0":
            self._input = self._input.lstrip(b"\0")
            if not self._input:
                self._fill()
        if not self._input:
            return False
        offset = self._taken - len(self._input)
        magic, make = {
            "gzip": (b"\x1f\x8b", lambda: zlib.decompressobj(wbits=31)),
            "bzip2": (b"BZh", bz2.BZ2Decompressor),
            "xz": (b"\xfd7zXZ\0", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ)),
        }[self._kind]
        if not self._input.startswith(magic):
            raise OSError(f"at byte {offset:,} stands {self._input[:8]!r}, which is no {self._kind} member")
        self._decoder = make()
        return True


def read_up_to(stream: IO[bytes], size: int, path: str) -> bytes:
    """Up to `size` bytes, fewer only at the end. Raises CuratorError when the compression is damaged."""
    parts = []
    left = size
    while left > 0:
        try:
            part = stream.read(left)
        except (OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
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
