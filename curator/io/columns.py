"""Raw rows straight into Arrow: rows of one shape differ in their texts alone, so one of them tells how all are read.

A shape is the keys in their order, the kinds of the values, the roles. The adapter is given a row of the shape whose
texts are marks; where the marks come out is where a kernel copies the texts of all such rows to. A row with anything
that an adapter might look at (a trace, a control token, white space alone, an escape that hides one) is odd and goes
to the adapter itself.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from curator.io.adapters.base import BadRow
from curator.io.build import Builder, Built, Found, look, sum_counts
from curator.io.hashes import digest_ids, hash_contents, read_only
from curator.io.raw import Found as RawFound
from curator.io.raw import RawBlock, RawRow
from curator.kernels import json_rows as kernel
from curator.schema.record import HASHED_TEXTS, MESSAGE_TYPE

_WORTH = 8
"""Rows of a shape in one block from which asking the adapter for its plan pays."""

# Keys whose values are opened, or whose characters, equality or JSON an adapter may look at.
_ASKS = {
    "messages": kernel.OPEN,
    "conversations": kernel.OPEN,
    "metadata": kernel.OPEN,
    "tool_calls": kernel.OPEN | kernel.JSON,
    "function": kernel.OPEN,
    "function_call": kernel.OPEN | kernel.JSON,
    "role": kernel.LITERAL,
    "from": kernel.LITERAL | kernel.FROM,
    "type": kernel.LITERAL,
    "weight": kernel.LITERAL,
    "arguments": kernel.JSON,
    "tools": kernel.JSON,
    "value": kernel.VALUE,
    "id": kernel.ID,
    "tool_call_id": kernel.ID,
}
_JSON_COLUMNS = frozenset(("extra", "verifier.payload", "tool_calls"))
"""Columns in which a text stands with its quotes."""

Operation = tuple[int, int, bytes]
"""What `kernel.assemble` does: its code, the token it copies, or the bytes it writes."""
Cell = tuple[Operation, ...]
_NULL: Cell = ((kernel.PUT_NULL, 0, b""),)


@dataclasses.dataclass(frozen=True)
class Plan:
    """How rows of one shape become records."""

    adapter: str
    counts: dict[str, int]
    """What is to be said of each such row (`Built.counts`)."""
    columns: dict[str, Cell]
    """Text columns of the record by dotted path; others are null."""
    constants: dict[str, Any]
    """Values of the columns that are no text, the same for all rows."""
    messages: dict[str, list[Cell]]
    weights: list[float | None]
    unbroken: tuple[int, ...]
    """Tokens that are followed by another in one text: an empty line in them needs a note in `form`."""


class Tokens:
    """The rows of a block as `kernel.scan_rows` sees them; its arrays are used again for the next block."""

    def __init__(self, marks: Sequence[str]) -> None:
        encoded = [mark.encode() for mark in marks]
        self._classes = np.zeros(256, np.uint8)
        self._classes[:32], self._classes[128:] = 3, 4
        self._classes[[mark[0] for mark in encoded]] = 5
        self._classes[ord('"')], self._classes[ord("\\")] = 1, 2
        leads = sorted({mark[0] for mark in encoded})
        self._lead_words = np.array([lead * 0x0101010101010101 for lead in leads], np.uint64)
        self._marks = np.frombuffer(b"".join(encoded), np.uint8).copy()
        self._mark_starts = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
        names = [np.frombuffer(name.encode(), np.uint8) for name in _ASKS]
        self._key_hashes = np.array([kernel.hash_bytes(name, 0, len(name)) for name in names], np.uint64)
        self._key_asks = np.array(list(_ASKS.values()), np.uint8)
        self._reserve(1 << 20)

    def _reserve(self, room: int) -> None:
        self.pos, self.end = np.empty(room, np.int32), np.empty(room, np.int32)
        self.kinds, self.flags = np.empty(room, np.uint8), np.empty(room, np.uint8)

    def scan(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> int:
        """Read as many rows as there is room for, at least one; their number."""
        num_rows = len(starts)
        longest = int((ends - starts).max())
        if longest // 2 + 2 > len(self.pos):
            self._reserve(longest // 2 + 2)
        self.first = np.empty(num_rows + 1, np.int64)
        self.shapes, self.is_odd = np.empty(num_rows, np.uint64), np.empty(num_rows, np.uint8)
        return kernel.scan_rows(
            data,
            starts,
            ends,
            self._classes,
            self._lead_words,
            self._marks,
            self._mark_starts,
            self._key_hashes,
            self._key_asks,
            self.pos,
            self.end,
            self.kinds,
            self.flags,
            self.first,
            self.shapes,
            self.is_odd,
        )


class ColumnBuilder:
    """Builds records of one raw file from blocks of rows; equal to `Builder` row by row."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        # A builder apart: what it reads is no row of the file, and must not be counted as one.
        self._prober = Builder(builder.source, "probe")
        self._tokens = Tokens(builder.marks)
        self._numbers: dict[int, int] = {}
        """Shape to the number of its plan, -1 where it has none."""
        self._plans: list[Plan] = []
        self._programs: dict[str, Program] = {}
        self.rows_by_kernel = 0

    def build(self, blocks: Iterable[RawFound]) -> Iterator[Built]:
        """Stretches of one block and one shard of the input each."""
        for block in blocks:
            if isinstance(block, RawRow):
                yield self._builder.read_rows([block])
                continue
            for part in block.pieces(self._builder.source.shard_bytes):
                first = 0
                while first < len(part.starts):
                    count = self._tokens.scan(read_only(part.data), part.starts[first:], part.ends[first:])
                    yield self._build(part.slice(first, first + count))
                    first += count

    def _build(self, block: RawBlock) -> Built:
        plans = self._choose(block)
        fast, slow = np.flatnonzero(plans >= 0), np.flatnonzero(plans < 0)
        parts = []
        if len(fast):
            self.rows_by_kernel += len(fast)
            parts.append(self._built(block, fast, plans[fast]))
        if len(slow):
            parts.append(self._builder.read_rows([block.row(index) for index in slow.tolist()]))
        built = parts[0] if len(parts) == 1 else parts[0].followed_by(parts[1])
        if len(parts) == 2 and parts[1].records.num_rows:
            # Back into the order of the rows; those of a row that holds several stay together.
            rows = built.records.column("provenance").field("row").to_numpy()
            built.records = reordered(built.records, np.argsort(rows, kind="stable"))
        built.first_offset = block.first_offset
        built.text_bytes = int((block.ends - block.starts).sum())
        return built

    def _built(self, block: RawBlock, rows: np.ndarray, plans: np.ndarray) -> Built:
        records = self._records(block, rows, plans)
        numbers = used_numbers(plans)
        counts = np.bincount(plans)[numbers]
        adapters: dict[str, int] = {}
        notes: dict[str, int] = {}
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            plan = self._plans[number]
            adapters = sum_counts(adapters, {plan.adapter: 1}, count)
            notes = sum_counts(notes, plan.counts, count)
        ids = digest_ids(records.column("id"))
        return Built(records, self._builder.no_rows, len(rows), ids, 0, block.first_offset, 0, adapters, notes)

    def _choose(self, block: RawBlock) -> np.ndarray:
        """The number of each row's plan, -1 for the general path."""
        tokens = self._tokens
        num_rows = len(block.starts)
        shapes, inverse, counts = np.unique(tokens.shapes[:num_rows], return_inverse=True, return_counts=True)
        numbers = np.full(len(shapes), -1, np.int64)
        is_odd = tokens.is_odd[:num_rows].astype(bool)
        for index, shape in enumerate(shapes.tolist()):
            if shape not in self._numbers and counts[index] >= _WORTH:
                row = int(np.argmax((inverse == index) & ~is_odd))
                self._numbers[shape] = -1 if is_odd[row] else self._learn(block, row)
            numbers[index] = self._numbers.get(shape, -1)
        plans = np.where(is_odd, -1, numbers[inverse])
        for number in used_numbers(plans[plans >= 0]).tolist():
            for token in self._plans[number].unbroken:
                rows = np.flatnonzero(plans == number)
                broken = tokens.flags[tokens.first[rows] + token] & kernel.BREAK
                plans[rows[broken != 0]] = -1
        return plans

    def _learn(self, block: RawBlock, row: int) -> int:
        """The number of a new plan for the shape of this row, -1 when the adapter looks at more than shapes."""
        tokens = self._tokens
        span = slice(int(tokens.first[row]), int(tokens.first[row + 1]))
        row_tokens = tokens.pos[span], tokens.end[span], tokens.kinds[span]
        has_opaque = bool(np.isin(row_tokens[2], (kernel.OPAQUE_OBJECT, kernel.OPAQUE_LIST)).any())
        plans = []
        # Of two lengths, so that nothing that is measured in a text passes for a constant.
        for word in ("Curator{:05d}Probe", "Another{:09d}CuratorProbe"):
            probe = Probe(block.data, int(block.starts[row]), int(block.ends[row]), *row_tokens, word)
            fields = msgspec.json.decode(probe.text, type=dict[str, msgspec.Raw])
            if not self._prober.reads_by_shape(fields, has_opaque):
                return -1
            try:
                found = self._prober.read(RawRow(0, 0, probe.text))
            except BadRow:
                return -1
            if len(found) != 1 or found[0].part is not None:
                return -1
            plans.append(probe.plan(found[0]))
        plan = plans[0]
        if plan is None or plan != plans[1]:
            return -1
        self._plans.append(plan)
        self._programs.clear()
        return len(self._plans) - 1

    def _program(self, column: str) -> "Program":
        """The operations of one column under every plan."""
        if column not in self._programs:
            name = column.removeprefix("messages.")
            if name != column:
                cells = [plan.messages[name] for plan in self._plans]
            else:
                cells = [[plan.columns.get(column, _NULL)] for plan in self._plans]
            self._programs[column] = Program(cells)
        return self._programs[column]

    def _records(self, block: RawBlock, rows: np.ndarray, plans: np.ndarray) -> pa.RecordBatch:
        tokens = self._tokens
        first = tokens.first[rows]

        def texts(column: str) -> pa.StringArray:
            return self._program(column).run(block.data, tokens, first, plans)

        lengths = np.array([len(plan.weights) for plan in self._plans], np.int64)[plans]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        children = {name: texts(f"messages.{name}") for name in HASHED_TEXTS}
        cells = self._program("messages.role").cells(plans)
        weights = [weight for plan in self._plans for weight in plan.weights]
        num_messages = int(offsets[-1])
        values = pa.StructArray.from_arrays(
            [
                children[field.name]
                if field.name in children
                else pa.array(weights, field.type).take(pa.array(cells))
                if field.name == "weight" and any(weight is not None for weight in weights)
                else pa.nulls(num_messages, field.type)
                for field in MESSAGE_TYPE
            ],
            fields=list(MESSAGE_TYPE),
        )
        given: dict[str, pa.Array] = {
            column: texts(column)
            for column in {"tools", "verifier.kind", "verifier.payload"}.union(*(plan.columns for plan in self._plans))
        }
        given["messages"] = pa.ListArray.from_arrays(pa.array(offsets), values, type=pa.list_(MESSAGE_TYPE))
        checked = [given[column] for column in ("tools", "verifier.kind", "verifier.payload")]
        given["content_hash"] = hash_contents(offsets.astype(np.int64), children, *checked)
        constants = {column for plan in self._plans for column in plan.constants}
        for column in constants:
            values_of = [plan.constants.get(column) for plan in self._plans]
            given[column] = spread(pa.array(values_of, self._builder.type_of(column)), plans)
        adapters = pa.array([plan.adapter for plan in self._plans], pa.string())
        given["provenance.adapter"] = spread(adapters, plans)
        return self._builder.assemble(rows + block.first_row, block.offsets(rows), given)


