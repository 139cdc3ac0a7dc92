"""Selectors: one address language for the text in a record, the same in every stage."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator.errors import UsageError
from curator.schema.check import did_you_mean

_FIELD = "\x1f"
_TURN = "\x1e"
_MARK = "\x1b"
_PARAGRAPH = "\n\n"


def _flat(messages: pa.ListArray) -> tuple[pa.StructArray, np.ndarray]:
    """The messages of a batch one after the other, and where each row's begin: int64 [num_rows + 1]."""
    offsets = messages.offsets.to_numpy().astype(np.int64)
    if messages.null_count:
        # A null list may still have a non-empty range behind it.
        lengths = np.where(messages.is_null().to_numpy(zero_copy_only=False), 0, np.diff(offsets))
        return messages.flatten(), np.concatenate([[0], np.cumsum(lengths)])
    return messages.values.slice(offsets[0], offsets[-1] - offsets[0]), offsets - offsets[0]


def _join(texts: pa.StringArray, offsets: np.ndarray, keep: np.ndarray, separator: str) -> pa.StringArray:
    """Texts where `keep`, joined row by row; rows with none are empty text."""
    kept_before = np.concatenate([[0], np.cumsum(keep)])
    lists = pa.ListArray.from_arrays(pa.array(kept_before[offsets].astype(np.int32)), texts.filter(pa.array(keep)))
    return pc.binary_join(lists, separator)


def _mask(messages: pa.StructArray, roles: Sequence[str], field: str = "content") -> np.ndarray:
    has_role = pc.is_in(messages.field("role"), value_set=pa.array(roles))
    return pc.and_(has_role, pc.is_valid(messages.field(field))).to_numpy(zero_copy_only=False)


def _content(roles: Sequence[str]) -> Callable[[pa.RecordBatch], pa.StringArray]:
    def select(batch: pa.RecordBatch) -> pa.StringArray:
        messages, offsets = _flat(batch.column("messages"))
        return _join(messages.field("content"), offsets, _mask(messages, roles), _PARAGRAPH)

    return select


def _last(role: str) -> Callable[[pa.RecordBatch], pa.StringArray]:
    def select(batch: pa.RecordBatch) -> pa.StringArray:
        messages, offsets = _flat(batch.column("messages"))
        matches = np.flatnonzero(_mask(messages, [role]))
        # The last match before each row's end, if it is not before the row's begin.
        last = np.searchsorted(matches, offsets[1:]) - 1
        keep = np.zeros(len(messages), dtype=bool)
        valid = last >= 0
        places = matches[last[valid]]
        keep[places[places >= offsets[:-1][valid]]] = True
        return _join(messages.field("content"), offsets, keep, _PARAGRAPH)

    return select


def _every(field: str) -> Callable[[pa.RecordBatch], pa.StringArray]:
    def select(batch: pa.RecordBatch) -> pa.StringArray:
        messages, offsets = _flat(batch.column("messages"))
        texts = messages.field(field)
        return _join(texts, offsets, pc.is_valid(texts).to_numpy(zero_copy_only=False), _PARAGRAPH)

    return select


def _conversation_of(lists: pa.ListArray) -> pa.StringArray:
    messages, offsets = _flat(lists)
    parts = [_escaped(messages.field(name)) for name in ("role", "name", "reasoning", "content", "tool_calls")]
    turns = pc.binary_join_element_wise(*parts, _FIELD, null_handling="replace", null_replacement="")
    return _join(turns, offsets, np.ones(len(turns), dtype=bool), _TURN)


def _escaped(texts: pa.StringArray) -> pa.StringArray:
    """Texts in which the separators are marked, so that different conversations never read the same."""
    if not pc.any(pc.match_substring_regex(texts, f"[{_MARK}{_TURN}{_FIELD}]")).as_py():
        return texts
    return pc.replace_substring_regex(texts, f"([{_MARK}{_TURN}{_FIELD}])", rf"{_MARK}\1")


def _conversation(batch: pa.RecordBatch) -> pa.StringArray:
    return pc.binary_join_element_wise(
        _conversation_of(batch.column("messages")),
        _escaped(pc.fill_null(batch.column("tools"), "")),
        _conversation_of(batch.column("rejected")),
        _TURN + _TURN,
    )


SELECTORS: dict[str, tuple[Callable[[pa.RecordBatch], pa.StringArray], tuple[str, ...], str]] = {
    "prompt": (_content(["user"]), ("messages",), "all user turns"),
    "last_user": (_last("user"), ("messages",), "the last user turn"),
    "response": (_content(["assistant"]), ("messages",), "all assistant turns, without reasoning"),
    "final_answer": (_last("assistant"), ("messages",), "the last assistant turn, without reasoning"),
    "reasoning": (_every("reasoning"), ("messages",), "all reasoning traces"),
    "system": (_content(["system"]), ("messages",), "the system text"),
    "tool_calls": (_every("tool_calls"), ("messages",), "all tool calls as JSON text"),
    "turns": (_content(["user", "assistant"]), ("messages",), "user and assistant turns in order"),
    "conversation": (
        _conversation,
        ("messages", "tools", "rejected"),
        "everything: roles, names, reasoning, content, tool calls, tool schemas, rejected turns",
    ),
}


def check_selector(name: str, where: str) -> None:
    """Raise UsageError when there is no such selector."""
    if name not in SELECTORS:
        raise UsageError(f"{where}: no selector {name!r}", hint=did_you_mean(name, SELECTORS))


def selector_columns(name: str) -> tuple[str, ...]:
    """The record columns that a selector reads."""
    return SELECTORS[name][1]


def select_text(batch: pa.RecordBatch, name: str) -> pa.StringArray:
    """The selected text of every row, string [num_rows]; turns joined by a blank line, nothing found = empty text."""
    return SELECTORS[name][0](batch)
