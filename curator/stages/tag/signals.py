"""tag.signals: what can be read off a record without a model: counts, code, mathematics, tools, traces, refusals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator.schema.record import column_array, score_array, score_type
from curator.schema.selectors import select_text
from curator.stages.base import RowFunction, RowStage

# Patterns are RE2 (linear time). They look for marks that writers use, not for topics: recall on unmarked code and
# formulas is low by design; classifiers do the rest.
_CODE = "|".join(
    [
        r"```",
        r"(?m:^\s*def \w+\()",
        r"(?m:^\s*class \w+[(:])",
        r"(?m:^\s*(?:import \w+|from \w+ import ))",
        r"(?m:^\s*#include ?<)",
        r"(?m:^\s*public (?:static |class ))",
        r"(?m:^\s*(?:function \w*\(|const \w+ =))",
        r"(?m:^\s*SELECT .+ FROM )",
        r"(?m:^\s*(?:<\?php|#!/))",
    ]
)
_MATH = "|".join(
    [
        r"\\\[|\\\(|\$\$|\\frac|\\sqrt|\\boxed|\\begin\{(?:equation|align)",
        r"(?:\d+(?:\.\d+)?\s*[-+*/×÷^]\s*)+\d+(?:\.\d+)?\s*=\s*-?\d",
        r"<<[^<>]+=[^<>]+>>",
    ]
)
_CANNOT = r"i(?: can(?:no|['’])t| cannot|(?: a|['’]?)m (?:not able|unable) to| won['’]?t| must (?:decline|refuse))"
_APOLOGIES = [
    rf"(?:i(?: a|['’]?)m )?(?:really |very |so )?sorry[,.]? (?:but|{_CANNOT})",
    rf"i apologi[sz]e[,.]? (?:but|{_CANNOT})",
    rf"(?:unfortunately,? )?{_CANNOT}",
    rf"as an ai(?: language model| assistant)?,? {_CANNOT}",
]
_REFUSAL = rf"(?i)^\W*(?:{'|'.join(_APOLOGIES)})"
_WORDS = r"[\p{L}\p{N}]+"

_COUNTS = {
    "num_turns": "messages of any role",
    "num_prompt_chars": "characters in the user turns",
    "num_response_chars": "characters in the assistant turns",
    "num_prompt_words": "runs of letters and digits in the user turns",
    "num_response_words": "runs of letters and digits in the assistant turns",
}
_FLAGS = {
    "has_code": "a code fence or a line that opens like source code",
    "has_math": "LaTeX or a worked calculation",
    "has_tool_use": "a tool call or a tool result",
    "has_trace": "a reasoning trace",
    "is_refusal": "the last answer opens with a refusal (English)",
}


@dataclass(frozen=True)
class Signals(RowStage):
    """Counts (integers) and flags (true or false) as scores; fills `metadata.reasoning_trace` where it is null.

    A record without an assistant turn has no response figures and no refusal: their status is `no_response`.
    """

    name: ClassVar[str] = "tag.signals"

    def reads(self, schema: pa.Schema) -> Sequence[str]:
        return ["messages", "metadata.reasoning_trace"]

    def writes(self, schema: pa.Schema) -> Mapping[str, pa.DataType]:
        return {
            **{f"scores.{name}": score_type(pa.int64()) for name in _COUNTS},
            **{f"scores.{name}": score_type(pa.bool_()) for name in _FLAGS},
            "metadata.reasoning_trace": pa.bool_(),
        }

    def open(self) -> RowFunction:
        by = f"signals@{self.version}"

        def measure(batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
            prompt, response = select_text(batch, "prompt"), select_text(batch, "response")
            answer, both = select_text(batch, "final_answer"), select_text(batch, "turns")
            reasoning = select_text(batch, "reasoning")
            has_response = _any_message(batch, "assistant")
            has_trace = pc.or_(
                pc.greater(pc.binary_length(reasoning), 0),
                pc.match_substring_regex(response, r"<think>|<Thought>|<\|begin_of_thought\|>"),
            )
            tools = pc.or_(
                _any_message(batch, "tool"), pc.greater(pc.binary_length(select_text(batch, "tool_calls")), 0)
            )
            values = {
                "num_turns": pc.fill_null(pc.list_value_length(batch.column("messages")), 0),
                "num_prompt_chars": pc.utf8_length(prompt),
                "num_response_chars": pc.utf8_length(response),
                "num_prompt_words": pc.count_substring_regex(prompt, _WORDS),
                "num_response_words": pc.count_substring_regex(response, _WORDS),
                "has_code": pc.match_substring_regex(both, _CODE),
                "has_math": pc.match_substring_regex(both, _MATH),
                "has_tool_use": tools,
                "has_trace": has_trace,
                "is_refusal": pc.match_substring_regex(answer, _REFUSAL),
            }
            status = pc.if_else(has_response, "ok", "no_response")
            columns = {}
            for name, array in values.items():
                value_type = pa.int64() if name in _COUNTS else pa.bool_()
                if name in ("num_response_chars", "num_response_words", "is_refusal"):
                    measured = pc.if_else(has_response, array, pa.scalar(None, array.type))
                    columns[f"scores.{name}"] = score_array(measured, by, status, value_type)
                else:
                    columns[f"scores.{name}"] = score_array(array, by, value_type=value_type)
            columns["metadata.reasoning_trace"] = pc.coalesce(
                column_array(batch, "metadata.reasoning_trace"), has_trace
            )
            return columns

        return measure


def _any_message(batch: pa.RecordBatch, role: str) -> pa.BooleanArray:
    """Whether each record has a message of this role."""
    messages = batch.column("messages")
    parents = pc.list_parent_indices(messages).to_numpy()
    matches = pc.equal(messages.flatten().field("role"), role).to_numpy(zero_copy_only=False)
    found = np.zeros(len(messages), dtype=bool)
    found[parents[matches]] = True
    return pa.array(found)
