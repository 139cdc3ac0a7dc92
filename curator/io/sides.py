"""Side files: rows of answers that join the questions of another file by id and are no records of their own."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from curator.errors import CuratorError, UsageError
from curator.io.adapters.base import BadRow, kind_of, raw_text, refuse_repeats, value_of
from curator.io.raw import STDIN, RawReader, RawRow

ANSWERS = "possible_answer"
"""`possible_answer/NAME` beside a file NAME holds its answers; so does `possible_answer__NAME`, where a copy of such
folders has been made flat."""
ANSWER_FIELDS = frozenset({"id", "ground_truth"})
KEY = "id"
MAX_SIDE_BYTES = 512 << 20
"""A side file is held in memory, since questions may come in any order."""

Named = tuple[str, str]
"""A file's path, and its path relative to what was named."""


def pair_files(files: Sequence[Named], join: str | None) -> tuple[list[Named], dict[str, Named]]:
    """The files that hold records, and for each that has one its side file, by the relative path of the file.

    `join` names the side file relative to the folder of a file, with `{name}` for the name of the file; without it the
    usual places are looked at. A side file among `files` is no file of records; one with no partner stays, so that its
    rows are accounted for. Raises CuratorError when the side files that `join` names are not there.
    """
    if join is not None and "{name}" not in join and len(files) > 1:
        files = [file for file in files if _real(file[0]) not in {_real(_beside(other[0], join)) for other in files}]
        if len(files) > 1:
            raise UsageError(
                f"join {join} names one file for {len(files)}", hint="put {name} into it, as in {name}.answers"
            )
    sides: dict[str, Named] = {}
    for path, relative in files:
        if path == STDIN or "://" in path:
            continue
        for place in [join] if join is not None else [f"{ANSWERS}/{{name}}", f"{ANSWERS}__{{name}}"]:
            side = _beside(path, place)
            if os.path.isfile(side) and _real(side) != _real(path):
                sides[relative] = (side, os.path.normpath(_beside(relative, place)))
                break
    if join is not None and not sides:
        raise CuratorError(f"no file {_beside(files[0][0], join)}", hint="join is relative to the folder of each file")
    taken = {_real(path) for path, _ in sides.values()}
    return [file for file in files if _real(file[0]) not in taken], sides


def _beside(path: str, place: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, place.replace("{name}", name))


def _real(path: str) -> str:
    return os.path.realpath(path)


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(slots=True)
class _Answer:
    row: RawRow
    fields: dict[str, msgspec.Raw]
    is_met: bool = False


class Side:
    """The rows of a side file by id, and which of them have met a question."""

    def __init__(self, relative: str, rows: Iterable[RawRow]) -> None:
        self.relative = relative
        self.met = self.unanswered = 0
        self._answers: dict[str, _Answer] = {}
        self._bad: list[tuple[RawRow, str]] = []
        held = 0
        for row in rows:
            held += len(row.data)
            if held > MAX_SIDE_BYTES:
                raise CuratorError(
                    f"{relative}: a side file may hold {MAX_SIDE_BYTES >> 20} MiB", hint="cut both files into parts"
                )
            try:
                key, fields = self._read(row)
            except BadRow as error:
                self._bad.append((row, str(error)))
                continue
            self._answers[key] = _Answer(row, fields)

    @classmethod
    def open(cls, path: str, relative: str, max_record_bytes: int) -> "Side":
        with RawReader(path, max_record_bytes) as reader:
            return cls(relative, reader.rows())

    def _read(self, row: RawRow) -> tuple[str, dict[str, msgspec.Raw]]:
        if row.problem:
            raise BadRow(row.problem)
        try:
            fields = _fields.decode(row.data)
            key = key_of(fields)
        except msgspec.ValidationError:
            raise BadRow("wrong type: the row is not an object") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadRow(f"not JSON: {error}") from None
        refuse_repeats(row.data, [fields])
        if key is None:
            raise BadRow(f"no {KEY}: an answer needs the {KEY} of its question")
        if key in self._answers:
            raise BadRow(f"{KEY} twice: {key} has an answer already, in row {self._answers[key].row.row}")
        return key, fields

    def answer(self, fields: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw] | None:
        """What the answer adds to a question; None without one. Raises BadRow when both have a field and differ."""
        answer = self._answers.get(key_of(fields) or "")
        if answer is None:
            return None
        added = {name: raw for name, raw in answer.fields.items() if name != KEY}
        for name, raw in added.items():
            if name in fields and bytes(fields[name]) != bytes(raw):
                raise BadRow(f"field twice: {name} is another in {self.relative}, row {answer.row.row}")
        return added

    def count(self, fields: Mapping[str, msgspec.Raw]) -> None:
        """Note that a question has become a record, with its answer if there is one."""
        answer = self._answers.get(key_of(fields) or "")
        if answer is None:
            self.unanswered += 1
        elif not answer.is_met:
            answer.is_met = True
            self.met += 1

    def unmet(self) -> list[tuple[RawRow, str]]:
        """The rows that are in no record, with the reason, in their order."""
        lost = [
            (answer.row, f"no question: no record has {KEY} {key}")
            for key, answer in self._answers.items()
            if not answer.is_met
        ]
        return sorted([*self._bad, *lost], key=lambda item: item[0].row)


def key_of(fields: Mapping[str, msgspec.Raw]) -> str | None:
    """The id by which rows meet: the JSON text of a number, or of a text without needless escapes."""
    raw = fields.get(KEY)
    if raw is None or kind_of(raw) not in ("text", "number"):
        return None
    return msgspec.json.encode(value_of(raw)).decode() if kind_of(raw) == "text" else raw_text(raw)
