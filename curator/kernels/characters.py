"""What each character is to a shingle: part of a word, a word of its own, or a separator; and its lower case."""

import unicodedata
from functools import cache

import numpy as np

SEPARATOR, WORD, ALONE, SPACE = 0, 1, 2, 3
"""Classes of code points. SPACE separates words too; character shingles write a run of it as one blank."""

_OPERATORS = "+-*/=<>%^|~&$#@\\"
# Scripts that are written without spaces between words: every character counts as a word.
_UNSPACED = [
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),  # Katakana extensions
    (0x3400, 0x4DBF),  # Han, extension A
    (0x4E00, 0x9FFF),  # Han
    (0xA9E0, 0xA9FE),  # Myanmar, extension B
    (0xAA60, 0xAA7F),  # Myanmar, extension A
    (0xF900, 0xFAFF),  # Han, compatibility
    (0x1AFF0, 0x1B16F),  # Kana extensions
    (0x20000, 0x323AF),  # Han, extensions B to H
]
_LAST = 0x33000


@cache
def character_tables() -> tuple[np.ndarray, np.ndarray]:
    """Classes, uint8, and simple lower case, uint32, both of shape [0x33000] by code point; later ones separate.

    Letters, marks, numbers and the underscore make words. Operators, currency signs and other symbols are words of
    their own, so that `12+30` and `12*30` differ; punctuation separates. Categories are those of Python's Unicode.
    """
    classes = np.zeros(_LAST, np.uint8)
    lower = np.arange(_LAST, dtype=np.uint32)
    for code, category in enumerate(map(unicodedata.category, map(chr, range(_LAST)))):
        kind = category[0]
        if kind in "LMN":
            classes[code] = WORD
            if category in ("Lu", "Lt") and len(small := chr(code).lower()) == 1:
                lower[code] = ord(small)
        elif kind == "S":
            classes[code] = ALONE
        elif kind == "Z":
            classes[code] = SPACE
    for first, last in _UNSPACED:
        block = classes[first : last + 1]
        block[block == WORD] = ALONE
    classes[[ord(character) for character in _OPERATORS]] = ALONE
    classes[ord("_")] = WORD
    classes[[ord(character) for character in "\t\n\v\f\r\x85"]] = SPACE
    return classes, lower
