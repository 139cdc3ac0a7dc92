"""Do the tokens that carry loss decode to the answers? Asked of a sample of records before any training."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curator.chat.messages import Conversation, all_text, template_messages
from curator.chat.template import Piece
from curator.chat.tokenizer import OK, ChatTokenizer
from curator.errors import CuratorError

MAX_PROBLEMS_SHOWN = 3


@dataclass(frozen=True)
class Problem:
    """One way in which a record's loss does not lie on its answers."""

    record: str
    """Id of the record."""
    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.record}: {self.what}: expected {_shorten(self.expected)}, found {_shorten(self.found)}"


@dataclass(frozen=True)
class AuditReport:
    """What an audit looked at and found."""

    num_records: int
    """Records with status ok; the others never reach training."""
    num_turns: int
    problems: tuple[Problem, ...]

    def require_clean(self, where: str | Path) -> None:
        """Raise CuratorError with examples when there are problems; `where` names the model folder."""
        if not self.problems:
            return
        failed = len({problem.record for problem in self.problems})
        shown = "; ".join(map(str, self.problems[:MAX_PROBLEMS_SHOWN]))
        raise CuratorError(
            f"{where}: the mask audit failed for {failed} of {self.num_records} records: {shown}",
            hint="the chat template changes, drops or adds text inside its generation blocks; correct it",
        )


def stop_ids(folder: str | Path, chat: ChatTokenizer) -> set[int]:
    """Ids at which generation ends: those of generation_config.json (else config.json) and the tokenizer's eos."""
    found: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        path = Path(folder) / name
        eos = json.loads(path.read_text()).get("eos_token_id") if path.is_file() else None
        if eos is not None:
            found = {eos} if isinstance(eos, int) else set(eos)
            break
    eos_id = chat.token_id("eos_token")
    return found if eos_id is None else found | {eos_id}


def audit(
    chat: ChatTokenizer, records: Sequence[Conversation], ids: Sequence[str], stops: Iterable[int]
) -> AuditReport:
    """Encode `records` (named by `ids`), decode what carries loss and compare it with their messages."""
    encoded = chat.encode_conversations(records)
    problems: list[Problem] = []
    num_records = num_turns = 0
    for index, (record, record_id) in enumerate(zip(records, ids, strict=True)):
        if encoded.status[index] != OK:
            continue
        answers = [message for message in record.messages if message["role"] == "assistant"]
        num_records += 1
        num_turns += len(answers)
        found = _audit_record(chat, record, answers, encoded[index].ids, encoded[index].weights, set(stops))
        problems += [Problem(record_id, *problem) for problem in found]
    return AuditReport(num_records, num_turns, tuple(problems))


def _audit_record(
    chat: ChatTokenizer,
    record: Conversation,
    answers: Sequence[Mapping[str, Any]],
    ids: Any,
    weights: Any,
    stops: set[int],
) -> list[tuple[str, str, str]]:
    problems = []
    pieces, _ = chat.pieces(record)
    shown = template_messages(record.messages, chat.inlines_reasoning)
    whole = "".join(piece.text for piece in pieces)
    for message in shown:
        if message["content"].strip() not in whole:
            problems.append((f"the {message['role']} message is not in the text", message["content"], whole))
    bos = chat.token_id("bos_token")
    if bos is not None and len(ids) > 1 and ids[0] == ids[1] == bos:
        problems.append(("the text begins with two bos tokens", "one", "two"))

    trained = [record.loss_weight != 0 and answer.get("weight") != 0 for answer in answers]
    expected = "".join(_turn_text(pieces, turn) for turn, is_trained in enumerate(trained) if is_trained)
    decoded = chat.decode(ids[weights > 0])
    if not _same_text(decoded, expected, exact=not chat.start_matters):
        problems.append(("decoded tokens with loss are not the rendered answers", expected, decoded))

    shown_answers = [message for message in shown if message["role"] == "assistant"]
    for turn, (answer, message, is_trained) in enumerate(zip(answers, shown_answers, trained, strict=True)):
        if is_trained:
            problems += _audit_turn(chat, _turn_text(pieces, turn), answer, message, stops)
    return problems


def _audit_turn(
    chat: ChatTokenizer, text: str, answer: Mapping[str, Any], message: Mapping[str, Any], stops: set[int]
) -> list[tuple[str, str, str]]:
    """Problems of one trained turn: `text` is what its generation block rendered."""
    problems = []
    stop = next((word for word in (chat.decode([id_]) for id_ in sorted(stops)) if text.endswith(word)), None)
    if stop is None:
        words = " or ".join(repr(chat.decode([id_])) for id_ in sorted(stops)) or "a stop token"
        problems.append(("no stop token at the end of an answer", words, text[-40:]))
    body = text.removesuffix(stop or "")
    has_trace = answer.get("reasoning") is not None and not chat.inlines_reasoning
    if has_trace and answer["reasoning"].strip() not in body:
        problems.append(("the reasoning is not in the answer", answer["reasoning"], body))
    calls = message.get("tool_calls") or []
    for word in _call_words(calls):
        if word not in body:
            problems.append(("a tool call is not in the answer", word, body))
    if message["content"].strip() not in body:
        problems.append(("the content is not in the answer", message["content"], body))
    elif not has_trace and not calls and body.strip() != message["content"].strip():
        problems.append(("the answer carries text of the template", message["content"], body))
    return problems


def _same_text(one: str, other: str, exact: bool) -> bool:
    """Tokenizers that put a space before the start of a text take it away again when decoding: not `exact`."""
    return one == other if exact else "".join(one.split()) == "".join(other.split())


def _turn_text(pieces: Sequence[Piece], turn: int) -> str:
    return "".join(piece.text for piece in pieces if piece.turn == turn)


def _call_words(calls: Sequence[Mapping[str, Any]]) -> list[str]:
    """Text that a rendered tool call must show: names, and the words of its arguments however they are quoted."""
    functions = [call.get("function", call) for call in calls]
    texts = [text for function in functions for text in all_text([function.get("name"), function.get("arguments")])]
    return [word for text in texts for word in re.findall(r"[A-Za-z0-9]+", text)]


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:50]} ... {text[-25:]}")
