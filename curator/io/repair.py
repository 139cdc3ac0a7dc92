"""Repairs that a person asks for by name: what they change is counted, and the record says how to undo it."""

import re
from typing import Any

from curator.io.adapters.base import Draft, Message

REPAIRS = ("merge_consecutive", "drop_trailing_user", "surrogates")
BETWEEN = "\n\n"
"""What stands between turns that are merged."""

# One escape, two that are one character, or a backslash with what it escapes: so that `\\ud83d` is text.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)", re.DOTALL
)


def without_surrogates(data: bytes) -> tuple[bytes, int]:
    """JSON text with U+FFFD for every escape of half a character, and how many there were."""
    num_changed = 0

    def whole(match: re.Match[bytes]) -> bytes:
        nonlocal num_changed
        if len(match[0]) != 6:
            return match[0]
        num_changed += 1
        return b"\\ufffd"

    return _ESCAPE.sub(whole, data), num_changed


def repair_turns(draft: Draft, repairs: tuple[str, ...]) -> list[str]:
    """Change the turns of a draft as asked; returns the names of the repairs that had something to do.

    The form gets `repair`: what was dropped, and the lengths of what was merged. A preference, whose two sides belong
    together, and a record without an answer stay as they are.
    """
    if draft.kind != "sft":
        return []
    done: dict[str, Any] = {}
    if "drop_trailing_user" in repairs and (dropped := _drop_trailing_user(draft)):
        done["drop_trailing_user"] = dropped
    if "merge_consecutive" in repairs and (merged := _merge_consecutive(draft)):
        done["merge_consecutive"] = merged
    if done:
        draft.form = {**draft.form, "repair": done}
    return list(done)


def _drop_trailing_user(draft: Draft) -> list[str | None]:
    """Drop user turns behind the last answer; returns their texts."""
    border = len(draft.messages)
    while border and draft.messages[border - 1].role == "user" and not draft.messages[border - 1].images:
        border -= 1
    dropped = draft.messages[border:]
    draft.messages = draft.messages[:border]
    return [message.content for message in dropped]


def _merge_consecutive(draft: Draft) -> dict[str, list[int]]:
    """Join user turns, and answers, that follow each other; returns the characters of each part by new turn."""
    merged: dict[str, list[int]] = {}
    messages: list[Message] = []
    for message in draft.messages:
        last = messages[-1] if messages else None
        if last is None or not _can_join(last, message):
            messages.append(message)
            continue
        lengths = merged.setdefault(str(len(messages) - 1), [len(last.content or "")])
        lengths.append(len(message.content or ""))
        last.content = f"{last.content or ''}{BETWEEN}{message.content or ''}"
    draft.messages = messages
    return merged


def _can_join(left: Message, right: Message) -> bool:
    """Whether two turns are plain texts of one speaker."""
    return (
        left.role == right.role
        and left.role in ("user", "assistant")
        and (left.name, left.weight) == (right.name, right.weight)
        and not any(turn.tool_calls or turn.tool_call_id or turn.images for turn in (left, right))
        and right.reasoning is None
    )
