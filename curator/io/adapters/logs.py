"""Logs of calls to a model: request and response bodies, batch input and output files, stored chat completions.

    {"request": {"messages": [...]}, "response": {"choices": [...]}}      also *_body, or with bodies under `body`
    {"custom_id": ..., "method": ..., "url": ..., "body": {...}}          a batch's input: kind `prompt`
    {"custom_id": ..., "response": {"status_code": 200, "body": {...}}}   its output, without the prompt: kind `text`
    {"messages": [...], "response": {"choices": [...]}}                   LiteLLM and others
    {"input": {"messages": [...]}, "output": {"role": "assistant", ...}}  tracing tools

Several choices are several records of one group. A call that failed is a `prompt` when its request is there, or else a
bad row with the reason. A label of people (label, thumbs, feedback) that says good or bad makes the record `feedback`;
it stays in `extra`, as all that a body says besides turns and tools.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from curator.io.adapters.base import (
    OF_ROW,
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    fields_of,
    kind_of,
    metadata_of,
    object_text,
    raw_text,
    rows_of,
    split_trace,
    text_of,
    value_of,
)
from curator.io.adapters.openai import messages_of
from curator.io.adapters.toolbench import called

_REQUESTS = ("request", "request_body", "body", "input", "prompt_body")
_RESPONSES = ("response", "response_body", "output", "completion")
_BODY = "body"
_LABELS = ("label", "thumbs", "thumbs_up", "feedback", "user_feedback", "rating", "vote")
_VERDICTS = frozenset(
    ("up", "down", "thumbs_up", "thumbs_down", "thumbsup", "thumbsdown", "like", "dislike", "positive", "negative",
     "good", "bad", "upvote", "downvote")
)  # fmt: skip
_REPLY_FIELDS = ("role", "content", "reasoning_content", "reasoning", "tool_calls", "function_call", "name")


@dataclass
class _Body:
    """A request or response: its fields, and the object around them when it lies under `body`."""

    name: str
    fields: dict[str, msgspec.Raw]
    around: dict[str, msgspec.Raw] | None = None
    is_text: bool = False
    """The body came as JSON inside a text: that text stays in `extra` whole, since its white space is its own."""
    taken: dict[str, str | None] = field(default_factory=dict)
    """Fields that found a place, with what is left of each."""

    def rest(self) -> str:
        """What found no place, in the order in which it came."""
        left = {
            key: self.taken.get(key) or raw_text(raw)
            for key, raw in self.fields.items()
            if key not in self.taken or self.taken[key] is not None
        }
        if self.around is None:
            return object_text(left)
        outer = {key: raw_text(raw) for key, raw in self.around.items()}
        return object_text({**outer, _BODY: object_text(left)})


def _object_in(raw: msgspec.Raw) -> tuple[dict[str, msgspec.Raw] | None, bool]:
    """The fields of an object, or of an object that is written as JSON in a text."""
    kind = kind_of(raw)
    if kind == "object":
        return fields_of(raw, "a body"), False
    if kind == "text":
        try:
            text = value_of(raw)
            if text.lstrip().startswith("{"):
                return fields_of(msgspec.Raw(text.encode()), "a body"), True
        except (msgspec.DecodeError, BadRow):
            pass
    return None, False


def _body(fields: Fields, names: tuple[str, ...], marks: frozenset[str]) -> _Body | None:
    """The first of these fields that holds an object with one of `marks`, perhaps one level down."""
    for name in names:
        if name not in fields:
            continue
        inner, is_text = _object_in(fields[name])
        if inner is None:
            continue
        if marks & inner.keys():
            return _Body(name, inner, is_text=is_text)
        if _BODY in inner:
            deeper, is_deeper_text = _object_in(inner[_BODY])
            if deeper is not None:
                return _Body(name, deeper, inner, is_text or is_deeper_text)
    return None


_ASKED = frozenset({"messages", "prompt", "input", "contents"})
_ANSWERED = frozenset({"choices", "output", "content", "error"})


def _request(fields: Fields) -> tuple[list[Message], _Body | None, tuple[str, ...]]:
    """The turns that were sent, the body they were in, and top-level fields that hold them."""
    for name in ("messages", "prompt"):
        if name in fields and kind_of(fields[name]) in ("list", "text"):
            if kind_of(fields[name]) == "list":
                messages, unusual = messages_of(fields, name)
                return messages, None, _placed(name, unusual)
            return [Message("user", text_of(fields, name))], None, (name,)
    if "input" in fields and kind_of(fields["input"]) == "list":
        messages, unusual = messages_of(fields, "input")
        return messages, None, _placed("input", unusual)
    body = _body(fields, _REQUESTS, _ASKED)
    if body is None:
        return [], None, ()
    if "url" in fields and any(end in raw_text(fields["url"]) for end in ("/embeddings", "/moderations")):
        raise BadRow(f"not a chat: a call of {value_of(fields['url'])}")
    held = [name for name in ("messages", "input", "prompt") if name in body.fields]
    if not held:
        raise BadRow(f"no prompt: {body.name} has {', '.join(sorted(body.fields))[:80]}")
    name = held[0]
    unusual = {}
    if kind_of(body.fields[name]) == "list":
        messages, unusual = messages_of(body.fields, name)
    else:
        messages = [Message("user", text_of(body.fields, name))]
    if _placed(name, unusual):
        body.taken[name] = None
    for system in ("instructions", "system"):
        if system in body.fields and kind_of(body.fields[system]) == "text":
            messages.insert(0, Message("system", text_of(body.fields, system)))
            body.taken[system] = None
    return messages, body, ()


def _placed(name: str, unusual: Mapping[str, Any]) -> tuple[str, ...]:
    """The field, if nothing but its turns was in it; else it stays beside the record, as it came."""
    return () if "turns" in unusual else (name,)


def _tools(fields: Fields, body: _Body | None) -> tuple[str | None, tuple[str, ...]]:
    """Tool schemas of the request, as they came."""
    for name in ("tools", "functions"):
        if body is not None and name in body.fields and kind_of(body.fields[name]) == "list":
            body.taken[name] = None
            return raw_text(body.fields[name]), ()
        if name in fields and kind_of(fields[name]) == "list":
            return raw_text(fields[name]), (name,)
    return None, ()


def _reply(fields: Fields) -> tuple[Message, str | None]:
    """The message of a choice, and what is left of it (JSON text)."""
    kept = {key: raw for key, raw in fields.items() if key in _REPLY_FIELDS and kind_of(raw) != "null"}
    calls = None
    if "tool_calls" in kept:
        if kind_of(kept["tool_calls"]) != "list":
            raise BadRow(f"wrong type: tool_calls is {kind_of(kept['tool_calls'])}, expected a list")
        calls = raw_text(kept["tool_calls"])
    elif "function_call" in kept and kind_of(kept["function_call"]) == "object":
        calls = called(bytes(kept["function_call"]))
    trace = next(
        (name for name in ("reasoning_content", "reasoning") if name in kept and kind_of(kept[name]) == "text"), None
    )
    message = Message(
        "assistant",
        _content(kept),
        reasoning=None if trace is None else text_of(kept, trace),
        tool_calls=calls,
        name=text_of(kept, "name", required=False),
    )
    taken = {"content", "name"} | ({trace} if trace else set())
    taken |= {"tool_calls"} if "tool_calls" in kept else {"function_call"} if calls else set()
    rest = {key: raw_text(raw) for key, raw in fields.items() if key not in taken or key not in kept}
    if "content" in kept and kind_of(kept["content"]) == "list":
        parts = rows_of(kept["content"], "content")
        rest["content"] = f"[{','.join(_without_text(part) for part in parts)}]"
    if rest.get("role") == '"assistant"':
        del rest["role"]
    if message.content is None and calls is None and message.reasoning is None:
        raise BadRow("no answer: the message of a choice is empty")
    return message if message.reasoning is not None else split_trace(message), object_text(rest) if rest else None


def _content(fields: Fields) -> str | None:
    """The text of a message; of a list of parts, when each is text."""
    if "content" not in fields or kind_of(fields["content"]) != "list":
        return text_of(fields, "content", required=False)
    texts = []
    for part in rows_of(fields["content"], "content"):
        if "text" not in part or kind_of(part["text"]) != "text" or len(part) > 3:
            raise BadRow("wrong type: content holds a part that is no text")
        texts.append(text_of(part, "text") or "")
    if len(texts) != 1:
        raise BadRow(f"wrong type: content holds {len(texts)} parts, expected one text")
    return texts[0]


def _without_text(part: Fields) -> str:
    return object_text({key: raw_text(raw) for key, raw in part.items() if key != "text"})


def _replies(body: _Body) -> list[tuple[Message, str]]:
    """The answers of a response, each with the body's rest."""
    if "choices" in body.fields and kind_of(body.fields["choices"]) == "list":
        found = []
        for choice in rows_of(body.fields["choices"], "choices"):
            rest = {key: raw_text(raw) for key, raw in choice.items()}
            if "message" in choice and kind_of(choice["message"]) == "object":
                message, left = _reply(fields_of(choice["message"], "message"))
                del rest["message"]
                if left is not None:
                    rest["message"] = left
            elif "text" in choice:
                message = split_trace(Message("assistant", text_of(choice, "text")))
                del rest["text"]
            else:
                raise BadRow(f"no answer: a choice has {', '.join(sorted(choice))[:80]}")
            body.taken["choices"] = f"[{object_text(rest)}]"
            found.append((message, body.rest()))
        return found
    name = "output" if "output" in body.fields else "content"
    if name == "output" and kind_of(body.fields[name]) == "list":
        items = rows_of(body.fields[name], name)
        if len(items) == 1 and "content" in items[0]:
            message, left = _reply(items[0])
            body.taken[name] = f"[{left or '{}'}]"
            return [(message, body.rest())]
        raise BadRow(f"unreadable response: output holds {len(items)} items, expected one message")
    if name in body.fields and kind_of(body.fields[name]) != "null":
        if name == "output":
            return [(split_trace(Message("assistant", text_of(body.fields, name))), _without(body, name))]
        written = {key: raw for key, raw in body.fields.items() if key in _REPLY_FIELDS and key != "role"}
        message, left = _reply(written)
        rests = {} if left is None else fields_of(msgspec.Raw(left.encode()), "a message")
        body.taken |= {key: raw_text(rests[key]) if key in rests else None for key in written}
        return [(message, body.rest())]
    return []


