"""Multiple choice: a question, its options and the letter of the right one (AQuA, ARC, MMLU, C-Eval, SAT)."""

from dataclasses import replace

from curator.io.adapters.base import Adapter, BadRow, Draft, Fields, Message, kind_of, object_text, value_of
from curator.io.adapters.shape import TURNS, Shape, json_text, read, restore, shown_options

_LETTERS = ("A", "B", "C", "D")


def _shape(reply: str, right: str, options: str | tuple[str, ...] = "options") -> Shape:
    return Shape(
        ("question",),
        reply,
        options=options,
        check="exact",
        checked={"answer": right},
        tags={"domain": "subject", "original_id": "idx"},
    )


SHAPES: tuple[tuple[frozenset[str], Shape], ...] = (
    (frozenset({"question", "options", "rationale", "correct"}), _shape("rationale", "correct")),
    (frozenset({"question", "options", "Answer"}), _shape("Answer", "Answer")),
    (frozenset({"question", "choices", "answerKey"}), _shape("answerKey", "answerKey", "choices")),
    (frozenset({"question", "choices", "answer"}), _shape("answer", "answer", "choices")),
    (frozenset({"question", "options", "answer"}), _shape("answer", "answer")),
    (frozenset({"question", *_LETTERS, "answer"}), _shape("answer", "answer", _LETTERS)),
    (frozenset({"question", *_LETTERS, "target"}), _shape("target", "target", _LETTERS)),
)


def _shape_of(names: frozenset[str]) -> Shape | None:
    return next((shape for needs, shape in SHAPES if needs <= names), None)


def _convert(fields: Fields) -> Draft:
    shape = _shape_of(frozenset(fields))
    assert shape is not None and shape.options is not None
    if isinstance(shape.options, str):
        kind = kind_of(fields[shape.options])
        if kind not in ("list", "object", "text"):
            raise BadRow(f"wrong type: {shape.options} is {kind}, expected a list of texts")
        if shape.reply == "answer" and kind_of(fields["answer"]) == "number":
            return _numbered(fields, shape, shape.options)
    return read(fields, shape)


def _numbered(fields: Fields, shape: Shape, options: str) -> Draft:
    """The right option by its number from 0, as MMLU has it: the answer is the letter that stands in the question."""
    number = value_of(fields["answer"])
    shown = shown_options(fields, options).split("\n")[1:]
    if not isinstance(number, int) or not 0 <= number < len(shown):
        raise BadRow(f"wrong value: answer is {number}, expected the number of one of {len(shown)} options")
    draft = read(fields, replace(shape, reply=None, check=None))
    letter = shown[number].strip(" (")[:1]
    draft.messages.append(Message("assistant", letter))
    draft.kind = "sft"
    draft.verifier = ("exact", object_text({"answer": json_text(letter)}))
    return draft


ADAPTER = Adapter(
    "choices",
    lambda names: not names & TURNS and _shape_of(names) is not None,
    _convert,
    '{"question": "1 + 1?", "options": ["A) 1", "B) 2"], "Answer": "B"}',
    restore=restore,
)
