"""Near-duplicates by the book: shingles as Python sets, every pair compared. Shares nothing with the kernels."""

import unicodedata
from collections.abc import Iterator

OPERATORS = "+-*/=<>%^|~&$#@\\"
UNSPACED = (
    "CJK UNIFIED",
    "CJK COMPATIBILITY IDEOGRAPH",
    "HIRAGANA",
    "KATAKANA",
    "THAI",
    "LAO",
    "KHMER",
    "MYANMAR",
    "COMBINING KATAKANA",
    "HENTAIGANA",
)
BLANKS = "\t\n\v\f\r\x85"


def lower(character: str) -> str:
    small = character.lower()
    return small if len(small) == 1 and unicodedata.category(character) in ("Lu", "Lt") else character


def stands_alone(character: str) -> bool:
    category = unicodedata.category(character)
    if character in OPERATORS or category[0] == "S":
        return True
    return category[0] in "LMN" and unicodedata.name(character, "").startswith(UNSPACED)


def is_blank(character: str) -> bool:
    return character in BLANKS or unicodedata.category(character)[0] == "Z"


def words(text: str) -> list[str]:
    def pieces() -> Iterator[str]:
        word = ""
        for character in text:
            if stands_alone(character):
                yield from (word, character)
                word = ""
            elif unicodedata.category(character)[0] in "LMN" or character == "_":
                word += lower(character)
            else:
                yield word
                word = ""
        yield word

    return [piece for piece in pieces() if piece]


def characters(text: str) -> list[str]:
    blanked = "".join(" " if is_blank(character) else lower(character) for character in text)
    return list(" ".join(part for part in blanked.split(" ") if part))


def shingles(text: str, unit: str = "words", size: int = 3) -> set[tuple[str, ...]]:
    if all(is_blank(character) for character in text):
        return set()
    units = words(text) if unit == "words" else characters(text)
    if not units:
        return {("only", text)}
    if len(units) < size:
        return {("short", *units)}
    return {tuple(units[place : place + size]) for place in range(len(units) - size + 1)}


def jaccard(one: set[tuple[str, ...]], other: set[tuple[str, ...]]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0


def keepers(texts: list[str], threshold: float, unit: str = "words", size: int = 3) -> list[tuple[int, float] | None]:
    """For each text, in keep order: the kept one that it is most similar to (the earliest of equals) and how much, or
    None where it stays. As if every pair shared a band."""
    sets = [shingles(text, unit, size) for text in texts]
    kept: list[int] = []
    result: list[tuple[int, float] | None] = []
    for number, own in enumerate(sets):
        found = [(jaccard(own, sets[other]), -other) for other in kept]
        best, place = max(found, default=(0.0, 0))
        if best >= threshold:
            result.append((-place, best))
        else:
            kept.append(number)
            result.append(None)
    return result
