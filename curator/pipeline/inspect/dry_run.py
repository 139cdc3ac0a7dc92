"""What ingest would make of raw files, found by converting a sample of their rows; nothing is written."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from curator.io.build import Builder, SourceSettings
from curator.io.gate import Gate
from curator.io.raw import STDIN, Container, RawReader, RawRow, one_by_one
from curator.pipeline.ingest import find_files

SAMPLE_ROWS = 200
"""At least this many rows of a file are looked at, at most twice as many."""
_BUDGET_BYTES = 64 << 20
_BUDGET_ROWS = 50_000
"""Of what can only be read from the front, this much is; a larger file of plain lines is read at many places."""
_PLACES = 20
_PROBED_SHAPES = 6
_PROBED_ELEMENTS = 4
"""Elements of a list in which a probe is put."""
_SHOWN_ROWS = 3


def dry_run(patterns: Sequence[str], source: SourceSettings) -> dict[str, Any]:
    """For each file: `container`, `families`, `fields`, `quarantined`, three rows before and after, and `stops`.

    Raises CuratorError when nothing matches or a file is of no format that is read.
    """
    files, skipped = ([(STDIN, STDIN)], []) if list(patterns) == [STDIN] else find_files(patterns, source)
    looked = [_look(path, relative, source) for path, relative in files]
    return {"source": source.name, "files": looked, "skipped": skipped}


# --- a sample of the rows -----------------------------------------------------------------------------------------


def _look(path: str, relative: str, source: SourceSettings) -> dict[str, Any]:
    with RawReader(path, source.max_record_bytes) as reader:
        size = None if path == STDIN else os.path.getsize(path)
        is_large = size is not None and size > _BUDGET_BYTES and reader.container == Container("none", "jsonl")
        rows, is_all = (_at_places(path, size or 0, reader), False) if is_large else _spread(reader.rows())
        sample = _Sample(source, relative)
        for row in rows:
            sample.convert(row)
        result = {"file": relative, "container": str(reader.container), "bytes": size, "is_whole": is_all}
    return {**result, **sample.report()}


def _spread(rows: Iterator[RawRow]) -> tuple[list[RawRow], bool]:
    """Rows at even distances up to the budget, whatever their number, and whether the file ended within it."""
    kept: list[RawRow] = []
    step, size = 1, 0
    for number, row in enumerate(rows):
        if number % step == 0:
            kept.append(row)
            if len(kept) >= 2 * SAMPLE_ROWS:
                kept, step = kept[::2], step * 2
        size += len(row.data)
        if size > _BUDGET_BYTES or number + 1 >= _BUDGET_ROWS:
            return kept, next(rows, None) is None
    return kept, True


def _at_places(path: str, size: int, reader: RawReader) -> list[RawRow]:
    """Rows at even distances of a large file of lines; what number they have is not known (-1)."""
    rows: list[RawRow] = []
    each = SAMPLE_ROWS // _PLACES
    for place in range(_PLACES):
        start = size * place // _PLACES
        with open(path, "rb") as file:
            if start:
                file.seek(start - 1)
                file.readline(_BUDGET_BYTES // _PLACES)
            start = file.tell()
        part = one_by_one(reader.part(start, min(size, start + _BUDGET_BYTES // _PLACES), 0))
        taken = [row for row, _ in zip(part, range(each), strict=False)]
        # The last may be cut where the part ends.
        taken = taken[:-1] if len(taken) < each and place < _PLACES - 1 else taken
        rows += taken if place == 0 else [RawRow(-1, row.byte_offset, row.data, row.problem) for row in taken]
    return rows


# --- what becomes of it -------------------------------------------------------------------------------------------


@dataclass
class _Sample:
    """Rows of one file and the records they gave."""

    source: SourceSettings
    file: str
    good: list[tuple[RawRow, list[dict[str, Any]]]] = field(default_factory=list)
    bad: list[dict[str, Any]] = field(default_factory=list)
    families: Counter[str] = field(default_factory=Counter)
    claims: Counter[str] = field(default_factory=Counter)
    """Rows by each family that would take them, first asked or not."""

    def __post_init__(self) -> None:
        self.builder = Builder(self.source, self.file)

    def convert(self, row: RawRow) -> None:
        (built,) = self.builder.build([row])
        self.bad += built.bad.to_pylist()
        if built.records.num_rows:
            self.good.append((row, built.records.to_pylist()))
            self.families.update(built.adapters)
            self.claims.update(self.builder.claims(row))

    def report(self) -> dict[str, Any]:
        seen = len(self.good) + len(self.bad)
        own = self.source.adapter is None and not self.source.map
        others = {name: count for name, count in self.claims.items() if own and name not in self.families}
        return {
            "rows_seen": seen,
            "families": [
                {"name": name, "rows": count, "share": round(count / seen, 4)}
                for name, count in self.families.most_common()
            ],
            "also_possible": others,
            "fields": _Fields(self).table(),
            "quarantined": self._quarantined(),
            "rows": [_before_and_after(*self.good[index]) for index in _spaced(len(self.good), _SHOWN_ROWS)],
            "stops": bool(seen) and not self._passes(seen),
        }

    def _passes(self, seen: int) -> bool:
        return bool(self.good) and Gate.parse(self.source.max_quarantine).allows(len(self.bad), seen)

    def _quarantined(self) -> dict[str, Any]:
        reasons = Counter(row["reason"].partition(":")[0] for row in self.bad)
        examples: dict[str, dict[str, Any]] = {}
        for row in self.bad:
            shown = {"row": row["row"], "byte_offset": row["byte_offset"], "reason": row["reason"]}
            examples.setdefault(
                row["reason"].partition(":")[0], {**shown, "begins": row["raw"][:300].decode(errors="replace")}
            )
        return {
            "rows": len(self.bad),
            "reasons": [
                {"reason": reason, "rows": count, "example": examples[reason]}
                for reason, count in reasons.most_common()
            ],
        }


_BARE = "the row"
"""What a row is called that is a value alone, not an object."""
_MAX_DIGITS = 1000


def _parsed(row: RawRow) -> dict[str, Any]:
    """The row as Python values, for showing and probing; a number too long for Python is a 0."""
    value = json.loads(row.data, parse_int=lambda text: int(text) if len(text) < _MAX_DIGITS else 0)
    return value if isinstance(value, dict) else {_BARE: value}


def _spaced(count: int, wanted: int) -> list[int]:
    """The first, the last, and some between."""
    if count <= wanted:
        return list(range(count))
    return [index * (count - 1) // (wanted - 1) for index in range(wanted)]


# --- where each field goes ----------------------------------------------------------------------------------------

_PROBE = " [probe]"
_IGNORED = {"id", "content_hash"}
_SECONDARY = ("provenance.form", "kind", "metadata.turn_issues", "metadata.reasoning_trace")
"""Places that change with others; they are named when nothing else has."""


class _Fields:
    """Finds for each field of a sample the places of its values, by changing them one by one in real conversions."""

    def __init__(self, sample: _Sample) -> None:
        self.sample = sample
        self.counts: Counter[str] = Counter()
        self.places: dict[str, dict[str, None]] = {}
        self.values: dict[str, dict[str, None]] = {}
        """Texts seen by path, to put one in the place of another where a field takes only some (roles)."""

    def table(self) -> list[dict[str, Any]]:
        """One entry a field: `field` (a path; `[]` is any element), `rows` that have it, `places` in the record."""
        parsed = [(_parsed(row), records) for row, records in self.sample.good]
        shapes: dict[frozenset[str], list[int]] = {}
        for index, (values, _) in enumerate(parsed):
            self.counts.update(values.keys())
            shapes.setdefault(frozenset(key for key, value in values.items() if value), []).append(index)
        common = sorted(shapes.values(), key=len, reverse=True)[:_PROBED_SHAPES]
        probed = [min(indices, key=lambda index: len(self.sample.good[index][0].data)) for indices in common]
        for index in probed:
            for path, value, _ in _leaves(parsed[index][0]):
                if isinstance(value, str):
                    self.values.setdefault(path, {})[value] = None
        for index in probed:
            self._probe(*parsed[index])
        for values, records in parsed:
            for name, value in values.items():
                if name not in self.places and not value:
                    places = [_EXTRA] if any(name in _extra_names(record) for record in records) else []
                    self.places[name] = dict.fromkeys(places)
        return self._folded()

    def _probe(self, values: dict[str, Any], records: list[dict[str, Any]]) -> None:
        before = [_flat(record) for record in records]
        for path, value, steps in _leaves(values):
            found = self.places.setdefault(path, {})
            for other in self._others(path, value):
                changed = self._converted(_with(values, steps, other))
                if changed is not None:
                    found.update(dict.fromkeys(_changes(before, changed)))
                    break

    def _others(self, path: str, value: Any) -> Iterator[Any]:
        if isinstance(value, bool):
            yield not value
        elif isinstance(value, int | float):
            yield value + 1
            yield 1
        elif isinstance(value, str):
            yield value + _PROBE
            yield from [other for other in self.values.get(path, ()) if other != value][:3]

    def _converted(self, values: dict[str, Any]) -> list[dict[str, Any]] | None:
        row = values[_BARE] if values.keys() == {_BARE} else values
        (built,) = self.sample.builder.build([RawRow(0, 0, json.dumps(row).encode())])
        return [_flat(record) for record in built.records.to_pylist()] if built.records.num_rows else None

    def _folded(self) -> list[dict[str, Any]]:
        """Paths below a field as one entry when all of them go to the same place."""
        by_field: dict[str, dict[str, list[str]]] = {}
        for path, places in self.places.items():
            name = next((name for name in self.counts if path == name or path.startswith((f"{name}.", f"{name}["))), "")
            by_field.setdefault(name, {})[path] = _named(places)
        result = []
        for name in self.counts:
            paths = by_field.get(name, {})
            if len({tuple(places) for places in paths.values()}) == 1:
                paths = {name: next(iter(paths.values()))}
            result += [{"field": path, "rows": self.counts[name], "places": at} for path, at in paths.items()]
        return result


_EXTRA = "extra"


def _leaves(
    value: Any, path: str = "", steps: tuple[str | int, ...] = ()
) -> Iterator[tuple[str, Any, tuple[str | int, ...]]]:
    """The values below, each with its path (`[]` for any element) and its steps; null and empty ones are none."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _leaves(child, f"{path}.{key}" if path else key, (*steps, key))
    elif isinstance(value, list):
        for index, child in enumerate(value[:_PROBED_ELEMENTS]):
            yield from _leaves(child, f"{path}[]", (*steps, index))
    elif value is not None:
        yield path, value, steps


