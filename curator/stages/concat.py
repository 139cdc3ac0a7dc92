"""concat: several folders as one; the schema is the union of theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from curator.stages.base import RowFunction, RowStage


@dataclass(frozen=True)
class Concat(RowStage):
    """Changes nothing: reading several folders and writing one is the work."""

    name: ClassVar[str] = "concat"

    def reads(self, schema: pa.Schema) -> Sequence[str]:
        return []

    def writes(self, schema: pa.Schema) -> Mapping[str, pa.DataType]:
        return {}

    def open(self) -> RowFunction:
        return lambda batch: {}