def used_numbers(numbers: np.ndarray) -> np.ndarray:
    """The different ones of many small numbers, ascending."""
    return np.flatnonzero(np.bincount(numbers))


def reordered(batch: pa.RecordBatch, order: np.ndarray) -> pa.RecordBatch:
    """`batch.take(order)`, copied run by run where the order has long ones."""
    borders = np.flatnonzero(np.diff(order) != 1) + 1
    if len(borders) > len(order) // 32:
        return pa.Table.from_batches([batch]).take(pa.array(order)).combine_chunks().to_batches()[0]
    starts, stops = [0, *borders.tolist()], [*borders.tolist(), len(order)]
    return pa.concat_batches(
        [batch.slice(int(order[start]), stop - start) for start, stop in zip(starts, stops, strict=True)]
    )


def spread(values: pa.Array, places: np.ndarray) -> pa.Array:
    """`values.take(places)`, quicker where all of them are the same."""
    if not len(places) or values.null_count == len(values):
        return pa.nulls(len(places), values.type)
    used = values.take(pa.array(used_numbers(places)))
    if len(used) == 1 or used.to_pylist() == [used[0].as_py()] * len(used):
        return pa.repeat(used[0], len(places))
    return values.take(pa.array(places))


def warm() -> None:
    """Compile the kernels, or load them, before workers need them."""
    from curator.io.build import SourceSettings
    from curator.io.raw import Counts
    from curator.io.raw.lines import Lines

    rows = b'{"instruction":"a","output":"b\\n"}\n' * (2 * _WORTH)
    list(ColumnBuilder(Builder(SourceSettings("warm"), "warm")).build(Lines(Counts()).split([rows])))


