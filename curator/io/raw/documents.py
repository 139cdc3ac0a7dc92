"""YAML: every mapping of a list, or of a document, is a row; scalars keep their source text."""

import json
import re
from collections.abc import Iterator
from typing import Any

from curator.errors import CuratorError
from curator.io.raw import base
from curator.io.raw.base import MAX_RECORD_BYTES, RawRow

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LITERALS = {"true": "true", "false": "false", "null": "null", "~": "null", "": "null"}


class _Bad(Exception):
    """A node that has no JSON form."""


def yaml_rows(blocks: Iterator[bytes], path: str, max_record_bytes: int = MAX_RECORD_BYTES) -> Iterator[RawRow]:
    """Rows of all documents. The file is read whole, so it may be as long as one record may be.

    Only what JSON writes the same way is a number, true, false or null; `no`, dates and octal numbers stay text.
    Aliases are followed as long as the row stays within the limit. Raises CuratorError for a file above the limit.
    """
    import yaml

    data = b""
    for block in blocks:
        data += block
        if len(data) > max_record_bytes:
            raise CuratorError(
                f"{path}: YAML is read whole, and this is more than {max_record_bytes:,} bytes",
                hint="cut it, write JSON lines, or raise max_record_bytes",
            )
    starts = [0, *(match.end() for match in re.finditer(b"\n", data))]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    row = 0
    last = 0
    try:
        for document in yaml.compose_all(data, Loader=loader):
            for node in document.value if isinstance(document, yaml.SequenceNode) else [document]:
                last = starts[min(node.start_mark.line, len(starts) - 1)]
                try:
                    budget = [max_record_bytes]
                    text = _json(node, budget, frozenset()).encode()
                    yield RawRow(row, last, text)
                except (_Bad, RecursionError, UnicodeEncodeError) as error:
                    end = starts[min(max(node.start_mark.line + 1, node.end_mark.line), len(starts) - 1)]
                    kept = data[last:end] or data[last:]
                    kept = kept[: base.KEPT_RAW_BYTES]
                    yield RawRow(row, last, kept, str(error) or "too deep: nested mappings")
                row += 1
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        what = getattr(error, "problem", None) or str(error).split("\n")[0]
        yield RawRow(row, last, data[last:][: base.KEPT_RAW_BYTES], f"not YAML: {what}{place}")


def _json(node: Any, budget: list[int], above: frozenset[int]) -> str:
    import yaml

    if id(node) in above:
        raise _Bad("not JSON: an alias that holds itself")
    if isinstance(node, yaml.ScalarNode):
        text = _scalar(node)
        budget[0] -= len(text) + 2
        if budget[0] < 0:
            raise _Bad("too long: aliases make the row longer than max_record_bytes")
        return text
    budget[0] -= 2
    if budget[0] < 0:
        raise _Bad("too long: aliases make the row longer than max_record_bytes")
    if node.tag not in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
        raise _Bad(f"not JSON: the tag {node.tag}")
    inside = above | {id(node)}
    if isinstance(node, yaml.SequenceNode):
        return "[" + ", ".join(_json(value, budget, inside) for value in node.value) + "]"
    pairs = []
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _Bad("not JSON: a key that is no text")
        pairs.append(f"{json.dumps(key.value, ensure_ascii=False)}: {_json(value, budget, inside)}")
        budget[0] -= len(key.value)
    return "{" + ", ".join(pairs) + "}"


def _scalar(node: Any) -> str:
    if node.tag.startswith("!") or node.tag.endswith(":binary"):
        raise _Bad(f"not JSON: the tag {node.tag}")
    # Without style it is a plain scalar; one with the tag of text is text to YAML 1.1, or was told so by `!!str`.
    if not node.style and not node.tag.endswith(":str"):
        if (literal := _LITERALS.get(node.value)) is not None:
            return literal
        if _NUMBER.fullmatch(node.value):
            return node.value
    return json.dumps(node.value, ensure_ascii=False)
