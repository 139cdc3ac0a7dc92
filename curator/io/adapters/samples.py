"""Several sampled answers to one question: evaluation logs (question, gt, code[], score[]), OpenR1 generations."""

from curator.io.adapters.base import Adapter, Draft, Fields, kind_of
from curator.io.adapters.shape import TURNS, Shape, holds_replies, read_each, restore

_ASKS = ("question", "problem", "prompt", "instruction", "query")
_LISTS = ("code", "generations", "samples", "completions", "responses", "outputs")
_ANSWERS = ("gt", "answer", "expected_answer", "ground_truth", "final_answer", "gold")
_BESIDE = (
    "pred",
    "report",
    "score",
    "pred_score",
    "response",
    "predictions",
    "rewards",
    "finish_reasons",
    "is_reasoning_complete",
    "correctness",
    "correctness_math_verify",
    "correctness_llama",
    "is_correct",
)
_JUDGED = frozenset({"scores", "ranks", "rank", "models", "ratings"})


def _shape(names: frozenset[str]) -> Shape | None:
    ask = next((name for name in _ASKS if name in names), None)
    reply = next((name for name in _LISTS if name in names), None)
    if ask is None or reply is None:
        return None
    answer = next((name for name in _ANSWERS if name in names), None)
    return Shape(
        (ask,),
        reply,
        system="system",
        check=None if answer is None else "math",
        checked={} if answer is None else {"answer": answer},
        tags={"original_id": "idx", "difficulty": "level"},
    )


def _fits(fields: Fields) -> bool:
    shape = _shape(frozenset(fields))
    raw = None if shape is None else fields[shape.reply or ""]
    return raw is not None and kind_of(raw) == "list" and holds_replies(raw)


def _convert(fields: Fields) -> Draft | list[Draft]:
    shape = _shape(frozenset(fields))
    assert shape is not None
    return read_each(fields, shape, tuple(name for name in _BESIDE if name != shape.reply))


ADAPTER = Adapter(
    "samples",
    lambda names: not names & (TURNS | _JUDGED) and _shape(names) is not None,
    _convert,
    '{"question": "1 + 1?", "gt": "2", "code": ["It is 2."]}',
    fits=_fits,
    restore=restore,
)
