"""Messages as columns hold them become messages as chat templates expect them."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from curator.schema.record import MAX_JSON_DEPTH, ROLES

DEFAULT_WRAP = ("<think>\n", "\n</think>\n\n")
"""Marks around a trace that goes inline when its record does not say which marks it had."""


@dataclass(frozen=True)
class Conversation:
    """One record as stored: messages as dictionaries of the schema's fields, tools as JSON text."""

    messages: Sequence[Mapping[str, Any]]
    tools: str | None = None
    loss_weight: float | None = None


class MessageFault(Exception):
    """A message holds something no template can take; the text says which and what."""


def conversations(batch: pa.RecordBatch) -> Iterator[Conversation]:
    """The conversations of a batch with columns `messages` and, where it has them, `tools` and `loss_weight`."""
    names = set(batch.schema.names)
    messages = batch.column("messages").to_pylist()
    tools = batch.column("tools").to_pylist() if "tools" in names else [None] * batch.num_rows
    weights = batch.column("loss_weight").to_pylist() if "loss_weight" in names else [None] * batch.num_rows
    for row in zip(messages, tools, weights, strict=True):
        yield Conversation(row[0] or (), row[1], row[2])


def template_messages(
    messages: Sequence[Mapping[str, Any]], inline_reasoning: bool, change: Callable[[str], str] = str
) -> list[dict[str, Any]]:
    """Messages without null keys, tool calls as objects, reasoning where the template looks for it.

    With `inline_reasoning` a trace stands at the head of the content between its marks, for templates that know no
    reasoning field. `change` is applied to every text that comes from the record, not to those marks.
    Raises MessageFault.
    """
    return [_template_message(index, message, inline_reasoning, change) for index, message in enumerate(messages)]


def _template_message(
    index: int, message: Mapping[str, Any], inline_reasoning: bool, change: Callable[[str], str]
) -> dict[str, Any]:
    if message["role"] not in ROLES:
        raise MessageFault(f"messages[{index}].role is {message['role']!r}, which no template knows")
    content = change(message.get("content") or "")
    result: dict[str, Any] = {"role": message["role"]}
    if message.get("reasoning") is not None:
        reasoning = change(message["reasoning"])
        if inline_reasoning:
            wrap = message.get("wrap") or {}
            opened, closed = wrap.get("open"), wrap.get("close")
            opened = DEFAULT_WRAP[0] if opened is None else opened
            closed = DEFAULT_WRAP[1] if closed is None else closed
            content = f"{opened}{reasoning}{closed}{content}"
        else:
            # Two names for one thing: gpt-oss templates read `thinking`, the others `reasoning_content`.
            result |= {"thinking": reasoning, "reasoning_content": reasoning}
    result["content"] = content
    if message.get("tool_calls") is not None:
        result["tool_calls"] = map_text(_tool_calls(index, message["tool_calls"]), change)
    for name in ("tool_call_id", "name"):
        if message.get(name) is not None:
            result[name] = change(message[name])
    return result


_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


def _decoded(text: str, where: str) -> Any:
    """The value of JSON text. Raises ValueError when it is none, MessageFault when it is one that has no tokens."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise MessageFault(f"{where} is nested too deeply") from None
    if text.count("[") + text.count("{") > MAX_JSON_DEPTH and _depth(value) > MAX_JSON_DEPTH:
        raise MessageFault(f"{where} is nested too deeply")
    # Only an escape brings half a character: the text itself has none.
    if "\\u" in text and any(map(_HALF_CHARACTER.search, all_text(value))):
        raise MessageFault(f"{where} holds a lone surrogate")
    return value


def _depth(value: Any) -> int:
    """How deep lists and dictionaries stand in one another."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        inner, depth = waiting.pop()
        if isinstance(inner, dict | list):
            deepest = max(deepest, depth)
            waiting += [(item, depth + 1) for item in (inner.values() if isinstance(inner, dict) else inner)]
    return deepest


def _tool_calls(index: int, text: str) -> list[Any]:
    where = f"messages[{index}].tool_calls"
    try:
        calls = _decoded(text, where)
    except ValueError as error:
        raise MessageFault(f"{where} is not JSON: {error}") from None
    calls = [calls] if isinstance(calls, dict) else calls
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise MessageFault(f"{where} is not a list of objects")
    return [_call_with_arguments(call, where) for call in calls]


def _call_with_arguments(call: dict[str, Any], where: str) -> dict[str, Any]:
    """The call with arguments that are JSON text of an object decoded once; any other text stays text."""
    if isinstance(call.get("function"), dict):
        return {**call, "function": _call_with_arguments(call["function"], where)}
    if not isinstance(call.get("arguments"), str):
        return call
    try:
        arguments = _decoded(call["arguments"], where)
    except ValueError:
        return call
    return {**call, "arguments": arguments} if isinstance(arguments, dict) else call


def template_tools(text: str | None, change: Callable[[str], str] = str) -> list[Any] | None:
    """The tool schemas as a list of objects, None where there are none. Raises MessageFault."""
    if text is None:
        return None
    try:
        tools = _decoded(text, "tools")
    except ValueError as error:
        raise MessageFault(f"tools is not JSON: {error}") from None
    tools = [tools] if isinstance(tools, dict) else tools
    if tools is not None and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
        raise MessageFault("tools is not a list of objects")
    return map_text(tools, change) if tools else None


def all_text(value: Any) -> Iterator[str]:
    """Every text inside nested lists and dictionaries, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from all_text(item)
    elif isinstance(value, list):
        for item in value:
            yield from all_text(item)


def map_text(value: Any, change: Callable[[str], str]) -> Any:
    """A copy of nested lists and dictionaries with `change` applied to every text, keys included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): map_text(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [map_text(item, change) for item in value]
    return value
