"""The mask audit passes sound templates and names what is wrong with broken ones."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_samples import CHATML, turn

from curator.chat.audit import audit, stop_ids
from curator.chat.messages import Conversation
from curator.chat.tokenizer import ChatTokenizer
from curator.errors import CuratorError

CALL = json.dumps([{"function": {"name": "look", "arguments": {"at": 'the "sky"\n', "n": 3}}}])
RECORDS = [
    [turn("system", "be brief"), turn("user", "the question"), turn("assistant", "the answer")],
    [turn("user", "q"), turn("assistant", "a <|im_end|> b", reasoning="hm"), turn("user", "r"), turn("assistant", "c")],
    [turn("user", "q"), turn("assistant", "never", weight=0.0), turn("assistant", "yes")],
    [turn("user", "q"), turn("assistant", None, tool_calls=CALL), turn("tool", "blue"), turn("assistant", "blue")],
]


def problems_of(chat: ChatTokenizer, folder: Path, records: list[list[dict[str, Any]]]) -> list[str]:
    conversations = [Conversation(messages) for messages in records]
    report = audit(chat, conversations, [f"r{i}" for i in range(len(records))], stop_ids(folder, chat))
    return [str(problem) for problem in report.problems]


def test_a_sound_template_passes(make_folder: Callable[..., Path]) -> None:
    folder = make_folder()
    assert problems_of(ChatTokenizer.load(folder), folder, RECORDS) == []


BROKEN = {
    "end of turn outside": (
        CHATML.replace("{{- '<|im_end|>' }}\n        {%- endgeneration %}", "{%- endgeneration %}{{- '<|im_end|>' }}"),
        "no stop token",
    ),
    "stop token of another model": (CHATML.replace("{{- '<|im_end|>' }}\n        {%-", "{{- '</s>' }}{%-"), "no stop"),
    "empty think block": (
        CHATML.replace("{{- message.content }}", "{{- '<think>\\n\\n</think>\\n\\n' + message.content }}"),
        "text of the template",
    ),
    "double bos": ("{{- bos_token + bos_token }}" + CHATML, "two bos"),
    "system dropped": (
        CHATML.replace("for message in messages", "for message in messages if message.role != 'system'"),
        "system message",
    ),
    "rewritten history": (
        CHATML.replace("if message.reasoning_content", "if message.reasoning_content and loop.last"),
        "reasoning is not",
    ),
    "content cut": (CHATML.replace("{{- message.content }}", "{{- message.content[:5] }}"), "content is not"),
    "calls dropped": (CHATML.replace("message.tool_calls or []", "[]"), "tool call is not"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_templates_are_refused_by_name(make_folder: Callable[..., Path], name: str) -> None:
    template, words = BROKEN[name]
    folder = make_folder(template)
    chat = ChatTokenizer.load(folder)
    found = problems_of(chat, folder, RECORDS)
    assert any(words in problem for problem in found), found
    report = audit(chat, [Conversation(messages) for messages in RECORDS], list("abcd"), stop_ids(folder, chat))
    with pytest.raises(CuratorError, match="mask audit failed") as error:
        report.require_clean(folder)
    assert "\n" not in error.value.message


def test_stop_ids_come_from_the_generation_config_first(make_folder: Callable[..., Path]) -> None:
    folder = make_folder()
    chat = ChatTokenizer.load(folder)
    assert stop_ids(folder, chat) == {chat.token_id("eos_token")}
    (folder / "config.json").write_text('{"eos_token_id": 7}')
    assert stop_ids(folder, chat) == {7, chat.token_id("eos_token")}
    (folder / "generation_config.json").write_text('{"eos_token_id": [8, 9]}')
    assert stop_ids(folder, chat) == {8, 9, chat.token_id("eos_token")}
