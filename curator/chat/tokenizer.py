"""ChatTokenizer: a tokenizer with its chat template, from a model folder; records in, ids and loss weights out."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from curator.chat.messages import Conversation, MessageFault, all_text, conversations, template_messages, template_tools
from curator.chat.template import MARK_PATTERN, Marks, Piece, Template, TemplateFault, cut_pieces
from curator.errors import CuratorError
from curator.extras import require

OK = "ok"
NO_SUPERVISED_TOKENS = "no_supervised_tokens"
"""Nothing in the record carries loss: no answer, or every weight is 0."""
MASK_MISMATCH = "mask_mismatch"
"""The template did not mark exactly one generation block of text for each assistant message."""
TEMPLATE_ERROR = "template_error"
"""The template or the message's own JSON failed; the detail says how."""
BAD_WEIGHT = "bad_weight"
"""A weight is negative or not finite."""

MASK_POLICY = "assistant-turns-1"
"""Names what carries loss, for digests: every assistant turn, times message weight, times record weight."""

_PART_CHARACTERS = 1 << 22
"""Text that the tokenizer gets at once."""

_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_NO_MARKS = Marks.absent_from("")
assert _NO_MARKS is not None
_USUAL_MARKS = _NO_MARKS


@dataclass(frozen=True)
class EncodedBatch:
    """Tokens of a batch of records, end to end; record i owns `[offsets[i], offsets[i + 1])`."""

    ids: np.ndarray
    """[num_tokens] int32."""
    weights: np.ndarray
    """[num_tokens] float32: the weight of predicting this token; 0 where no loss."""
    offsets: np.ndarray
    """[num_records + 1] int64."""
    supervised: np.ndarray
    """[num_records] int32: tokens of positive weight."""
    status: list[str]
    detail: list[str | None]

    def __len__(self) -> int:
        return len(self.status)

    def __getitem__(self, index: int) -> "Encoded":
        span = slice(self.offsets[index], self.offsets[index + 1])
        supervised = int(self.supervised[index])
        return Encoded(self.ids[span], self.weights[span], supervised, self.status[index], self.detail[index])


@dataclass(frozen=True)
class Encoded:
    """Tokens of one record: `ids` [n] int32, `weights` [n] float32, tokens of positive weight, status."""

    ids: np.ndarray
    weights: np.ndarray
    supervised: int
    status: str
    detail: str | None = None


@dataclass(frozen=True)
class _Plan:
    """A record rendered and cut, before tokens: pieces with the loss weight of each."""

    pieces: Sequence[Piece] = ()
    weights: Sequence[float] = ()
    status: str = OK
    detail: str | None = None


