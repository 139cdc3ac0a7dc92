"""What `curator ingest --dry-run` prints for a person: a screen for a simple file, no line over 100 columns."""

import json
import textwrap
import unicodedata
from typing import Any

from curator import log
from curator.cli.render import print_table

WIDTH = 100
_DETAILED = 3
_LINES = 6


def print_dry_run(result: dict[str, Any]) -> None:
    """Each kind of file once in detail; of several files a table first."""
    files = result["files"]
    if len(files) > 1:
        header = ("file", "container", "format", "rows seen", "bad")
        rows = [
            (_cut(item["file"], 44), item["container"], _format(item), item["rows_seen"], item["quarantined"]["rows"])
            for item in files
        ]
        print_table(header, rows[:40])
        if len(rows) > 40:
            print(f"and {len(rows) - 40:,} more files")
    kinds: dict[str, list[dict[str, Any]]] = {}
    for item in files:
        names = [name["name"] for name in item["families"]]
        kinds.setdefault(json.dumps([item["container"], names, item["fields"] and _shape(item)]), []).append(item)
    for items in list(kinds.values())[:_DETAILED]:
        if len(files) > 1:
            print()
        _print_file(items[0], len(items) - 1)
    if len(kinds) > _DETAILED:
        print(f"\nand {len(kinds) - _DETAILED} more kinds of file; name one to see it")
    if result["skipped"]:
        print(_cut(f"skipped (hidden, or of no known format): {', '.join(result['skipped'])}"))
    stops = [item["file"] for item in files if item["stops"]]
    if stops:
        print(_cut(f"ingest would stop: too many bad rows in {', '.join(stops)}"))
    print("nothing was written")


def _shape(item: dict[str, Any]) -> list[Any]:
    return [[entry["field"], entry["places"]] for entry in item["fields"]]


def _format(item: dict[str, Any]) -> str:
    return " + ".join(family["name"] for family in item["families"]) or "none"


def _print_file(item: dict[str, Any], others: int) -> None:
    seen = item["rows_seen"]
    what = "all of them" if item["is_whole"] and seen < 200 else "spread over the file"
    size = "" if item["bytes"] is None else f", {item['bytes']:,} bytes"
    like = f"; {others:,} other files are like it" if others else ""
    print(_cut(f"{item['file']}: {item['container']}{size}; {seen:,} rows looked at, {what}{like}"))
    if item["families"]:
        print("format: " + ", ".join(f"{f['name']} {f['rows']:,} rows ({f['share']:.0%})" for f in item["families"]))
    else:
        print("format: none that is known; --map says where things are, for example --map prompt=question")
    if item["also_possible"]:
        also = ", ".join(f"{name} {count:,}" for name, count in item["also_possible"].items())
        print(_cut(f"would fit by its fields too, but is asked later: {also}"))
    if item["fields"]:
        print()
        rows = [
            (_cut(entry["field"], 36), _cut(", ".join(entry["places"]) or "(empty)", 46), entry["rows"])
            for entry in item["fields"]
            if entry["places"] != ["extra"]
        ]
        print_table(("field", "goes to", "rows"), rows)
    if extra := [f"{entry['field']} {entry['rows']:,}" for entry in item["fields"] if entry["places"] == ["extra"]]:
        print(textwrap.fill(f"kept in extra: {', '.join(extra)}", WIDTH, subsequent_indent="  "))
    for reason in item["quarantined"]["reasons"]:
        example = reason["example"]
        print()
        print(_cut(f"quarantined: {reason['rows']:,} of {seen:,} rows, {_where(example)}: {example['reason']}"))
        print(_cut(f"  {_line(example['begins'])}"))
    for row in item["rows"]:
        print(f"\n{_where(row)}")
        _print_block("before", [f"{name}: {_line(value)}" for name, value in row["before"].items()])
        for record in row["after"]:
            _print_block("after", _record_lines(record))
        if row["records"] > len(row["after"]):
            print(f"          and {row['records'] - len(row['after'])} more records")


def _where(row: dict[str, Any]) -> str:
    return f"row {row['row']:,}" if row["row"] >= 0 else f"at byte {row['byte_offset']:,}"


def _print_block(name: str, lines: list[str]) -> None:
    shown = lines if len(lines) <= _LINES else [*lines[: _LINES - 1], f"... {len(lines) - _LINES + 1} more lines"]
    for index, line in enumerate(shown):
        print(_cut(f"  {name if index == 0 else '':<6}  {line}"))


def _record_lines(record: dict[str, Any]) -> list[str]:
    tags = [f"{name}={_line(value)}" for name, value in record["metadata"].items()]
    head = f"[{record['kind']}] {', '.join(tags)}"
    lines = []
    for column in ("messages", "rejected"):
        for turn in record.get(column, ()):
            parts = [_line(turn[name]) for name in ("content",) if name in turn]
            parts += [f"{name}={_line(turn[name])}" for name in turn if name not in ("role", "content")]
            lines.append(f"{'rejected ' if column == 'rejected' else ''}{turn['role']}: {' '.join(parts)}")
    rest = [name for name in ("tools", "verifier", "group", "loss_weight", "extra") if name in record]
    return [head, *lines, *(f"{name}: {_line(record[name])}" for name in rest)]


def _line(value: Any) -> str:
    """A value on one line."""
    return log.printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _cut(text: str, width: int = WIDTH) -> str:
    """The beginning that fits so many columns of a terminal; letters of East Asia take two."""
    if len(text) <= width // 2:
        return text
    columns = 0
    for index, char in enumerate(text):
        columns += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if columns > width:
            return f"{text[: max(0, index - 4)]}..."
    return text
