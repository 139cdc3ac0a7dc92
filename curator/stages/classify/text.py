"""The copies of a record's text that classifiers read. What is stored is never touched."""

import pyarrow as pa
import pyarrow.compute as pc

LABEL_CHARS = 4_000
"""A label classifier reads this many characters from the beginning of a text."""
LANGUAGE_CHARS = 20_000
"""Of this many characters from the beginning, what is natural language remains; the first `LETTER_CHARS` are read."""
LETTER_CHARS = 2_000

# Written without spaces between words: each character stands as a word of its own, pairs of them are word pairs.
_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"

# Whatever is not a letter, mark or digit stands alone, so that no text can hold a token that fastText takes for a
# label or an end of line (`__label__x`, `</s>`).
_SYMBOL = r"([^\p{L}\p{M}\p{N}\s])"

_NOT_LANGUAGE = [
    r"(?s:```.*?(?:```|\z))",  # fenced code
    r"`[^`\n]{1,300}`",
    r"(?s:\$\$.*?\$\$)|\$[^$\n]*[\\^_={}][^$\n]*\$|(?s:\\\[.*?\\\])|\\\([^\n]*?\\\)",  # formulas
    r"\\[A-Za-z]+",  # LaTeX commands
    r"https?://\S+|\b[\w.+-]+@[\w.-]+\.\w+",
    r'"[\w .-]{0,60}"\s*:',  # keys of JSON
    r"[!-~]*[A-Za-z0-9_][(\[{=_<>\\^*+~][!-~]*",  # words of code: f(x), a_b, x=1
]
_STRIPPED = "|".join(_NOT_LANGUAGE)
# Zero-width joiners and apostrophes belong to words.
_NOT_LETTERS = r"[^\p{L}\p{M}\x{200C}\x{200D}'’]+"


def label_lines(texts: pa.StringArray) -> pa.StringArray:
    """One line a text for fastText: lower case, tokens between single spaces, numbers as `0`; string [num_rows].

    Line breaks of all kinds, NUL and other control characters become spaces.
    """
    lines = pc.utf8_lower(pc.utf8_slice_codeunits(texts, 0, LABEL_CHARS))
    lines = pc.replace_substring_regex(lines, r"[\s\p{Cc}\p{Zl}\p{Zp}\p{Zs}]+", " ")
    lines = pc.replace_substring_regex(lines, r"\p{Nd}+", "0")
    lines = pc.replace_substring_regex(lines, _SYMBOL, r" \1 ")
    lines = pc.replace_substring_regex(lines, f"({_UNSPACED})", r" \1 ")
    return pc.utf8_trim(pc.replace_substring_regex(lines, r" {2,}", " "), " ")


def letters(texts: pa.StringArray) -> pa.StringArray:
    """The natural language of each text, letters between single spaces: without code, formulas, links and symbols."""
    words = pc.utf8_slice_codeunits(texts, 0, LANGUAGE_CHARS)
    words = pc.replace_substring_regex(words, _STRIPPED, " ")
    words = pc.replace_substring_regex(words, _NOT_LETTERS, " ")
    return pc.utf8_trim(pc.utf8_slice_codeunits(words, 0, LETTER_CHARS), " ")


def letter_weight(words: pa.StringArray) -> pa.Array:
    """How much there is to go by: letters, those of scripts without spaces and of Hangul for four; int64 [num_rows]."""
    count = pc.count_substring_regex(words, r"\p{L}")
    dense = pc.count_substring_regex(words, rf"{_UNSPACED}|\p{{Hangul}}")
    return pc.add(count, pc.multiply(dense, 3)).cast(pa.int64())
