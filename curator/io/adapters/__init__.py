"""Raw rows to records: one adapter a file, chosen row by row from the names of the fields."""

from curator.io.adapters import (
    alpaca,
    answers,
    apis,
    bfcl,
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
from curator.io.adapters.base import Adapter

_NARROW = (
    *(oasst.TREES, oasst.TABLES, bfcl.ADAPTER, tokens.ADAPTER, kto.ADAPTER, message_pairs.ADAPTER, rewards.ADAPTER),
    *(logs.ADAPTER, toolbench.ADAPTER, moss.ADAPTER, glaive.ADAPTER, ranked.ADAPTER, samples.ADAPTER),
    *(constraints.ADAPTER, choices.ADAPTER),
)
"""Asked first: they know a row by names or values that no wider family looks for."""
_TASKS = (
    *(code_tests.ADAPTER, apis.ADAPTER, reasoned.ADAPTER, maths.ADAPTER, generators.ADAPTER, seeds.ADAPTER),
    *(examples.ADAPTER, labelled.ADAPTER, answers.ADAPTER, turns.ADAPTER, dialogues.ADAPTER),
)
_WIDE = (openai.ADAPTER, sharegpt.ADAPTER, preference.ADAPTER, questions.ADAPTER, alpaca.ADAPTER, pairs.ADAPTER)
_LAST = (prompts.ADAPTER, texts.ADAPTER, transcripts.ADAPTER)
"""Asked when no family has found an answer."""

ADAPTERS: dict[str, Adapter] = {adapter.name: adapter for adapter in (*_NARROW, *_TASKS, *_WIDE, *_LAST)}
"""By name, in the order in which they are asked; the first that takes the fields has the row. Transcripts come last:
many alpaca files carry the rendered prompt in `text` beside the fields."""
