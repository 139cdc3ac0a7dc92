"""Raw rows to records: one adapter a file, chosen row by row from the names of the fields."""

from curator.io.adapters import (
    alpaca,
    answers,
    apis,
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
from curator.io.adapters.base import Adapter

_NARROW = (
    tokens,
    kto,
    message_pairs,
    rewards,
    logs,
    toolbench,
    moss,
    glaive,
    calls,
    ranked,
    samples,
    constraints,
    choices,
)
"""Asked first: they know a row by names or values that no wider family looks for."""
_TASKS = (code_tests, apis, reasoned, maths, generators, seeds, examples, labelled, answers, turns, dialogues, chats)
_WIDE = (openai, sharegpt, preference, questions, alpaca, pairs)
_LAST = (prompts, texts, transcripts)
"""Asked when no family has found an answer."""

ADAPTERS: dict[str, Adapter] = {module.ADAPTER.name: module.ADAPTER for module in (*_NARROW, *_TASKS, *_WIDE, *_LAST)}
"""By name, in the order in which they are asked; the first that takes the fields has the row. Transcripts come last:
many alpaca files carry the rendered prompt in `text` beside the fields."""
