"""One text in, one text out: prompt/completion, prompt/response, question/answer."""

from collections.abc import Mapping
from typing import Any

from curator.io.adapters.base import (
    Adapter,
    Draft,
    Fields,
    Message,
    Unrestorable,
    form_of,
    json_text,
    metadata_of,
    restore_object,
    split_trace,
    text_of,
    whole_content,
)

_PAIRS = (("prompt", "completion"), ("prompt", "response"), ("question", "answer"), ("question", "response"))


def _pair(names: frozenset[str]) -> tuple[str, str] | None:
    return next((pair for pair in _PAIRS if names.issuperset(pair)), None)


def _convert(fields: Fields) -> Draft:
    pair = _pair(frozenset(fields))
    assert pair is not None
    ask, reply = pair
    system = text_of(fields, "system", required=False)
    messages = [] if system is None else [Message("system", system)]
    messages.append(Message("user", text_of(fields, ask)))
    messages.append(split_trace(Message("assistant", text_of(fields, reply))))
    used = (*pair, "system") if "system" in fields else pair
    form: dict[str, object] = {"keys": list(fields), "pair": list(pair)}
    if "system" in fields and system is None:
        form["system"] = None
    return metadata_of(fields, Draft(messages, used=used, form=form))


def _restore(record: Mapping[str, Any]) -> str:
    form = form_of(record)
    messages = record["messages"] or []
    has_system = "system" in form["keys"] and "system" not in form
    if [message["role"] for message in messages] != ["system", "user", "assistant"][not has_system :]:
        raise Unrestorable("its turns are not those of a pair")
    ask, reply = form["pair"]
    texts = {ask: json_text(messages[-2]["content"]), reply: json_text(whole_content(messages[-1]))}
    texts["system"] = json_text(messages[0]["content"] if has_system else None)
    return restore_object(record, form, texts)


ADAPTER = Adapter(
    "pairs",
    lambda names: _pair(names) is not None and not names & {"chosen", "rejected"},
    _convert,
    '{"question": "1 + 1?", "answer": "2"}',
    restore=_restore,
)