class Program:
    """One text column under every plan, as the arrays that the kernel reads."""

    def __init__(self, plans: Sequence[Sequence[Cell]]) -> None:
        cells = [cell for plan in plans for cell in plan]
        operations = [operation for cell in cells for operation in cell]
        literals = np.cumsum([0, *(len(text) for _, _, text in operations)]).astype(np.int64)
        codes = np.array([code for code, _, _ in operations], np.uint8)
        self._cell_starts = np.cumsum([0, *map(len, plans)]).astype(np.int64)
        self._op_starts = np.cumsum([0, *map(len, cells)]).astype(np.int64)
        self._codes = codes
        self._tokens = np.where(
            codes == kernel.PUT_LITERAL, literals[:-1], np.array([token for _, token, _ in operations], np.int64)
        )
        self._ends = literals[1:]
        self._literals = np.frombuffer(b"".join(text for _, _, text in operations), np.uint8).copy()
        self._constants: pa.StringArray | None = None
        if not np.isin(codes, (kernel.PUT_TEXT, kernel.PUT_RAW)).any():
            self._constants = pa.array([_constant(cell) for cell in cells], pa.string())

    def cells(self, plans: np.ndarray) -> np.ndarray:
        """The numbers of all cells of rows that follow these plans, int64."""
        lengths = np.diff(self._cell_starts)[plans]
        ends = np.cumsum(lengths)
        return np.arange(ends[-1] if len(ends) else 0) + np.repeat(
            self._cell_starts[:-1][plans] - ends + lengths, lengths
        )

    def run(self, data: np.ndarray, tokens: Tokens, first: np.ndarray, plans: np.ndarray) -> pa.StringArray:
        """The column's cells of rows whose tokens begin at `first`."""
        if self._constants is not None:
            used = self._constants.take(pa.array(self.cells(used_numbers(plans))))
            if used.null_count == len(used) or len(used.unique()) == 1:
                lengths = np.diff(self._cell_starts)
                return pa.repeat(used[0], int(lengths[plans].sum()))
        out, offsets, valid = kernel.assemble(
            data,
            tokens.pos,
            tokens.end,
            tokens.kinds,
            tokens.flags,
            first,
            plans,
            self._cell_starts,
            self._op_starts,
            self._codes,
            self._tokens,
            self._ends,
            self._literals,
        )
        bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        return pa.StringArray.from_buffers(len(valid), pa.py_buffer(offsets), pa.py_buffer(out), bitmap)


