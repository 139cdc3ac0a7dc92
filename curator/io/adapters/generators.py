"""Outputs of a named model: alpaca_eval's instruction, output, generator, dataset."""

from curator.io.adapters.base import Adapter, Draft, Fields
from curator.io.adapters.shape import TURNS, Shape, read, restore

_SHAPE = Shape(("instruction", "input"), "output", system="system", tags={"teacher": "generator"})


def _convert(fields: Fields) -> Draft:
    return read(fields, _SHAPE)


ADAPTER = Adapter(
    "generators",
    lambda names: {"instruction", "output", "generator"} <= names and not names & TURNS,
    _convert,
    '{"instruction": "1 + 1?", "output": "2", "generator": "model-7b"}',
    restore=restore,
)