def _with(value: Any, steps: tuple[str | int, ...], other: Any) -> Any:
    """A copy of the value in which the one at `steps` is another."""
    if not steps:
        return other
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[steps[0]] = _with(value[steps[0]], steps[1:], other)
    return copy


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """The record as place to value; turns are told apart by number, and named by role."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if name in _IGNORED:
            continue
        if name in ("messages", "rejected") and value is not None:
            for index, message in enumerate(value):
                flat |= {f"{name} {message['role']} {part}\0{index}": item for part, item in message.items()}
        elif isinstance(value, dict):
            flat |= {f"{name}.{part}": item for part, item in value.items() if name != "provenance" or part == "form"}
        else:
            flat[name] = value
    return flat


def _changes(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Iterable[str]:
    """The places in which two conversions differ."""
    if len(before) != len(after):
        return ["number of records"]
    found: dict[str, None] = {}
    for old, new in zip(before, after, strict=True):
        for place in old.keys() | new.keys():
            if old.get(place) != new.get(place):
                found[place.partition("\0")[0] if place in old and place in new else f"{place.split()[0]} role"] = None
    main = [place for place in found if place not in _SECONDARY]
    return sorted(main or found)


def _named(places: Iterable[str]) -> list[str]:
    """Places as people read them: the roles of a part of turns together."""
    roles: dict[tuple[str, str], list[str]] = {}
    result: list[str] = []
    for place in places:
        words = place.split(" ")
        if len(words) == 3:
            roles.setdefault((words[0], words[2]), []).append(words[1])
        else:
            result.append({"provenance.form": "form (for export)"}.get(place, place))
    turns = [f"{column}: {part} of {', '.join(sorted(set(names)))}" for (column, part), names in roles.items()]
    whole = [name for name in result if name.endswith(" role")]
    return [*whole] if whole else [*turns, *result]


def _extra_names(record: dict[str, Any]) -> set[str]:
    return set(json.loads(record["extra"])) if record["extra"] else set()


# --- rows to look at ----------------------------------------------------------------------------------------------

_SHOWN_CHARS = 400


def _before_and_after(row: RawRow, records: list[dict[str, Any]]) -> dict[str, Any]:
    values = _parsed(row)
    before = {name: _short(value) for name, value in values.items()}
    after = []
    for record in records[:_SHOWN_ROWS]:
        shown: dict[str, Any] = {"kind": record["kind"]}
        for column in ("messages", "rejected"):
            if record[column] is not None:
                shown[column] = [_turn(message) for message in record[column]]
        for column in ("tools", "group", "loss_weight", "extra"):
            if record[column] is not None:
                shown[column] = _short(record[column])
        if record["verifier"] is not None:
            shown["verifier"] = {name: _short(value) for name, value in record["verifier"].items()}
        shown["metadata"] = {name: value for name, value in record["metadata"].items() if value not in (None, [])}
        after.append(shown)
    return {"row": row.row, "byte_offset": row.byte_offset, "before": before, "after": after, "records": len(records)}


def _turn(message: dict[str, Any]) -> dict[str, Any]:
    return {name: _short(value) for name, value in message.items() if value is not None and name != "wrap"}


def _short(value: Any) -> Any:
    """A value that fits a line or two; long ones as the beginning of their text."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= _SHOWN_CHARS:
        return value
    return f"{text[:_SHOWN_CHARS]}..."