def _without(body: _Body, name: str) -> str:
    body.taken[name] = None
    return body.rest()


def _failure(fields: Fields, body: _Body | None) -> str | None:
    """Why a call failed, when the log says so."""
    places: list[Mapping[str, msgspec.Raw]] = [fields]
    if body is not None:
        places += [body.fields] if body.around is None else [body.fields, body.around]
    elif "response" in fields and kind_of(fields["response"]) == "object":
        places.append(fields_of(fields["response"], "response"))
    for place in places:
        for name in ("status_code", "response_status", "status"):
            if name in place and kind_of(place[name]) == "number" and not 200 <= (code := value_of(place[name])) < 300:
                return f"status {code}"
        error = place.get("error")
        if error is not None and kind_of(error) in ("object", "text") and raw_text(error) not in ('""', "{}"):
            text = raw_text(error)
            if kind_of(error) == "object":
                inner = fields_of(error, "error")
                text = raw_text(inner.get("message", inner.get("code", error)))
            return f"error {text[:80]}"
    return None


def _is_judged(fields: Fields) -> bool:
    """Whether people said good or bad, in a word or by true and false."""
    for name in _LABELS:
        if name in fields:
            kind = kind_of(fields[name])
            if kind == "true/false" or kind == "text" and value_of(fields[name]).lower() in _VERDICTS:
                return True
    return False


