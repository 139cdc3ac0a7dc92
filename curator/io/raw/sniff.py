"""What a file is, from its first bytes."""

from curator.errors import CuratorError
from curator.io.raw.base import BOM, SPACE, STDIN, Container, UnknownFormatError
from curator.io.raw.objects import holds_turns, layout_of

COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bzip2", ".xz": "xz"}
"""Endings of names and the compression they promise."""
_WIDE = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    **{first.encode(f"utf-16-{end}"): f"UTF-16{end.upper()}" for first in '{["' for end in ("le", "be")},
}
"""What a text of wide characters begins with: a byte order mark, or what JSON begins with."""


def name_mismatch(name: str, container: Container) -> str | None:
    """What to tell when the compression of a file is not the one its name promises; content is what counts."""
    promised = next((kind for ending, kind in COMPRESSED.items() if name.lower().endswith(ending)), "none")
    if name == STDIN or promised == container.compression:
        return None
    there = "not compressed" if container.compression == "none" else f"{container.compression} inside"
    return f"{name}: the name promises {'no compression' if promised == 'none' else promised}, it is {there}"


def _wide_encoding(head: bytes) -> str | None:
    """Which encoding of two or four bytes a character a text is in, if it is one."""
    return next((encoding for mark, encoding in _WIDE.items() if head.startswith(mark)), None)


def sniff(path: str, head: bytes, compression: str) -> Container:
    """The layout, from the first bytes (after decompression) and, for tables only, the name."""
    name = path.lower()
    for suffix in COMPRESSED:
        name = name.removesuffix(suffix)
    # An empty file named so was cut off; it is no file of no rows.
    if head[:4] == b"PAR1" or (not head and path.lower().endswith(".parquet")):
        return Container(compression, "parquet")
    if name.endswith(".parquet"):
        raise CuratorError(f"{path} is not a whole Parquet file: it begins with {head[:20]!r}", hint="fetch it again")
    if (encoding := _wide_encoding(head)) is not None:
        raise CuratorError(
            f"{path} is {encoding} text, not UTF-8", hint=f"iconv -f {encoding} -t UTF-8 FILE > NEW, and read that"
        )
    text = head.removeprefix(BOM).lstrip(SPACE)
    if text[:1] == b"{":
        return Container(compression, layout_of(head) or "jsonl")
    if text[:1] == b"[":
        return Container(compression, "jsonl" if holds_turns(text) else "array")
    if head[:8] == b"ARROW1\0\0":
        return Container(compression, "arrow file")
    if head[:4] == b"\xff\xff\xff\xff" and len(head) > 8:
        return Container(compression, "arrow stream")
    if name.endswith((".arrow", ".feather")):
        raise CuratorError(f"{path} is not a whole Arrow file: it begins with {head[:20]!r}", hint="fetch it again")
    if name.endswith((".yaml", ".yml")) and text:
        return Container(compression, "yaml")
    if name.endswith(".tsv"):
        return Container(compression, "tsv")
    if name.endswith(".csv"):
        return Container(compression, "csv")
    if not text or name.endswith((".jsonl", ".ndjson", ".json")):
        return Container(compression, "jsonl")
    first_line = text.split(b"\n", 1)[0]
    if path == STDIN and first_line.count(b",") >= 1:
        return Container(compression, "csv")
    raise UnknownFormatError(
        f"{path}: not a format that is read (it begins with {head[:20]!r})",
        hint="JSON (lines, array, objects), CSV, TSV, YAML, Parquet, Arrow, plain or as gz, zst, bz2, xz; or in a zip",
    )
