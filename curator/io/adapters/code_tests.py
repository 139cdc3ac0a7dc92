"""Code tasks with tests: HumanEval (prompt, canonical_solution, test), MBPP (text, code, test_list), APPS."""

from dataclasses import replace

from curator.io.adapters.base import Adapter, Draft, Fields, kind_of
from curator.io.adapters.shape import TURNS, Shape, read_each, restore

_ASKS = ("prompt", "text", "question", "problem", "instruction", "description", "question_content")
_REPLIES = ("canonical_solution", "solution", "code", "solutions", "completion", "response", "output", "answer")
_SURE = ("test_list", "test_cases", "unit_tests", "input_output", "public_test_cases", "private_test_cases", "tests")
"""A field of such a name holds tests; `test` does only beside an entry point or a canonical solution."""
_CODE = {"entry_point", "canonical_solution", "test_info", "code"}
_BESIDE = ("test_setup_code", "test_imports", "challenge_test_list", "entry_point", "starter_code", "fn_name")


def _tests(names: frozenset[str]) -> tuple[str, ...]:
    found = tuple(name for name in _SURE if name in names)
    return ("test", *found) if "test" in names and names & _CODE else found


def _shape(names: frozenset[str]) -> Shape | None:
    tests = _tests(names)
    ask = next((name for name in _ASKS if name in names), None)
    if not tests or ask is None:
        return None
    return Shape(
        (ask, "input") if ask == "instruction" and "input" in names else (ask,),
        next((name for name in _REPLIES if name in names), None),
        check="tests",
        checked={name: name for name in (*tests, *_BESIDE) if name in names},
        tags={"original_id": "task_id", "difficulty": "difficulty"},
    )


def _convert(fields: Fields) -> Draft | list[Draft]:
    shape = _shape(frozenset(fields))
    assert shape is not None
    if shape.reply == "solutions" and kind_of(fields["solutions"]) == "text":
        # APPS keeps a list as JSON inside a text, which is no answer: the row is a task, and the text stays in extra.
        shape = replace(shape, reply=None)
    return read_each(fields, shape)


ADAPTER = Adapter(
    "code_tests",
    lambda names: not names & TURNS and _shape(names) is not None,
    _convert,
    '{"text": "Write inc(n).", "code": "def inc(n): return n + 1", "test_list": ["assert inc(1) == 2"]}',
    restore=restore,
)