def _convert(fields: Fields) -> Draft | list[Draft]:
    messages, request, used = _request(fields)
    tools, tools_used = _tools(fields, request)
    response, replies, direct = _response(fields)
    failure = _failure(fields, response)
    if failure is not None:
        if not messages:
            raise BadRow(f"failed call: {failure}")
        replies, response, direct = [], None, ()
    if not replies and not messages:
        raise BadRow("no answer: the log holds neither a prompt nor an answer")
    judged = _is_judged(fields)
    drafts = []
    for index, (reply, rest) in enumerate(replies or [(None, "")]):
        turns = messages if reply is None else [*messages, reply]
        kind = "prompt" if reply is None else "text" if not messages else "feedback" if judged else "sft"
        draft = Draft(
            turns, kind=kind, tools=tools, used=(*used, *tools_used), group=OF_ROW if len(replies) > 1 else None
        )
        draft.form = {"keys": list(fields)}
        if len(replies) > 1:
            draft.form["part"] = [index, len(replies)]
        _leave(draft, request, None if request is None else request.rest())
        if reply is not None:
            draft.used = (*draft.used, *direct)
            _leave(draft, response, rest)
            _name_teacher(draft, fields, response)
        drafts.append(_identified(fields, draft))
    return drafts if len(drafts) > 1 else drafts[0]


