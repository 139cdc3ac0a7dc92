"""Answers whose reasoning stands in a field of its own: s1K trajectories, Question/Complex_CoT/Response, ..."""

from curator.io.adapters.base import OF_ROW, Adapter, Draft, Fields, kind_of
from curator.io.adapters.shape import TURNS, Shape, read, restore

_ASKS = ("question", "problem", "prompt", "instruction", "query", "Question")
_TRACES = ("reasoning", "reasoning_content", "thinking", "thought", "chain_of_thought", "cot", "Complex_CoT")
_REPLIES = ("response", "answer", "output", "completion", "solution", "Response")
_SUFFIXES = ("_thinking_trajectory", "_attempt")


def _writers(names: frozenset[str]) -> list[str]:
    """Who has both a trajectory and an attempt, in the order of names."""
    ends = [name.removesuffix(_SUFFIXES[0]) for name in names if name.endswith(_SUFFIXES[0])]
    return sorted(name for name in ends if f"{name}{_SUFFIXES[1]}" in names)


def _shapes(names: frozenset[str]) -> list[Shape]:
    ask = next((name for name in _ASKS if name in names), None)
    if ask is None:
        return []
    asks = (ask, "input") if ask == "instruction" and "input" in names else (ask,)
    if writers := _writers(names):
        return [Shape(asks, f"{name}{_SUFFIXES[1]}", reasoning=f"{name}{_SUFFIXES[0]}") for name in writers]
    trace = next((name for name in _TRACES if name in names), None)
    reply = next((name for name in _REPLIES if name in names), None)
    if trace is None or reply is None:
        return []
    return [Shape(asks, reply, reasoning=trace, system="system", tags={"teacher": "model", "original_id": "idx"})]


def _fits(fields: Fields) -> bool:
    """A trace or an answer that is no text is left to the families that know a row by its question and answer."""
    names = [name for shape in _shapes(frozenset(fields)) for name in (shape.reply, shape.reasoning)]
    return all(kind_of(fields[name]) == "text" for name in names if name is not None)


def _convert(fields: Fields) -> Draft | list[Draft]:
    shapes = _shapes(frozenset(fields))
    if len(shapes) == 1:
        return read(fields, shapes[0])
    drafts = []
    for shape in shapes:
        # Each writer's record holds its own attempt; the others' are in the records beside it, and in no extra.
        draft = read(fields, shape)
        others = [name for other in shapes if other is not shape for name in (other.reply, other.reasoning)]
        draft.used = (*draft.used, *(name for name in others if name is not None))
        draft.group = OF_ROW
        drafts.append(draft)
    return drafts


ADAPTER = Adapter(
    "reasoned",
    lambda names: not names & TURNS and bool(_shapes(names)),
    _convert,
    '{"question": "1 + 1?", "reasoning": "One and one.", "answer": "2"}',
    fits=_fits,
    restore=restore,
)
