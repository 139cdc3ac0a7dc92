"""Raw rows to records: one adapter a file, chosen row by row from the names of the fields."""

from functools import lru_cache

import msgspec

from curator.io.adapters import (
    alpaca,
    answers,
    apis,
    bfcl,
    calls,
    chats,
    choices,
    code_tests,
    constraints,
    dialogues,
    examples,
    generators,
    glaive,
    kto,
    labelled,
    logs,
    maths,
    message_pairs,
    moss,
    oasst,
    openai,
    pairs,
    preference,
    prompts,
    questions,
    ranked,
    reasoned,
    rewards,
    samples,
    seeds,
    sharegpt,
    texts,
    tokens,
    toolbench,
    transcripts,
    turns,
)
from curator.io.adapters.base import Adapter, BadRow, Fields

_NARROW = (
    *(oasst.TREES, oasst.TABLES, bfcl.ADAPTER, tokens.ADAPTER, kto.ADAPTER, message_pairs.ADAPTER, rewards.ADAPTER),
    *(logs.ADAPTER, toolbench.ADAPTER, moss.ADAPTER, glaive.ADAPTER, calls.ADAPTER, ranked.ADAPTER, samples.ADAPTER),
    *(constraints.ADAPTER, choices.ADAPTER),
)
"""Asked first: they know a row by names or values that no wider family looks for."""
_TASKS = (
    *(code_tests.ADAPTER, apis.ADAPTER, reasoned.ADAPTER, maths.ADAPTER, generators.ADAPTER, seeds.ADAPTER),
    *(examples.ADAPTER, labelled.ADAPTER, answers.ADAPTER, turns.ADAPTER, dialogues.ADAPTER, chats.ADAPTER),
)
_WIDE = (openai.ADAPTER, sharegpt.ADAPTER, preference.ADAPTER, questions.ADAPTER, alpaca.ADAPTER, pairs.ADAPTER)
_LAST = (prompts.ADAPTER, texts.ADAPTER, transcripts.ADAPTER)
"""Asked when no family has found an answer."""

ADAPTERS: dict[str, Adapter] = {adapter.name: adapter for adapter in (*_NARROW, *_TASKS, *_WIDE, *_LAST)}
"""By name, in the order in which they are asked; the first that takes the fields has the row. Transcripts come last:
many alpaca files carry the rendered prompt in `text` beside the fields."""

UNCLEAR = "ambiguous"
"""The reason of a row that two families claim."""

_WHOLE = {"openai", "sharegpt", "preference", "alpaca", "pairs"}
"""Families whose fields are a whole example beyond doubt. One text is not: many files carry the prompt rendered in
`text` beside the fields it was made of, or a lone `prompt` or `question` beside the turns."""


def rival(adapter: Adapter, used: frozenset[str], left: Fields) -> str | None:
    """Which two readings a row has, or None: what `adapter` leaves of it is a whole example of some family, too.

    `used` are the fields that the adapter found a place for, `left` the others that are not null. So `messages`
    beside `conversations` is ambiguous, and so is `messages` beside `instruction` and `output`; fields that both
    readings share are not, nor are those that cannot be read so.
    """
    names = frozenset(left)
    for other in _takers(names):
        if _converts(other, left):
            return f"{adapter.name} by {_needed(adapter, used)}, or {other.name} by {_needed(other, names)}"
    return None


@lru_cache(4096)
def _takers(names: frozenset[str]) -> tuple[Adapter, ...]:
    return tuple(ADAPTERS[name] for name in sorted(_WHOLE) if names and ADAPTERS[name].takes(names))


def _converts(adapter: Adapter, fields: Fields) -> bool:
    try:
        adapter.convert(fields)
    except (BadRow, msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _needed(adapter: Adapter, names: frozenset[str]) -> str:
    """The fields without which the family would not take the row."""
    return ", ".join(sorted(name for name in names if not adapter.takes(names - {name}))) or "its fields"
