"""What a file is, from its first bytes."""

from curator.errors import CuratorError
from curator.io.raw.base import BOM, SPACE, STDIN, Container, UnknownFormatError


def sniff(path: str, head: bytes, compression: str) -> Container:
    """The layout, from the first bytes (after decompression) and, for tables only, the name."""
    name = path.lower().removesuffix(".gz").removesuffix(".zst")
    # An empty file named so was cut off; it is no file of no rows.
    if head[:4] == b"PAR1" or (not head and path.lower().endswith(".parquet")):
        return Container(compression, "parquet")
    if name.endswith(".parquet"):
        raise CuratorError(f"{path} is not a whole Parquet file: it begins with {head[:20]!r}", hint="fetch it again")
    text = head.removeprefix(BOM).lstrip(SPACE)
    if text[:1] == b"{":
        return Container(compression, "jsonl")
    if text[:1] == b"[":
        return Container(compression, "array")
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
        hint="JSON lines, a JSON array, CSV, TSV or Parquet, plain or as gz or zst",
    )
