"""What is odd about the turns of a record: short names for `metadata.turn_issues`. Nothing is changed here."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from curator.io.adapters.base import TRACE_MARKS
from curator.schema.record import ROLES

TURN_ISSUES: dict[str, str] = {
    # The order of turns.
    "assistant_first": "the first turn behind system texts is an answer or a tool result",
    "consecutive_user": "two user turns follow each other",
    "consecutive_assistant": "two answers follow each other, neither of which is only a tool call",
    "system_in_the_middle": "a system text stands behind other turns",
    "several_systems": "there are several system texts",
    "user_last": "a conversation with answers ends with a user turn",
    "tool_last": "a conversation ends with a tool result",
    "tool_call_last": "a conversation ends with a tool call",
    "no_user": "there is no user turn",
    # Single turns.
    "unknown_role": "a role is none of system, user, assistant, tool; it keeps its own name",
    "empty_answer": "an answer has neither text nor a tool call",
    "empty_prompt": "a user turn has neither text nor an image",
    "inline_trace": "marks of a reasoning trace are in an answer, not as one trace that opens it",
    # Tool calls and results.
    "tool_calls_not_json": "tool calls are no JSON object or list of objects",
    "tool_arguments_not_json": "arguments of a tool call are a text that is no JSON",
    "tool_call_without_name": "a tool call does not say which tool",
    "tool_call_without_id": "a call in OpenAI form has no id, though results follow",
    "tool_call_id_twice": "two calls of one turn have the same id",
    "tool_call_without_result": "another turn follows before a call has its result",
    "tool_result_without_call": "a tool result belongs to no call before it",
    "tool_result_without_id": "a tool result does not say to which of the calls with ids it belongs",
    # Characters, which are kept.
    "byte_order_mark": "U+FEFF stands in a text",
    "carriage_return": "a text has CR, alone or in CRLF",
    "nul": "U+0000 stands in a text",
    "line_separator": "U+2028, U+2029 or U+0085 stands in a text",
    "control_token": "a text holds a token that steers models, such as <|im_start|> or [INST]",
    # Of adapters.
    "unread_part": "a part of a content is neither text nor an image; it stays beside the record",
}
"""Every name that ingest gives, and what it means."""

CONTROL_TOKENS = re.compile(
    r"<\|(?:im_start|im_end|im_sep|endoftext|endofprompt|startoftext|begin_of_text|end_of_text|start_header_id"
    r"|end_header_id|eot_id|eom_id|python_tag|start|end|message|channel|return|call|user|assistant|system|end_of_turn"
    r"|observation|tool_call|tool_response|pad|eos|bos|unk|fim_prefix|fim_middle|fim_suffix|Human|MOSS|begin_of_thought"
    r"|end_of_thought|begin_of_solution|end_of_solution|image|image_pad|vision_start|vision_end)\|>"
    r"|</?s>|<bos>|<eos>|<pad>|<unk>|<start_of_turn>|<end_of_turn>|<image>|<video>|<audio>|<eoh>|<eom>"
    r"|\[/?INST\]|\[/?SYS\]|<</?SYS>>|\[(?:gMASK|sMASK|PAD|CLS|SEP|MASK|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]"
    r"|<｜[^｜<>\n]{1,30}｜>"
)
"""Tokens by which templates and tokenizers of known models are steered."""

_CHARACTERS = (
    ("byte_order_mark", ("\ufeff",)),
    ("carriage_return", ("\r",)),
    ("nul", ("\0",)),
    ("line_separator", ("\u2028", "\u2029", "\u0085")),
)
_MARKS = tuple(mark for marks in TRACE_MARKS for mark in marks)


class MessageLike(Protocol):
    """What is looked at of one turn."""

    role: str
    content: str | None
    reasoning: str | None
    tool_calls: str | None
    tool_call_id: str | None
    images: list[dict[str, Any]] | None


def turn_issues(
    kind: str, messages: Sequence[MessageLike], rejected: Sequence[MessageLike] | None = None
) -> tuple[list[str], set[str]]:
    """The issues of a record, sorted, and the control tokens in its texts. The order of turns is looked at in
    `messages` alone; a record of kind `text` has none."""
    found: set[str] = set()
    tokens: set[str] = set()
    for message in (*messages, *(rejected or ())):
        _look_at_turn(message, found, tokens)
    if kind != "text":
        _look_at_order(kind, messages, found)
        if any(message.tool_calls is not None or message.role == "tool" for message in messages):
            _look_at_tools(messages, found)
    return sorted(found), tokens


def _look_at_turn(message: MessageLike, found: set[str], tokens: set[str]) -> None:
    role, content = message.role, message.content
    for text in (content, message.reasoning):
        if text:
            _look_at_text(text, found, tokens)
    if role == "assistant":
        if not message.tool_calls and not (content and content.strip()) and not message.images:
            found.add("empty_answer")
        # The reasoning that was split out has no mark inside; a text that begins as one but goes wrong has.
        if content and "<" in content and any(mark in content for mark in _MARKS):
            found.add("inline_trace")
    elif role == "user":
        if not (content and content.strip()) and not message.images:
            found.add("empty_prompt")
    elif role not in ROLES:
        found.add("unknown_role")


def _look_at_text(text: str, found: set[str], tokens: set[str]) -> None:
    for name, characters in _CHARACTERS:
        for character in characters:
            if character in text:
                found.add(name)
    if "<" in text or "[" in text:
        inside = CONTROL_TOKENS.findall(text)
        if inside:
            tokens.update(inside)
            found.add("control_token")


def _look_at_order(kind: str, messages: Sequence[MessageLike], found: set[str]) -> None:
    roles = [message.role for message in messages]
    if roles == ["user", "assistant"]:
        if messages[1].tool_calls:
            found.add("tool_call_last")
        return
    if "user" not in roles:
        found.add("no_user")
    others = [role for role in roles if role != "system"]
    num_systems = len(roles) - len(others)
    if num_systems > 1:
        found.add("several_systems")
    if "system" in roles[roles.index(others[0]) if others else len(roles) :]:
        found.add("system_in_the_middle")
    if others and others[0] in ("assistant", "tool"):
        found.add("assistant_first")
    for before, message in zip(messages, messages[1:], strict=False):
        if before.role == message.role == "user":
            found.add("consecutive_user")
        if before.role == message.role == "assistant" and not (_is_call(before) or _is_call(message)):
            found.add("consecutive_assistant")
    if kind != "prompt" and others:
        if roles[-1] == "user":
            found.add("user_last")
        elif roles[-1] == "tool":
            found.add("tool_last")
        elif messages[-1].tool_calls:
            found.add("tool_call_last")


def _is_call(message: MessageLike) -> bool:
    return bool(message.tool_calls) and not message.content


_decoder = msgspec.json.Decoder()


def _look_at_tools(messages: Sequence[MessageLike], found: set[str]) -> None:
    """Pair every call with the results that follow, by id where there is one, else one by one."""
    with_ids: set[str] = set()
    unnamed = answered = 0
    is_first_result = True
    for message in messages:
        if message.role == "tool":
            wanted = message.tool_call_id
            if wanted is not None and wanted in with_ids:
                with_ids.discard(wanted)
            elif unnamed:
                unnamed -= 1
                answered += 1
            elif wanted is None and with_ids:
                found.add("tool_result_without_id")
                with_ids.pop()
            else:
                found.add("tool_result_without_call")
            if is_first_result and unnamed + answered and wanted is not None:
                found.add("tool_call_without_id")
            is_first_result = False
            continue
        if with_ids or unnamed and not answered:
            # Calls that are turns of their own may follow one another before their results.
            if not _is_call(message):
                found.add("tool_call_without_result")
                with_ids, unnamed = set(), 0
        else:
            unnamed = 0
        answered, is_first_result = 0, True
        if message.tool_calls is not None:
            for call_id in _calls(message.tool_calls, found):
                if call_id is None:
                    unnamed += 1
                elif call_id in with_ids:
                    found.add("tool_call_id_twice")
                else:
                    with_ids.add(call_id)


def _calls(text: str, found: set[str]) -> list[str | None]:
    """The ids of the calls in JSON text."""
    try:
        calls = _decoder.decode(text)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        found.add("tool_calls_not_json")
        return [None]
    calls = [calls] if isinstance(calls, dict) else calls
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        found.add("tool_calls_not_json")
        return [None]
    for call in calls:
        function = call["function"] if isinstance(call.get("function"), dict) else call
        if not isinstance(function.get("name"), str) or not function["name"]:
            found.add("tool_call_without_name")
        arguments = function.get("arguments")
        if isinstance(arguments, str) and not _is_json(arguments):
            found.add("tool_arguments_not_json")
    return [_id(call) for call in calls]


def _id(call: Mapping[str, Any]) -> str | None:
    call_id = call.get("id")
    return call_id if isinstance(call_id, str) and call_id else None


def _is_json(text: str) -> bool:
    try:
        _decoder.decode(text)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return False
    return True
