"""Images in conversations: where they stand in the text, and where their bytes come from.

An image is a part of a turn's content (OpenAI, Anthropic, `datasets` and LLaMA-Factory v1 spell parts differently), or
it comes with the row, in a field `image` or `images`. A field's images have a place only when the turns say so: by
parts of type image without a source of their own, or by the text `<image>`, as often as the field has images. Then the
mark leaves the text and its place is kept. In all other cases `<image>` is text like any other.

A turn's `images` hold, until ingest stores them (`curator.io.media`), `offset` (bytes of UTF-8 of the content before
the image) and `data` (bytes), `reference` (a path or an address), or neither.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from curator.io.adapters.base import (
    BadRow,
    Draft,
    Fields,
    Message,
    fields_of,
    kind_of,
    text_of,
    value_of,
)

MARK = "<image>"
FIELDS = ("images", "image")
IMAGE_PARTS = frozenset({"image", "image_url", "input_image"})
_SOURCES = ("image_url", "image", "source", "value", "url", "path", "base64", "data", "bytes")

_list = msgspec.json.Decoder(list[msgspec.Raw])

Image = dict[str, Any]


class Reference(msgspec.Struct):
    """Where the bytes of an image come from: `data`, or `text`, a path or an address."""

    text: str | None = None
    data: bytes | None = None
    encoded: bytes = b""
    """The base64 text of `data`, when encoding `data` gives just this text again."""

    def image(self, offset: int) -> Image:
        if self.data is not None:
            return {"offset": offset, "data": self.data}
        return {"offset": offset, "reference": self.text} if self.text is not None else {"offset": offset}


_STAND_IN = re.compile(rb"sha256:([0-9a-f]{64})")


def without_data(raw: bytes, references: Sequence[Reference]) -> bytes:
    """JSON text that holds images, with their digests in place of their data, which is stored apart.

    A text that has such a digest already stays as it came: `with_data` could not tell them apart.
    """
    if _STAND_IN.search(raw):
        return raw
    for reference in references:
        if reference.encoded and reference.data is not None:
            raw = raw.replace(reference.encoded, b"sha256:" + hashlib.sha256(reference.data).hexdigest().encode())
    return raw


# --- references -----------------------------------------------------------------------------------------------------


def _from_text(text: str, is_base64: bool = False) -> Reference:
    if not is_base64 and not text.startswith("data:"):
        return Reference(text)
    head, _, body = text.partition(",") if text.startswith("data:") else ("data:;base64", "", text)
    if not head.endswith(";base64"):
        return Reference(data=unquote_to_bytes(body))
    try:
        data = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return Reference("data:")
    encoded = body.encode()
    return Reference(data=data, encoded=encoded if base64.b64encode(data) == encoded and len(encoded) >= 64 else b"")


def _from_object(fields: Mapping[str, msgspec.Raw]) -> Reference:
    """The first source that an object names and that is not null; `{bytes, path}` columns give the bytes."""
    if "bytes" in fields and kind_of(fields["bytes"]) == "text":
        text = text_of(fields, "bytes") or ""
        # Bytes of a column that are text, as those of an SVG are, have come as this text.
        return _from_text(text) if text.startswith("data:") else Reference(data=text.encode())
    for name in _SOURCES:
        if name not in fields or kind_of(fields[name]) == "null":
            continue
        if kind_of(fields[name]) == "object":
            return _from_object(fields_of(fields[name], name))
        if kind_of(fields[name]) == "text":
            return _from_text(text_of(fields, name) or "", name in ("base64", "data"))
        raise BadRow(f"wrong type: {name} of an image is {kind_of(fields[name])}, expected text")
    return Reference()


def _references(raw: msgspec.Raw) -> list[Reference] | None:
    """The images of a field; None when it holds anything else."""
    items = _list.decode(raw) if kind_of(raw) == "list" else [raw]
    found = []
    for item in items:
        if kind_of(item) == "text":
            found.append(_from_text(value_of(item)))
        elif kind_of(item) == "object":
            try:
                found.append(_from_object(fields_of(item, "image")))
            except BadRow:
                return None
        else:
            return None
    return found


def reference_of(part: Fields) -> Reference:
    """The image of a part of a content."""
    return _from_object({name: value for name, value in part.items() if name != "type"})


# --- images of a row ------------------------------------------------------------------------------------------------


def place_images(fields: Fields, draft: Draft) -> Draft:
    """Tie the images of a row's field to the places that its turns give them, if they are as many.

    The field stays in `extra` as it came, but for bytes, which are stored apart.
    """
    name = next((name for name in FIELDS if name in fields and name not in draft.used), None)
    if name is None or kind_of(fields[name]) == "null":
        return draft
    references = _references(fields[name])
    if not references:
        return draft
    turns = [*draft.messages, *(draft.rejected or ())]
    slots = [image for turn in turns for image in turn.images or () if image.keys() == {"offset"}]
    has_parts = any(turn.images for turn in turns)
    if slots and len(slots) == len(references):
        for slot, reference in zip(slots, references, strict=True):
            slot |= reference.image(slot["offset"])
        draft.form = {**draft.form, "images": {"field": name}}
    elif not has_parts and sum((turn.content or "").count(MARK) for turn in turns) == len(references):
        left = iter(references)
        for turn in turns:
            if MARK in (turn.content or ""):
                _lift_marks(turn, left.__next__)
        draft.form = {**draft.form, "images": {"field": name, "mark": MARK}}
    else:
        draft.issues = (*draft.issues, "image_unplaced")
        return draft
    raw = bytes(fields[name])
    short = without_data(raw, references)
    if short != raw:
        draft.used = (*draft.used, name)
        draft.left = {**draft.left, name: short.decode()}
    return draft


def _lift_marks(turn: Message, reference: Callable[[], Reference]) -> None:
    pieces = (turn.content or "").split(MARK)
    turn.images = []
    offset = 0
    for piece in pieces[:-1]:
        offset += len(piece.encode())
        turn.images.append(reference().image(offset))
    turn.content = "".join(pieces)


# --- back -----------------------------------------------------------------------------------------------------------


def all_images(record_form: Mapping[str, Any], side: str, turn: int, images: Sequence[Image] | None) -> list[Image]:
    """The images of a turn of a record (`side` is messages or rejected) with those that are missing, in order."""
    found: list[Image] = [dict(image) for image in images or ()]
    for image in record_form.get("missing_images", ()):
        if (image["side"], image["turn"]) == (side, turn):
            found.insert(image["at"], image)
    return found


def marked(content: str, images: Sequence[Image], mark: str = MARK) -> str:
    """The content with a mark at the place of every image."""
    data = content.encode()
    pieces = []
    start = 0
    for image in images:
        pieces.append(data[start : image["offset"]])
        start = image["offset"]
    return mark.join(piece.decode() for piece in [*pieces, data[start:]])


def with_marks(record: Mapping[str, Any], form: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record with marks for its images in the texts that they were lifted from."""
    mark = form.get("images", {}).get("mark")
    if mark is None:
        return record
    turns = {}
    for side in ("messages", "rejected"):
        turns[side] = record[side] and [
            {**turn, "content": marked(turn["content"] or "", images, mark)}
            if (images := all_images(form, side, number, turn["images"]))
            else turn
            for number, turn in enumerate(record[side])
        ]
    return {**record, **turns}


def with_data(text: str, media: Callable[[str], bytes]) -> str:
    """JSON text with the base64 text of stored images in their places again."""
    return _STAND_IN.sub(lambda match: base64.b64encode(media(match[1].decode())), text.encode()).decode()
