"""Glaive function calling: `system` and one `chat` text of USER:, ASSISTANT: and FUNCTION RESPONSE: turns.

What stands between the turns (blank lines, `<|endoftext|>`) goes to `form`; a call stays in the answer as it is
written (`<functioncall> {...}`), because its quotes are not JSON.
"""

import re

from curator.io.adapters.base import Adapter, BadRow, Draft, Fields, Message, metadata_of, text_of

_TURN = re.compile(r"(?:\A|(?<=\n))(USER|ASSISTANT|FUNCTION RESPONSE): ?")
_END = re.compile(r"\s*(?:<\|endoftext\|>)?\s*\Z")
_ROLES = {"USER": "user", "ASSISTANT": "assistant", "FUNCTION RESPONSE": "tool"}
_SYSTEM = "SYSTEM: "


def _convert(fields: Fields) -> Draft:
    chat = text_of(fields, "chat") or ""
    marks = list(_TURN.finditer(chat))
    if not marks or chat[: marks[0].start()].strip():
        raise BadRow("not a chat: it must begin with USER:, ASSISTANT: or FUNCTION RESPONSE:")
    system = text_of(fields, "system", required=False)
    messages = [] if system is None else [Message("system", system.removeprefix(_SYSTEM))]
    opens = [chat[: marks[0].end()]]
    ends: list[str] = []
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        text = chat[mark.end() : None if following is None else following.start()]
        end = _END.search(text)
        assert end is not None
        messages.append(Message(_ROLES[mark[1]], text[: end.start()]))
        ends.append(text[end.start() :])
        if following is not None:
            opens.append(following[0])
    form = {"keys": list(fields), "opens": opens, "ends": ends}
    if system is not None and not system.startswith(_SYSTEM):
        form["system"] = ["plain"]
    kind = "sft" if any(message.role == "assistant" for message in messages) else "prompt"
    used = ("chat",) if system is None else ("chat", "system")
    return metadata_of(fields, Draft(messages, kind=kind, used=used, form=form))


def restore_chat(messages: list[dict[str, str]], form: dict[str, list[str]]) -> str:
    """The chat text, from the messages and what stood around them."""
    turns = [message for message in messages if message["role"] != "system"]
    return "".join(
        f"{before}{turn['content']}{after}"
        for before, turn, after in zip(form["opens"], turns, form["ends"], strict=True)
    )


ADAPTER = Adapter(
    "glaive",
    lambda names: "chat" in names and names <= {"chat", "system", "id", "source", "metadata"},
    _convert,
    '{"system": "SYSTEM: Be brief.", "chat": "USER: 1 + 1?\\n\\n\\nASSISTANT: 2 <|endoftext|>\\n\\n\\n"}',
)