def _constant(cell: Cell) -> str | None:
    return None if cell == _NULL else b"".join(text for _, _, text in cell).decode()


class Probe:
    """A row with marks for texts, and what became of the marks."""

    def __init__(
        self,
        data: np.ndarray,
        start: int,
        stop: int,
        pos: np.ndarray,
        end: np.ndarray,
        kinds: np.ndarray,
        word: str,
    ) -> None:
        """The row is `data[start:stop]`; its tokens are given. `word` with a token's number is a mark."""
        self._kinds = kinds
        self._marks: dict[int, str] = {}
        """Token to the mark in its place."""
        self._spans: dict[int, tuple[int, int]] = {}
        """Opened object or list to its place in `text`."""
        pieces: list[bytes] = []
        size, position = 0, start
        begun: list[tuple[int, int, int]] = []
        ids: dict[bytes, str] = {}

        def copy(until: int) -> None:
            nonlocal size, position
            while begun and begun[-1][1] <= until:
                token, stop_at, begin = begun.pop()
                self._spans[token] = (begin, size + stop_at - position)
            pieces.append(data[position:until].tobytes())
            size += until - position
            position = until

        for token in range(len(kinds)):
            kind, begin, stop_at = int(kinds[token]), int(pos[token]), int(end[token])
            copy(begin)
            if kind in (kernel.OBJECT, kernel.LIST):
                begun.append((token, stop_at, size))
                continue
            mark = _mark(kind, word.format(token), len(word) * 10_000_000 + token)
            if kind == kernel.ID_TEXT:
                mark = ids.setdefault(data[begin:stop_at].tobytes(), mark or "")
            if mark is None:
                continue
            self._marks[token] = mark
            written = msgspec.json.encode(mark)[1:-1] if kind in _TEXTS else mark.encode()
            pieces.append(written)
            size += len(written)
            position = stop_at
        copy(stop)
        self.text = b"".join(pieces)

    def plan(self, found: Found) -> Plan | None:
        """How rows of this shape become records, or None when a mark is lost or shows up where it cannot be copied."""
        draft = found.draft
        if (
            draft.rejected is not None
            or draft.group is not None
            or found.repaired
            or draft.loss_weight is not None
            or any(message.wrap is not None or message.images is not None for message in draft.messages)
        ):
            return None
        self._unseen = set(self._marks)
        kind, payload = draft.verifier or (None, None)
        texts = {
            "kind": draft.kind,
            "tools": draft.tools,
            "extra": found.extra,
            "verifier.kind": kind,
            "verifier.payload": payload,
            "provenance.form": msgspec.json.encode(draft.form).decode(),
        }
        constants: dict[str, Any] = {}
        counts: dict[str, int] = {}
        look(draft, found.repaired, counts)
        issues = {"turn_issues": draft.issues} if draft.issues else {}
        for name, value in {**draft.metadata, **found.declared, **issues}.items():
            if isinstance(value, str):
                texts[f"metadata.{name}"] = value
            else:
                constants[f"metadata.{name}"] = value
        columns = {column: self._cell(column, text) for column, text in texts.items() if text is not None}
        messages = {
            name: [self._cell(name, getattr(message, name)) for message in draft.messages] for name in HASHED_TEXTS
        }
        if self._unseen or any(code != kernel.PUT_LITERAL for code, _, _ in columns["provenance.form"]):
            return None
        unbroken = {token for cell in messages["content"] for code, token, _ in cell[:-1] if code == kernel.PUT_TEXT}
        weights = [message.weight for message in draft.messages]
        return Plan(found.adapter, counts, columns, constants, messages, weights, tuple(sorted(unbroken)))

    def _cell(self, column: str, text: str | None) -> Cell:
        """The operations that write this text of the probe from the tokens of any row."""
        if text is None:
            return _NULL
        whole = {text_: (kernel.PUT_TEXT, token) for token, text_ in self._marks.items()}
        if column in _JSON_COLUMNS or column == "tools":
            for token, mark in self._marks.items():
                if self._kinds[token] in _TEXTS:
                    whole[msgspec.json.encode(mark).decode()] = (kernel.PUT_RAW, token)
        for token, (begin, stop) in self._spans.items():
            whole[self.text[begin:stop].decode()] = (kernel.PUT_RAW, token)
        operations: list[Operation] = []
        rest = text
        while True:
            places = [(place, -len(known), known) for known in whole if (place := rest.find(known)) >= 0]
            if not places:
                break
            place, _, known = min(places)
            if place:
                operations.append((kernel.PUT_LITERAL, 0, rest[:place].encode()))
            code, token = whole[known]
            operations.append((code, token, b""))
            self._seen(token)
            rest = rest[place + len(known) :]
        if rest or not operations:
            operations.append((kernel.PUT_LITERAL, 0, rest.encode()))
        return tuple(operations)

    def _seen(self, token: int) -> None:
        self._unseen.discard(token)
        if token in self._spans:
            begin, stop = self._spans[token]
            inner = self.text[begin:stop].decode()
            self._unseen -= {other for other in self._unseen if _written(self._marks[other]) in inner}
        elif token in self._marks:
            self._unseen -= {other for other in self._unseen if self._marks[other] == self._marks[token]}


_TEXTS = frozenset(
    (
        kernel.TEXT,
        kernel.ID_TEXT,
        kernel.JSON_OBJECT_TEXT,
        kernel.JSON_LIST_TEXT,
        kernel.JSON_SCALAR_TEXT,
        kernel.CALL_TEXT,
    )
)


def _mark(kind: int, word: str, number: int) -> str | None:
    """What stands for a value: of its kind, and found nowhere else."""
    if kind in (kernel.TEXT, kernel.ID_TEXT):
        return word
    if kind in (kernel.OPAQUE_OBJECT, kernel.JSON_OBJECT_TEXT):
        return f'{{"{word}":0}}'
    if kind == kernel.CALL_TEXT:
        return f'{{"name":"{word}"}}'
    if kind in (kernel.OPAQUE_LIST, kernel.JSON_LIST_TEXT):
        return f'["{word}"]'
    if kind in (kernel.NUMBER, kernel.JSON_SCALAR_TEXT):
        return f"9{number}8"
    return None


def _written(mark: str) -> str:
    return msgspec.json.encode(mark)[1:-1].decode()
