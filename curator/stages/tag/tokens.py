"""tag.tokens: how many tokens a record has under a tokenizer and chat template, and how many of them carry loss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from curator.chat.tokenizer import ChatTokenizer
from curator.schema.record import score_array, score_type
from curator.schema.selectors import select_text
from curator.stages.base import RowFunction, RowStage

_PLAIN = {"num_prompt_tokens": "prompt", "num_response_tokens": "response", "num_reasoning_tokens": "reasoning"}
_TEMPLATE = ("num_tokens", "num_supervised_tokens")


@dataclass(frozen=True)
class Tokens(RowStage):
    """Token counts as scores: the text of prompt, response and reasoning alone, and the whole rendered conversation.

    `num_tokens` and `num_supervised_tokens` come from the chat template, as training will see the record; a record
    that cannot be rendered has no value there and says why in `status`.
    """

    name: ClassVar[str] = "tag.tokens"
    costly: ClassVar[bool] = True

    tokenizer: str
    """A model folder with tokenizer and chat template."""

    def settings(self) -> dict[str, Any]:
        # The tokenizer's content decides, not where it lies.
        return {"tokenizer": self._chat.digest}

    @cached_property
    def _chat(self) -> ChatTokenizer:
        return ChatTokenizer.load(Path(self.tokenizer))

    def reads(self, schema: pa.Schema) -> Sequence[str]:
        return ["messages", "tools"]

    def writes(self, schema: pa.Schema) -> Mapping[str, pa.DataType]:
        return {f"scores.{name}": score_type(pa.int64()) for name in (*_PLAIN, *_TEMPLATE)}

    def prepare(self, schema: pa.Schema) -> None:
        self._chat  # noqa: B018  (a folder without tokenizer or template stops here, before any work)

    def open(self) -> RowFunction:
        chat = self._chat
        by = f"tokens@{self.version}:{chat.digest[:12]}"

        def measure(batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
            columns = {}
            for name, selector in _PLAIN.items():
                counts = chat.count(select_text(batch, selector))
                columns[f"scores.{name}"] = score_array(pa.array(counts.astype(np.int64)), by)
            # A message of weight 0 carries no loss; the record's own weight scales loss and is no matter of counts.
            encoded = chat.encode_batch(batch.select(["messages", "tools"]))
            failed = np.array([status not in ("ok", "no_supervised_tokens") for status in encoded.status])
            status = pa.array(encoded.status, pa.string())
            lengths = np.diff(encoded.offsets)
            columns["scores.num_tokens"] = score_array(pa.array(lengths, pa.int64(), mask=failed), by, status)
            supervised = encoded.supervised.astype(np.int64)
            columns["scores.num_supervised_tokens"] = score_array(
                pa.array(supervised, pa.int64(), mask=failed), by, status
            )
            return columns

        return measure

    def __getstate__(self) -> dict[str, Any]:
        # A loaded tokenizer does not travel to workers; each loads its own.
        return {"tokenizer": self.tokenizer}
