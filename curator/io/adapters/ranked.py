"""Judged answers: two with a verdict (alpaca_eval, PKU-SafeRLHF, arena, SHP), or a list with scores or ranks.

Two answers with a verdict are a `preference`. A tie is no preference: it gives two `sft` records of one group. A list
with scores or ranks gives one `feedback` record for each answer, in one group: nothing is thrown away, no margin is
chosen here, and training does not take the lowest answer for an example.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from curator.io.adapters.base import (
    OF_ROW,
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    Unrestorable,
    fields_of,
    kind_of,
    metadata_of,
    object_text,
    raw_text,
    split_trace,
    text_of,
    value_of,
)
from curator.io.adapters.openai import messages_of
from curator.io.adapters.shape import TURNS, in_order, items_of, json_text, restored_tags

_ASKS = ("prompt", "instruction", "question", "query", "history", "context")
_LISTS = ("responses", "completions", "answers", "candidates", "outputs")
_SCORES = ("scores", "ranks", "rank", "ratings", "rewards", "reward_scores", "labels")
_INNER_TEXTS = ("response", "text", "content", "answer", "output", "completion")
_INNER_SCORES = frozenset({"score", "rank", "rating", "overall_score", "fine-grained_score", "reward", "label"})


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _nearer(value: Any) -> int | None:
    """alpaca_eval: 1 is the first, 2 the second, with fractions between; 1.5 and 0 are ties."""
    number = _number(value)
    if value is None or number in (0, 1.5):
        return None
    if number is None or not 1 <= number <= 2:
        raise BadRow(f"unknown verdict: {value!r}")
    return 0 if number < 1.5 else 1


def _index(value: Any) -> int | None:
    """PKU-SafeRLHF: the number of the better answer."""
    if value in (0, 1) and not isinstance(value, bool):
        return int(value)
    raise BadRow(f"unknown verdict: {value!r}")


def _first_is_one(value: Any) -> int | None:
    """SHP: 1 when the first is preferred."""
    return 1 - (_index(value) or 0)


def _by_sign(value: Any) -> int | None:
    """HelpSteer3: below 0 the first is better, above 0 the second."""
    number = _number(value)
    if number is None:
        raise BadRow(f"unknown verdict: {value!r}")
    return None if number == 0 else int(number > 0)


_WINNERS = {
    **dict.fromkeys(("a", "model_a", "response_a", "answer_a", "output_a", "1", "model_1", "response_1"), 0),
    **dict.fromkeys(("b", "model_b", "response_b", "answer_b", "output_b", "2", "model_2", "response_2"), 1),
    **dict.fromkeys(("tie", "tie (bothbad)", "both", "equal", "none", "draw", "bothbad"), None),
}


def _winner(value: Any) -> int | None:
    """A name in the verdict, or 1 and 2."""
    key = str(value).lower()
    if value is None or key not in _WINNERS:
        raise BadRow(f"unknown verdict: {value!r}")
    return _WINNERS[key]


@dataclass(frozen=True)
class _Pair:
    sides: tuple[str, str]
    verdict: str | None = None
    winner: Callable[[Any], int | None] = _winner
    models: tuple[str, str] | None = None


_PAIRS: tuple[_Pair, ...] = (
    _Pair(("output_1", "output_2"), "preference", _nearer, ("generator_1", "generator_2")),
    _Pair(("response_0", "response_1"), "better_response_id", _index),
    _Pair(("response1", "response2"), "overall_preference", _by_sign),
    _Pair(("human_ref_A", "human_ref_B"), "labels", _first_is_one),
    _Pair(("conversation_a", "conversation_b"), "winner", _winner, ("model_a", "model_b")),
    *(
        _Pair((f"{side}{first}", f"{side}{second}"), verdict, _winner, ("model_a", "model_b"))
        for side in ("response_", "answer_", "output_", "completion_")
        for first, second in (("a", "b"), ("A", "B"), ("1", "2"))
        for verdict in ("winner", "preference", "preferred", "choice")
    ),
    # StackExchange pairs: by definition of the set, j was voted higher than k.
    _Pair(("response_j", "response_k"), None, lambda _: 0),
    # No verdict at all: two answers to one question.
    *(_Pair(pair, None, lambda _: None) for pair in (("answer1", "answer2"), ("response1", "response2"))),
)


def _pair_of(names: frozenset[str]) -> _Pair | None:
    for pair in _PAIRS:
        is_asked = pair.sides[0].startswith("conversation") or any(name in names for name in _ASKS)
        if is_asked and names.issuperset(pair.sides) and (pair.verdict is None or pair.verdict in names):
            return pair
    return None


def _ask_of(names: frozenset[str]) -> str | None:
    return next((name for name in _ASKS if name in names), None)


def _list_of(names: frozenset[str]) -> str | None:
    return next((name for name in _LISTS if name in names), None) if _ask_of(names) else None


def _prompt(fields: Fields, name: str) -> tuple[list[Message], dict[str, object]]:
    if kind_of(fields[name]) == "list":
        return messages_of(fields, name)
    return [Message("user", text_of(fields, name))], {}


def _side(fields: Fields, name: str) -> list[Message]:
    if kind_of(fields[name]) == "list":
        messages, unusual = messages_of(fields, name)
        if "turns" in unusual:
            raise BadRow(f"unusual turns: {name} has fields that a ranking cannot keep")
        return messages
    return [split_trace(Message("assistant", text_of(fields, name)))]


def _pairwise(fields: Fields, pair: _Pair) -> Draft | list[Draft]:
    ask = None if pair.sides[0].startswith("conversation") else _ask_of(frozenset(fields))
    prompt, unusual = ([], {}) if ask is None else _prompt(fields, ask)
    winner = pair.winner(None if pair.verdict is None else value_of(fields[pair.verdict]))
    sides = [_side(fields, name) for name in pair.sides]
    shared = 0
    while shared < min(map(len, sides)) - 1 and sides[0][shared] == sides[1][shared]:
        shared += 1
    form: dict[str, object] = {"keys": list(fields), "ask": ask, "sides": list(pair.sides), "shared": shared}
    if unusual:
        form["written"] = unusual
    used = (*pair.sides,) if ask is None else (*pair.sides, ask)
    models = [
        text_of(fields, name, required=False) if name in fields and kind_of(fields[name]) == "text" else None
        for name in pair.models or ()
    ] or [None, None]
    if winner is not None:
        draft = Draft([*prompt, *sides[winner]], kind="preference", rejected=sides[1 - winner][shared:], used=used)
        draft.form = {**form, "chosen": winner}
        if models[winner] is not None:
            draft.metadata = {"teacher": models[winner] or ""}
        return metadata_of(fields, draft)
    drafts = []
    for index, side in enumerate(sides):
        draft = Draft([*prompt, *side], group=OF_ROW, used=used, form={**form, "part": [index, 2]})
        if models[index] is not None:
            draft.metadata = {"teacher": models[index] or ""}
        drafts.append(metadata_of(fields, draft))
    return drafts


def _listed(fields: Fields, name: str) -> list[Draft]:
    ask = _ask_of(frozenset(fields))
    assert ask is not None
    prompt, _ = _prompt(fields, ask)
    items = items_of(fields[name])
    if not items:
        raise BadRow(f"no records: {name} is empty")
    beside = {
        key: values
        for key in (*_SCORES, "models", "model")
        if key in fields and kind_of(fields[key]) == "list" and len(values := items_of(fields[key])) == len(items)
    }
    drafts = []
    for index, item in enumerate(items):
        draft = Draft([], kind="feedback", group=OF_ROW, used=(ask, name, *beside))
        draft.left = {key: raw_text(values[index]) for key, values in beside.items()}
        inner = {name: item} if kind_of(item) == "text" else fields_of(item, f"an item of {name}")
        text_name = name if kind_of(item) == "text" else next((key for key in _INNER_TEXTS if key in inner), None)
        if text_name is None:
            raise BadRow(f"no answer: item {index} of {name} has {', '.join(sorted(inner))[:80]}")
        draft.messages = [*prompt, split_trace(Message("assistant", text_of(inner, text_name)))]
        draft.form = {"keys": list(fields), "ask": ask, "list": name, "part": [index, len(items)]}
        if kind_of(item) != "text":
            draft.form["item"] = list(inner)
            rest = {key: raw_text(raw) for key, raw in inner.items() if key != text_name}
            draft.left = {**draft.left, name: object_text(rest)}
        model = inner.get("model", beside.get("models", [None] * len(items))[index])
        if model is not None and kind_of(model) == "text":
            draft.metadata = {"teacher": value_of(model)}
        drafts.append(metadata_of(fields, draft))
    return drafts


def _fits(fields: Fields) -> bool:
    names = frozenset(fields)
    if _pair_of(names) is not None:
        return True
    name = _list_of(names)
    if name is None or kind_of(fields[name]) != "list":
        return False
    items = items_of(fields[name])
    if any(key in fields and kind_of(fields[key]) == "list" for key in _SCORES):
        return True
    # An object among the answers must say how good it is, or the list is one of samples.
    return bool(items) and kind_of(items[0]) == "object" and bool(_INNER_SCORES & fields_of(items[0], name).keys())


def _convert(fields: Fields) -> Draft | list[Draft]:
    pair = _pair_of(frozenset(fields))
    if pair is not None:
        return _pairwise(fields, pair)
    name = _list_of(frozenset(fields))
    assert name is not None
    return _listed(fields, name)


def restore(record: Mapping[str, Any]) -> str:
    """The JSON text of a judged pair of texts."""
    form = json.loads(record["provenance"]["form"])
    if "part" in form or form["shared"] or form["ask"] is None:
        raise Unrestorable("it is one of several records of its row, or has turns of its own")
    values = restored_tags(record, form)
    values[form["ask"]] = json_text(record["messages"][0]["content"])
    for name, message in zip(
        (form["sides"][form["chosen"]], form["sides"][1 - form["chosen"]]),
        (record["messages"][-1], record["rejected"][-1]),
        strict=True,
    ):
        wrap = message["wrap"]
        trace = "" if wrap is None else f"{wrap['open']}{message['reasoning']}{wrap['close']}"
        values[name] = json_text(f"{trace}{message['content']}")
    return in_order(form["keys"], values)


ADAPTER = Adapter(
    "ranked",
    lambda names: not names & TURNS and (_pair_of(names) is not None or _list_of(names) is not None),
    _convert,
    '{"instruction": "1 + 1?", "output_1": "3", "output_2": "2", "preference": 2}',
    fits=_fits,
    restore=restore,
)
