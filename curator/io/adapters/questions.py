"""One text in, one text out under other names: query/response, inputs/targets, Dolly, Spider, TruthfulQA, ..."""

from dataclasses import replace

from curator.io.adapters.base import Adapter, Draft, Fields, kind_of
from curator.io.adapters.shape import TURNS, Shape, read, restore

_TAGS = {"original_id": "idx", "teacher": "model"}

SHAPES: tuple[tuple[frozenset[str], Shape], ...] = (
    (
        frozenset({"instruction", "context", "response"}),
        Shape(("instruction", "context"), "response", tags={"task_type": "category"}),
    ),
    (frozenset({"context", "question", "answer"}), Shape(("context", "question"), "answer")),
    (
        frozenset({"system_prompt", "question", "response"}),
        Shape(("question",), "response", system="system_prompt"),
    ),
    (frozenset({"question", "std_answer"}), Shape(("question",), "std_answer", tags={"task_type": "class"})),
    (frozenset({"Question", "Best Answer"}), Shape(("Question",), "Best Answer", tags={"domain": "Category"})),
    (
        frozenset({"prompt", "completion", "final_label"}),
        Shape(("prompt",), "completion", tags={"task_type": "type", "original_id": "id"}),
    ),
    (frozenset({"db_id", "question", "SQL"}), Shape(("question",), "SQL", tags={"domain": "db_id"})),
    (frozenset({"db_id", "question", "query"}), Shape(("question",), "query", tags={"domain": "db_id"})),
    *(
        (frozenset(pair), Shape(pair[:1], pair[1], system="system", tags=_TAGS))
        for pair in (
            ("question", "answer_text"),
            ("query", "response"),
            ("query", "answer"),
            ("query", "output"),
            ("inputs", "targets"),
            ("Question", "Answer"),
            ("Question", "Response"),
            ("Instruction", "Response"),
            ("Instruction", "Output"),
            ("Prompt", "Response"),
            ("Prompt", "Completion"),
            ("INSTRUCTION", "RESPONSE"),
            ("user", "assistant"),
            ("human", "assistant"),
            ("Human", "Assistant"),
            ("prompt", "output"),
            ("prompt", "answer"),
            ("question", "output"),
            ("question", "completion"),
            ("instruction", "answer"),
            ("instruction", "completion"),
            ("input", "target"),
            ("input", "output"),
        )
    ),
)
_JOINED = ("query", "prompt", "question", "instruction")
"""Questions that an `input` beside them belongs to, as in alpaca rows."""
_OTHERS = TURNS | {"label", "options", "choices", "instances"}


_PLAIN = (
    frozenset({"instruction", "output"}),
    frozenset({"instruction", "response"}),
    frozenset({"prompt", "completion"}),
    frozenset({"prompt", "response"}),
    frozenset({"question", "answer"}),
    frozenset({"question", "response"}),
)
"""Rows that alpaca and pairs read: only a table that names more than these two fields goes before them."""


def _shape_of(names: frozenset[str]) -> Shape | None:
    least = 3 if any(plain <= names for plain in _PLAIN) else 2
    return next((shape for needs, shape in SHAPES if len(needs) >= least and needs <= names), None)


def _convert(fields: Fields) -> Draft:
    shape = _shape_of(frozenset(fields))
    assert shape is not None
    if shape.ask[0] in _JOINED and "input" in fields and kind_of(fields["input"]) == "text":
        shape = replace(shape, ask=(*shape.ask, "input"))
    return read(fields, shape)


ADAPTER = Adapter(
    "questions",
    lambda names: not names & _OTHERS and _shape_of(names) is not None,
    _convert,
    '{"query": "1 + 1?", "response": "2"}',
    restore=restore,
)
