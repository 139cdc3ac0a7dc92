"""One text in, one text out: prompt/completion, prompt/response, question/answer."""

from curator.io.adapters.base import Adapter, Draft, Fields, Message, metadata_of, split_trace, text_of

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
    return metadata_of(fields, Draft(messages, used=used, form={"keys": list(fields), "pair": list(pair)}))


ADAPTER = Adapter(
    "pairs",
    lambda names: _pair(names) is not None and not names & {"chosen", "rejected"},
    _convert,
    '{"question": "1 + 1?", "answer": "2"}',
    by_shape=True,
)
