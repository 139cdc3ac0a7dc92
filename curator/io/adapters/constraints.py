"""IFEval: a prompt whose answer must keep instructions (key, prompt, instruction_id_list, kwargs), or a run over it."""

from curator.io.adapters.base import Adapter, Draft, Fields
from curator.io.adapters.shape import TURNS, Shape, read, restore

_PAYLOAD = ("instruction_id_list", "kwargs")


def _convert(fields: Fields) -> Draft:
    shape = Shape(
        ("prompt",),
        next((name for name in ("response", "completion", "output") if name in fields), None),
        check="format",
        checked={name: name for name in _PAYLOAD},
        tags={"original_id": "key", "teacher": "model"},
    )
    return read(fields, shape)


ADAPTER = Adapter(
    "constraints",
    lambda names: {"prompt", "instruction_id_list"} <= names and not names & TURNS,
    _convert,
    '{"prompt": "Say hi in capitals.", "instruction_id_list": ["change_case:english_capital"], "response": "HI"}',
    restore=restore,
)
