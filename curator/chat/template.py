"""Render chat templates as Hugging Face does, and tell which characters lie inside `{% generation %}`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

GENERATION_TAG = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")

# Unicode noncharacters: they never stand for text, so a record that holds one is a rarity that only costs another pick.
_MARK_POOL = [chr(code) for code in range(0xFDD0, 0xFDF0)]
MARK_PATTERN = re.compile("[\ufdd0-\ufdef]")


@dataclass(frozen=True)
class Marks:
    """Three characters that a record's own text does not hold; they show places in rendered text and vanish from it."""

    open: str
    """Begins a generation block."""
    close: str
    """Ends a generation block."""
    cut: str
    """Text must be tokenised apart on its two sides."""

    @classmethod
    def absent_from(cls, text: str) -> "Marks | None":
        free = [mark for mark in _MARK_POOL if mark not in text]
        return cls(*free[:3]) if len(free) >= 3 else None


@dataclass(frozen=True)
class Piece:
    """A stretch of rendered text to tokenise apart from its neighbours."""

    text: str
    turn: int
    """Which generation block it belongs to, counted from 0; -1 outside of all."""


class TemplateFault(Exception):
    """The template refused the conversation, or rendered something that cannot be cut into turns."""


class Template:
    """A compiled chat template. Templates that ask for the date see the moment of loading."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        """Raises TemplateFault when `source` is not a template."""
        from jinja2 import TemplateError

        from curator.chat.environment import literal_text, template_environment

        self.source = source
        self.special_tokens = dict(special_tokens)
        environment = template_environment(datetime.now())
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise TemplateFault(f"line {getattr(error, 'lineno', '?')}: {error}") from None
        self.literal_text = literal_text(environment, source)
        """Every text that the template itself can write."""

    @property
    def has_generation_marks(self) -> bool:
        return GENERATION_TAG.search(self.source) is not None

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] | None,
        marks: Marks | None = None,
        add_generation_prompt: bool = False,
    ) -> str:
        """The text of a conversation, generation blocks between `marks` when given. Raises TemplateFault."""
        try:
            return self._template.render(
                **self.special_tokens,
                messages=messages,
                tools=tools,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                generation_open_mark=marks.open if marks else "",
                generation_close_mark=marks.close if marks else "",
            )
        # A template is a program over foreign data: whatever it trips over is the record's status, not a crash.
        except Exception as error:
            raise TemplateFault(f"{type(error).__name__}: {error}".splitlines()[0]) from None


def cut_pieces(text: str, marks: Marks) -> tuple[list[Piece], int]:
    """The non-empty pieces of rendered text between marks, and the number of generation blocks.

    Raises TemplateFault when blocks are nested or left open.
    """
    pieces: list[Piece] = []
    num_turns, inside, start = 0, False, 0
    for match in re.finditer(f"[{marks.open}{marks.close}{marks.cut}]|\\Z", text):
        if match.start() > start:
            pieces.append(Piece(text[start : match.start()], num_turns - 1 if inside else -1))
        start = match.end()
        if match.group() in (marks.open, marks.close):
            if inside == (match.group() == marks.open):
                raise TemplateFault("generation blocks are nested or left open")
            inside = not inside
            num_turns += inside
    if inside:
        raise TemplateFault("generation blocks are nested or left open")
    return pieces, num_turns
