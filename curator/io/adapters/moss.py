"""MOSS conversations: chat {turn_1: {Human, Inner Thoughts, Commands, Tool Responses, MOSS}} with marks around texts.

A turn is a user message and an answer; with a command it is user, assistant (thought and calls), tool, answer. The
marks (`<|Human|>: ...<eoh>`) are known by name; those that are written otherwise are kept in `form`.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from curator.io.adapters.base import (
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    Unrestorable,
    fields_of,
    metadata_of,
    object_text,
    raw_text,
    text_of,
)
from curator.io.adapters.shape import in_order, json_text, restored_tags

_PARTS = {
    "Human": ("<|Human|>: ", "<eoh>\n"),
    "Inner Thoughts": ("<|Inner Thoughts|>: ", "<eot>\n"),
    "Commands": ("<|Commands|>: ", "<eoc>\n"),
    "Tool Responses": ("<|Results|>:\n", "\n<eor>\n"),
    "MOSS": ("<|MOSS|>: ", "<eom>\n"),
}
_NOTHING = "None"
_MARKED = re.compile(r"(<\|[A-Za-z ]+\|>:\s*)(.*?)(\s*<eo[a-z]>\s*)\Z", re.DOTALL)
_CALL = re.compile(r"([A-Za-z_]\w*)\((.*)\)", re.DOTALL)
_CALL_BREAK = re.compile(r"(?<=\))(, )(?=[A-Za-z_]\w*\()")


def _unmarked(turn: Mapping[str, Any], name: str) -> tuple[str, list[str] | None]:
    """The text of a part without its marks, and the marks when they are not the usual ones."""
    text = text_of(turn, name) or ""
    match = _MARKED.match(text)
    if match is None:
        raise BadRow(f"no marks: {name} of a turn is not between <|...|>: and <eo.>")
    marks = (match[1], match[3])
    return match[2], None if marks == _PARTS[name] else list(marks)


def calls_of(command: str) -> str:
    """Commands as tool calls: JSON text of a list of name and arguments, each as it is written.

    `Search("a"), Calculate("b")` are two. What does not look like calls is one without a name: nothing is guessed.
    """
    pieces: list[str] = []
    for piece in _CALL_BREAK.split(command)[::2]:
        # A break inside quotes is none.
        if pieces and pieces[-1].count('"') % 2:
            pieces[-1] += f", {piece}"
        else:
            pieces.append(piece)
    matches = [_CALL.fullmatch(piece) for piece in pieces]
    if all(match is not None and match[2].count("(") == match[2].count(")") for match in matches):
        calls = [{"name": json_text(match[1]), "arguments": json_text(match[2])} for match in matches if match]
    else:
        calls = [{"name": "null", "arguments": json_text(command)}]
    return "[" + ",".join(f'{{"type":"function","function":{object_text(call)}}}' for call in calls) + "]"


def command_of(calls: str) -> str:
    """The command that `calls_of` read."""
    functions = [call["function"] for call in json.loads(calls)]
    return ", ".join(
        function["arguments"] if function["name"] is None else f"{function['name']}({function['arguments']})"
        for function in functions
    )


def _convert(fields: Fields) -> Draft:
    chat = fields_of(fields["chat"], "chat")
    if not chat:
        raise BadRow("no turns: chat is empty")
    system = text_of(fields, "meta_instruction", required=False)
    messages = [] if system is None else [Message("system", system)]
    turns: list[dict[str, Any]] = []
    for key, raw in chat.items():
        turn = fields_of(raw, key)
        if not turn:
            raise BadRow(f"no turns: {key} is empty")
        unknown = [name for name in turn if name not in _PARTS]
        if unknown:
            raise BadRow(f"unknown field in a turn: {unknown[0]}")
        form: dict[str, Any] = {"key": key}
        texts: dict[str, str] = {}
        for name in turn:
            texts[name], marks = _unmarked(turn, name)
            if marks is not None:
                form.setdefault("marks", {})[name] = marks
        if list(turn) != list(_PARTS):
            form["parts"] = list(turn)
        messages += _messages(texts, form)
        turns.append(form)
    used = ("chat",) if system is None else ("chat", "meta_instruction")
    draft = Draft(messages, used=used, form={"keys": list(fields), "turns": turns})
    if "category" in fields and raw_text(fields["category"])[:1] == '"':
        draft.metadata = {"domain": text_of(fields, "category") or ""}
        draft.used = (*draft.used, "category")
        draft.form["tags"] = {"domain": ["category", "text"]}
    if "conversation_id" in fields and raw_text(fields["conversation_id"]).isdigit():
        draft.metadata = {**draft.metadata, "original_id": raw_text(fields["conversation_id"])}
        draft.used = (*draft.used, "conversation_id")
        draft.form["tags"] = {**draft.form.get("tags", {}), "original_id": ["conversation_id", "number"]}
    return metadata_of(fields, draft)


def _messages(texts: Mapping[str, str], form: dict[str, Any]) -> list[Message]:
    """The messages of a turn. `None` in a part means that there was none; a part that is absent is not in `texts`."""
    thought = texts.get("Inner Thoughts")
    command = texts.get("Commands")
    result = texts.get("Tool Responses")
    reasoning = None if thought == _NOTHING else thought
    messages = [Message("user", texts["Human"])] if "Human" in texts else []
    if command not in (None, _NOTHING) or result not in (None, _NOTHING):
        if command is None or command_of(calls_of(command)) != command:
            raise BadRow("no command: a turn has a tool's result without one")
        form["calls"] = True
        messages.append(Message("assistant", None, reasoning=reasoning, tool_calls=calls_of(command)))
        if result is not None:
            messages.append(Message("tool", result))
        reasoning = None
    if "MOSS" in texts:
        messages.append(Message("assistant", texts["MOSS"], reasoning=reasoning))
    elif reasoning is not None:
        raise BadRow("no answer: a turn has thoughts alone")
    return messages


def restore(record: Mapping[str, Any]) -> str:
    """The JSON text of the conversation."""
    form = json.loads(record["provenance"]["form"])
    try:
        return _restored(record, form)
    except (IndexError, KeyError, TypeError):
        raise Unrestorable("its turns are no longer those of its form") from None


def _restored(record: Mapping[str, Any], form: Mapping[str, Any]) -> str:
    messages = list(record["messages"])
    values = restored_tags(record, form)
    if messages[0]["role"] == "system":
        values["meta_instruction"] = json_text(messages.pop(0)["content"])
    chat: dict[str, str] = {}
    for turn in form["turns"]:
        texts = dict.fromkeys(turn.get("parts", _PARTS), _NOTHING)
        if "Human" in texts:
            texts["Human"] = messages.pop(0)["content"]
        if turn.get("calls"):
            call = messages.pop(0)
            texts["Inner Thoughts"] = call["reasoning"] if call["reasoning"] is not None else _NOTHING
            texts["Commands"] = command_of(call["tool_calls"])
            if "Tool Responses" in texts:
                texts["Tool Responses"] = messages.pop(0)["content"]
        if "MOSS" in texts:
            answer = messages.pop(0)
            texts["MOSS"] = answer["content"]
            if answer["reasoning"] is not None:
                texts["Inner Thoughts"] = answer["reasoning"]
        marks = {**_PARTS, **turn.get("marks", {})}
        chat[turn["key"]] = object_text(
            {name: json_text(f"{marks[name][0]}{text}{marks[name][1]}") for name, text in texts.items()}
        )
    if messages:
        raise Unrestorable("it has more turns than its form")
    values["chat"] = object_text(chat)
    return in_order(form["keys"], values)


ADAPTER = Adapter(
    "moss",
    lambda names: "chat" in names and bool(names & {"meta_instruction", "conversation_id", "num_turns"}),
    _convert,
    '{"chat": {"turn_1": {"Human": "<|Human|>: 1 + 1?<eoh>\\n", "MOSS": "<|MOSS|>: 2<eom>\\n"}}, "num_turns": 1}',
    restore=restore,
)
