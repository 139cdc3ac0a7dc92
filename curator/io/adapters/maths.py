"""Problems with a final answer: MATH (problem, level, type, solution), GSM8K (`#### 42`), AIME, SVAMP, OpenMath, ..."""

import re

from curator.io.adapters.base import Adapter, Draft, Fields, kind_of, text_of
from curator.io.adapters.shape import TURNS, Shape, holds_replies, read_each, restore

_TAGS = {"difficulty": "level", "domain": "type", "original_id": "idx"}


def boxed(text: str) -> str | None:
    """What stands in the last `\\boxed{...}`, braces paired; None when there is none that ends."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    begin = start + len("\\boxed{")
    depth = 1
    for index in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[begin:index]
    return None


_HASHES = re.compile(r"(?:^|\n)####(?!#) ?([^\n]*\S)\s*\Z")


def behind_hashes(text: str) -> str | None:
    """What stands behind `####` in the last line, as GSM8K writes it."""
    match = _HASHES.search(text)
    return match[1] if match else None


def _final(text: str) -> str | None:
    found = behind_hashes(text)
    return boxed(text) if found is None else found


def _shape(ask: str, reply: str, answer: str | None = None) -> Shape:
    return Shape(
        (ask,),
        reply,
        check="math",
        checked={} if answer is None else {"answer": answer},
        final=_final,
        tags=_TAGS if ask == "problem" else {**_TAGS, "domain": "subject"},
    )


_ASKS = ("problem", "question")
_REPLIES = ("solution", "generated_solution", "answer")
_ANSWERS = ("answer", "expected_answer", "final_answer", "gt", "ground_truth", "golden_answer")

SHAPES: tuple[tuple[frozenset[str], Shape], ...] = (
    (
        frozenset({"Body", "Question", "Answer"}),
        Shape(
            ("Body", "Question"),
            "Answer",
            check="math",
            checked={"answer": "Answer"},
            tags={"task_type": "Type", "original_id": "ID"},
        ),
    ),
    *(
        (
            frozenset({"context", ask, "solution", "final_answer"}),
            Shape(
                ("context", ask),
                "solution",
                check="math",
                checked={"answer": "final_answer"},
                tags={"domain": "subfield"},
            ),
        )
        for ask in _ASKS
    ),
    *(
        (frozenset({ask, reply, answer}), _shape(ask, reply, answer))
        for ask in _ASKS
        for reply in _REPLIES[:2]
        for answer in _ANSWERS
    ),
    (frozenset({"problem", "answer"}), _shape("problem", "answer", "answer")),
    (frozenset({"instruction", "output", "golden_answer"}), _shape("instruction", "output", "golden_answer")),
    *((frozenset({ask, reply}), _shape(ask, reply)) for ask in _ASKS for reply in _REPLIES),
)
"""The first whose names a row has. A solution with a final answer beside it goes before one that holds it."""

_OTHERS = TURNS | {"options", "choices", "reasoning", "thinking", "generations", "code", "input"}


def shape_of(names: frozenset[str]) -> Shape | None:
    return next((shape for needs, shape in SHAPES if needs <= names), None)


def _fits(fields: Fields) -> bool:
    """A question and an answer alone are a plain pair, unless the answer ends in `#### 42` or is a number."""
    shape = shape_of(frozenset(fields))
    if shape is None or not holds_replies(fields[shape.reply or ""]):
        return False
    if shape.reply != "answer" or shape.ask != ("question",):
        return True
    kind = kind_of(fields["answer"])
    return kind == "number" or kind == "text" and behind_hashes(text_of(fields, "answer", False) or "") is not None


def _convert(fields: Fields) -> Draft | list[Draft]:
    shape = shape_of(frozenset(fields))
    assert shape is not None
    if shape.reply == "answer" and kind_of(fields["answer"]) == "number":
        shape = Shape(shape.ask, "answer", check="math", checked={"answer": "answer"}, tags=shape.tags)
    return read_each(fields, shape)


ADAPTER = Adapter(
    "maths",
    lambda names: not names & _OTHERS and shape_of(names) is not None,
    _convert,
    '{"problem": "1 + 1?", "solution": "Count: 1, 2.", "answer": "2"}',
    fits=_fits,
    restore=restore,
)
