"""A query, the tools for it and the calls that answer it, as JSON or as JSON in a text (xLAM function calling)."""

import msgspec

from curator.io.adapters.base import Adapter, BadRow, Draft, Fields, Message, kind_of, metadata_of, raw_text, text_of
from curator.io.adapters.sharegpt import tools_of


def _is_list(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), list)
    except (msgspec.DecodeError, UnicodeError):
        return False


def _convert(fields: Fields) -> Draft:
    tools, form = tools_of(fields)
    kind = kind_of(fields["answers"])
    if kind not in ("list", "text"):
        raise BadRow(f"wrong type: answers is {kind}, expected a list of calls")
    calls = raw_text(fields["answers"]) if kind == "list" else text_of(fields, "answers") or ""
    if not _is_list(calls):
        raise BadRow("wrong type: answers is text, expected a list of calls")
    messages = [Message("user", text_of(fields, "query")), Message("assistant", None, tool_calls=calls)]
    draft = Draft(messages, tools=tools, used=("query", "answers", "tools"))
    draft.form = {"keys": list(fields), "answers": kind, **form}
    return metadata_of(fields, draft)


ADAPTER = Adapter(
    "calls",
    lambda names: {"query", "answers", "tools"} <= names,
    _convert,
    '{"query": "Rome?", "tools": [{"name": "weather"}], "answers": [{"name": "weather", "arguments": {}}]}',
)