class ChatTokenizer:
    """Counts tokens of text, and turns conversations into ids whose loss weights lie exactly on the answers."""

    def __init__(self, tokenizer_json: str, template: str | None, special_tokens: Mapping[str, str]) -> None:
        """`tokenizer_json` is the text of a tokenizer.json; `special_tokens` maps names (`eos_token`) to text."""
        self._tokenizer: Any = require("tokenizers", "train").Tokenizer.from_str(tokenizer_json)
        # Length is the trainer's business; a tokenizer that cuts or pads by itself would do it silently.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.special_tokens = dict(special_tokens)
        self.template = None if template is None else Template(template, self.special_tokens)
        self.digest = _digest(tokenizer_json, template, self.special_tokens)
        self.num_ids: int = max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        self._control = self._control_tokens()
        self._control_pattern = re.compile("|".join(map(re.escape, self._control)) or "(?!)")
        self._suspicious = re.compile(f"{self._control_pattern.pattern}|{MARK_PATTERN.pattern}")
        self._lead_ids: list[int] = self._tokenizer.encode("\n", add_special_tokens=False).ids
        self.start_matters = self._treats_start_of_text_apart()
        """The start of a text is tokenised otherwise than the same words further on."""
        self.inlines_reasoning = self.template is not None and not self._template_shows_reasoning()

    @classmethod
    def load(cls, folder: str | Path, needs_template: bool = True) -> "ChatTokenizer":
        """Read `tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja` of a model folder.

        With `needs_template` a template without generation marks is refused. Raises CuratorError.
        """
        folder = Path(folder)
        config = _read_json(folder / "tokenizer_config.json")
        special_tokens = _special_tokens({**_read_json(folder / "special_tokens_map.json"), **config})
        template = _template_source(folder, config)
        try:
            tokenizer = cls(_tokenizer_json(folder), template, special_tokens)
        except TemplateFault as error:
            raise CuratorError(f"{folder}: the chat template does not parse: {error}") from None
        if needs_template:
            _refuse_unmarked(folder, tokenizer.template)
        return tokenizer

    # --- text ----------------------------------------------------------------------------------------------------

    def count(self, texts: Sequence[str | None] | pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Tokens of each text, [num_texts] int64; null counts 0."""
        if isinstance(texts, pa.Array | pa.ChunkedArray):
            texts = texts.to_pylist()
        filled = [text or "" for text in texts]
        counts = [np.zeros(0, np.int64)]
        for part in _parts(filled, _PART_CHARACTERS):
            encodings = self._tokenizer.encode_batch_fast(filled[part], add_special_tokens=False)
            counts.append(np.fromiter(map(len, encodings), dtype=np.int64, count=len(encodings)))
        return np.concatenate(counts)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids, special tokens included."""
        return self._tokenizer.decode([int(id_) for id_ in ids], skip_special_tokens=False)

    def token_id(self, name: str) -> int | None:
        """Id of a named special token (`eos_token`), None when the tokenizer has none."""
        text = self.special_tokens.get(name)
        return None if text is None else self._tokenizer.token_to_id(text)

    @property
    def pad_id(self) -> int:
        """Any id does: padding is masked by position, never by id."""
        return next((id_ for name in ("pad_token", "eos_token") if (id_ := self.token_id(name)) is not None), 0)

    # --- conversations -------------------------------------------------------------------------------------------

    def render(
        self, messages: Sequence[Mapping[str, Any]], tools: str | None = None, add_generation_prompt: bool = False
    ) -> str:
        """The text of a conversation. Raises TemplateFault or MessageFault."""
        shown = template_messages(messages, self.inlines_reasoning)
        return self._require_template().render(shown, template_tools(tools), None, add_generation_prompt)

    def encode(
        self, messages: Sequence[Mapping[str, Any]], tools: str | None = None, loss_weight: float | None = None
    ) -> Encoded:
        """Tokens of one conversation; `messages` as the record holds them, `tools` as JSON text."""
        return self.encode_conversations([Conversation(messages, tools, loss_weight)])[0]

    def encode_batch(self, batch: pa.RecordBatch) -> EncodedBatch:
        """Tokens of a batch with columns `messages` and, where it has them, `tools` and `loss_weight`."""
        return self.encode_conversations(conversations(batch))

    def encode_conversations(self, records: Iterable[Conversation]) -> EncodedBatch:
        plans = [self._plan(record) for record in records]
        pieces = [piece.text for plan in plans for piece in plan.pieces]
        starts = [index == 0 for plan in plans for index in range(len(plan.pieces))]
        ids, piece_lengths = self._encode_pieces(pieces, starts)
        piece_weights = np.array([weight for plan in plans for weight in plan.weights], dtype=np.float32)
        weights = np.repeat(piece_weights, piece_lengths)

        piece_offsets = np.concatenate([[0], np.cumsum(piece_lengths)])
        plan_offsets = np.cumsum([0, *(len(plan.pieces) for plan in plans)])
        offsets = piece_offsets[plan_offsets]
        # Nothing predicts the first token of a record.
        weights[offsets[:-1][offsets[:-1] < offsets[1:]]] = 0
        supervised_until = np.concatenate([[0], np.cumsum(weights > 0)])
        supervised = (supervised_until[offsets[1:]] - supervised_until[offsets[:-1]]).astype(np.int32)
        status = [
            NO_SUPERVISED_TOKENS if plan.status == OK and count == 0 else plan.status
            for plan, count in zip(plans, supervised.tolist(), strict=True)
        ]
        return EncodedBatch(ids, weights, offsets, supervised, status, [plan.detail for plan in plans])

    def pieces(self, record: Conversation) -> tuple[list[Piece], int]:
        """The rendered conversation in pieces to tokenise apart, and the number of generation blocks.

        Raises TemplateFault or MessageFault.
        """
        messages = template_messages(record.messages, self.inlines_reasoning)
        tools = template_tools(record.tools)
        text = "\0".join(all_text([messages, tools]))
        marks = _USUAL_MARKS
        if not self._suspicious.search(text):
            return cut_pieces(self._require_template().render(messages, tools, marks), marks)
        return self._defused_pieces(record, text)

    def _plan(self, record: Conversation) -> _Plan:
        try:
            pieces, num_turns = self.pieces(record)
        except (TemplateFault, MessageFault) as error:
            return _Plan(status=TEMPLATE_ERROR, detail=str(error))
        answers = [message for message in record.messages if message["role"] == "assistant"]
        filled = {piece.turn for piece in pieces if piece.turn >= 0}
        if num_turns != len(answers) or len(filled) != num_turns:
            detail = f"{len(answers)} assistant messages, {num_turns} generation blocks, {len(filled)} with text"
            return _Plan(status=MASK_MISMATCH, detail=detail)
        record_weight = 1.0 if record.loss_weight is None else record.loss_weight
        turn_weights = [record_weight * (1.0 if (w := answer.get("weight")) is None else w) for answer in answers]
        if not all(0 <= weight < np.inf for weight in turn_weights):
            return _Plan(status=BAD_WEIGHT, detail=f"weights of the answers: {turn_weights}")
        return _Plan(pieces, [turn_weights[piece.turn] if piece.turn >= 0 else 0.0 for piece in pieces])

    def _defused_pieces(self, record: Conversation, text: str) -> tuple[list[Piece], int]:
        """Pieces of a record that quotes control tokens: each quote is cut in two, so that it stays plain text."""
        marks = Marks.absent_from(text)
        if marks is None:
            raise TemplateFault("the text holds every noncharacter from U+FDD0 to U+FDEF")

        def defuse(value: str) -> str:
            parts, start = [], 0
            while match := self._control_pattern.search(value, start):
                parts.append(value[start : match.start() + 1])
                start = match.start() + 1
            return marks.cut.join([*parts, value[start:]])

        def rendered(change: Any) -> str:
            messages = template_messages(record.messages, self.inlines_reasoning, change)
            return self._require_template().render(messages, template_tools(record.tools, change), marks)

        safe = rendered(defuse)
        if safe.replace(marks.cut, "") != rendered(str):
            raise TemplateFault("control tokens quoted in the text change what the template writes")
        return cut_pieces(safe, marks)

    def _encode_pieces(self, pieces: list[str], starts: list[bool]) -> tuple[np.ndarray, np.ndarray]:
        """Ids of the pieces as they read inside their texts, end to end (int32), and the number of each (int64).

        `starts` tells which pieces begin a text.
        """
        ids, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        # In parts, because what the tokenizer returns is many times as large as the ids.
        for part in _parts(pieces, _PART_CHARACTERS):
            found = self._encode_part(pieces[part], starts[part])
            lengths.append(np.fromiter(map(len, found), dtype=np.int64, count=len(found)))
            ids.append(np.fromiter(chain.from_iterable(found), dtype=np.int32, count=int(lengths[-1].sum())))
        return np.concatenate(ids), np.concatenate(lengths)

    def _encode_part(self, pieces: list[str], starts: list[bool]) -> list[list[int]]:
        if not self.start_matters:
            return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(pieces, add_special_tokens=False)]
        # These tokenizers put a space before the start of any text. A newline in front takes it, and goes away.
        led = [piece if start else "\n" + piece for piece, start in zip(pieces, starts, strict=True)]
        encodings = self._tokenizer.encode_batch_fast(led, add_special_tokens=False)
        num_lead = len(self._lead_ids)
        results = []
        for encoding, piece, start in zip(encodings, pieces, starts, strict=True):
            ids = encoding.ids
            if not start:
                if ids[:num_lead] == self._lead_ids:
                    ids = ids[num_lead:]
                else:  # the newline grew together with the piece
                    ids = self._tokenizer.encode(piece, add_special_tokens=False).ids
            results.append(ids)
        return results

    def _treats_start_of_text_apart(self) -> bool:
        alone = self._tokenizer.encode("word", add_special_tokens=False).ids
        return self._tokenizer.encode("\nword", add_special_tokens=False).ids != [*self._lead_ids, *alone]

    def _control_tokens(self) -> list[str]:
        """Added tokens that must never come out of a record's text, longest first.

        Special ones, and those that the template writes (Qwen's `<tool_call>` is not special). White space is text,
        and a single character cannot be cut.
        """
        literals = "" if self.template is None else self.template.literal_text
        added = self._tokenizer.get_added_tokens_decoder().values()
        texts = {token.content for token in added if token.special or token.content in literals}
        return sorted((text for text in texts if text.strip() and len(text) > 1), key=lambda text: (-len(text), text))

    def _template_shows_reasoning(self) -> bool:
        probe = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning": "c4f1-trace"}]
        try:
            return "c4f1-trace" in self._require_template().render(template_messages(probe, False), None)
        except TemplateFault:
            return False

    def _require_template(self) -> Template:
        assert self.template is not None, "loaded without a chat template"
        return self.template