def _response(fields: Fields) -> tuple[_Body | None, list[tuple[Message, str]], tuple[str, ...]]:
    """The response's body and answers; a response that is itself the text or message is told by its field."""
    if "choices" in fields:
        whole = _Body("", dict(fields))
        return whole, _replies(whole), ("choices",)
    body = _body(fields, _RESPONSES, _ANSWERED)
    if body is not None:
        return body, _replies(body) if not body.fields.keys() <= {"error"} else [], ()
    for name in _RESPONSES:
        if name in fields and kind_of(fields[name]) == "text":
            return None, [(split_trace(Message("assistant", text_of(fields, name))), "")], (name,)
    return None, [], ()


def _leave(draft: Draft, body: _Body | None, rest: str | None) -> None:
    """Put what is left of a body into `extra`; JSON in a text stays there as it is."""
    if body is None or rest is None or body.is_text:
        return
    if body.name == "":
        choices = body.taken.get("choices")
        draft.left = {**draft.left, **({} if choices is None else {"choices": choices})}
        return
    draft.used = (*draft.used, body.name)
    draft.left = {**draft.left, body.name: rest}
    draft.form[body.name] = list(body.fields)


def _name_teacher(draft: Draft, fields: Fields, response: _Body | None) -> None:
    for place in (response.fields if response is not None else {}, fields):
        if "model" in place and kind_of(place["model"]) == "text":
            draft.metadata = {**draft.metadata, "teacher": value_of(place["model"])}
            return


def _identified(fields: Fields, draft: Draft) -> Draft:
    """The caller's own name for the call goes before the service's."""
    if "custom_id" in fields and kind_of(fields["custom_id"]) == "text":
        draft.metadata = {**draft.metadata, "original_id": value_of(fields["custom_id"])}
        draft.used = (*draft.used, "custom_id")
        fields = {name: raw for name, raw in fields.items() if name != "id"}
    return metadata_of(fields, draft)


def _takes(names: frozenset[str]) -> bool:
    if names & {"chosen", "rejected", "conversations", "instruction"}:
        return False
    has_answer = bool(names & {"response", "response_body", "choices"})
    return (
        bool(names & {"request", "request_body"})
        and (has_answer or names & {"model", "url", "method", "created"} != set())
        or {"custom_id", "body"} <= names
        or {"custom_id", "response"} <= names
        or {"messages", "response"} <= names
        or {"prompt", "response"} <= names
        or {"input", "output"} <= names
        or {"choices", "object"} <= names
        or {"choices", "model", "usage"} <= names
    )


def _fits(fields: Fields) -> bool:
    names = fields.keys()
    if names & {"request", "request_body", "custom_id"}:
        return True
    if "choices" in names:
        return kind_of(fields["choices"]) == "list" and b'"message"' in bytes(fields["choices"])
    if {"messages", "response"} <= names:
        return kind_of(fields["messages"]) == "list" and kind_of(fields["response"]) in ("object", "text")
    if {"prompt", "response"} <= names:
        return kind_of(fields["response"]) == "object" and b'"choices"' in bytes(fields["response"])
    kind = kind_of(fields["input"])
    return kind in ("object", "list") and b'"role"' in bytes(fields["input"])


ADAPTER = Adapter(
    "logs",
    _takes,
    _convert,
    '{"request": {"messages": [{"role": "user", "content": "Hi"}]},'
    ' "response": {"choices": [{"message": {"role": "assistant", "content": "Hello."}}]}}',
    fits=_fits,
)