def _parts(texts: Sequence[str], characters: int) -> Iterator[slice]:
    """Cut a list of texts into stretches that end with the text which reaches `characters`."""
    first = size = 0
    for index, text in enumerate(texts):
        size += len(text)
        if size >= characters or index == len(texts) - 1:
            yield slice(first, index + 1)
            first, size = index + 1, 0


# --- reading a model folder ----------------------------------------------------------------------------------------


def _digest(tokenizer_json: str, template: str | None, special_tokens: Mapping[str, str]) -> str:
    """Hex xxh3 over all that decides ids and masks."""
    parts = ["curator-chat-1", tokenizer_json, template or "", json.dumps(dict(special_tokens), sort_keys=True)]
    return xxhash.xxh3_128_hexdigest("".join(f"{len(part)}:{part}" for part in parts).encode())


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        data = json.loads(path.read_text())
    except ValueError as error:
        raise CuratorError(f"{path} is not JSON: {error}") from None
    return data if isinstance(data, dict) else {}


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """Names to text; a token stands in the config as text or as an object with `content`."""
    found = {}
    for name in _NAMED_TOKENS:
        token = config.get(name)
        text = token.get("content") if isinstance(token, dict) else token
        if isinstance(text, str):
            found[name] = text
    return found


def _template_source(folder: Path, config: Mapping[str, Any]) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text()
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("default")
    return template


def _tokenizer_json(folder: Path) -> str:
    if not folder.is_dir():
        raise CuratorError(f"{folder}: no such model folder", hint=f"looked in {Path.cwd()}")
    path = folder / "tokenizer.json"
    if path.is_file():
        return path.read_text()
    if any((folder / name).is_file() for name in ("tokenizer.model", "vocab.json", "vocab.txt")):
        # Older formats: transformers knows how to convert them.
        auto = require("transformers", "train").AutoTokenizer.from_pretrained(folder)
        if getattr(auto, "backend_tokenizer", None) is not None:
            return auto.backend_tokenizer.to_str()
    raise CuratorError(f"{folder} has no tokenizer.json", hint="copy the tokenizer files of the model into the folder")


def _refuse_unmarked(folder: Path, template: Template | None) -> None:
    if template is None:
        raise CuratorError(
            f"{folder} has no chat template",
            hint="put chat_template.jinja (with generation marks) beside tokenizer.json",
        )
    if not template.has_generation_marks:
        raise CuratorError(
            f"{folder}: the chat template has no generation marks, so nothing tells which tokens carry loss",
            hint="write {% generation %} ... {% endgeneration %} around the assistant's text in chat_template.jinja",
        )
