"""JSON objects as flat tokens: where each value lies, and a hash of the row's shape, without a Python object a row.

A row that cannot be told exactly (not JSON, an escape that may hide a mark, a key twice) is called odd and left to the
general path; so nothing here decides what a bad row is.
"""

from typing import Any

import numpy as np
from numba import njit

from curator.kernels.words import copy_bytes, load64

# Kinds of tokens. Rows of one shape have the same kinds in the same places.
KEY, TEXT, EMPTY_TEXT, NUMBER, TRUE, FALSE, NULL = 0, 1, 2, 3, 4, 5, 6
OBJECT, LIST = 7, 8
"""Opened: their members are tokens too. `pos` and `end` of any object or list hold its brackets."""
OPAQUE_OBJECT, OPAQUE_LIST, OPAQUE_EMPTY = 9, 10, 11
JSON_OBJECT_TEXT, JSON_LIST_TEXT, JSON_SCALAR_TEXT = 12, 13, 14
"""Texts that are JSON themselves, told apart only under the keys that ask for it."""
LITERAL_TEXT, LITERAL_NUMBER = 15, 16
"""Their characters are part of the shape."""
ID_TEXT = 17
"""Part of the shape is which ids of a row are equal, not what they are."""
CALL_TEXT = 18
"""The JSON text of a call: an object with a `name`, without `id` and `function`, and no text for `arguments`."""

# What a key asks for.
OPEN, LITERAL, JSON, ID, FROM, VALUE = 1, 2, 4, 8, 16, 32
"""FROM and VALUE: the value is the text of a call when the other says that a call speaks."""

ESCAPED, BREAK = 1, 2
"""Flags of a text: it holds a backslash; it holds an empty line (two line feeds in a row) or ends in a line feed."""

_ODD, _BLANK = 64, 128
_UNSURE = -2
"""Of a value: JSON, perhaps, but with a text that only the general path can judge."""
_MAX_NUMBER = 200
_MAX_KEYS, _MAX_OPEN, _MAX_IDS, _MAX_LITERAL = 64, 8, 64, 24
_WORDS = np.frombuffer(b"truefalsenull", np.uint8)
_NAME, _ARGUMENTS = np.frombuffer(b"name", np.uint8), np.frombuffer(b"arguments", np.uint8)
_ID, _FUNCTION = np.frombuffer(b"id", np.uint8), np.frombuffer(b"function", np.uint8)
_CALL_NAMES = np.frombuffer(b"function_call", np.uint8), np.frombuffer(b"tool_call", np.uint8)
_FNV, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


@njit(cache=True, nogil=True)
def hash_bytes(data: np.ndarray, begin: int, end: int) -> np.uint64:
    """FNV-1a, 64 bits, of `data[begin:end]` (uint8)."""
    value = _FNV
    for position in range(begin, end):
        value = (value ^ np.uint64(data[position])) * _PRIME
    return value


@njit(cache=True, nogil=True)
def _white(data: np.ndarray, position: int, limit: int) -> int:
    while position < limit:
        byte = data[position]
        if byte != 32 and byte != 10 and byte != 13 and byte != 9:
            break
        position += 1
    return position


@njit(cache=True, nogil=True)
def _hex4(data: np.ndarray, position: int, limit: int) -> int:
    """Four hexadecimal digits as a number, -1 when they are not."""
    if position + 4 > limit:
        return -1
    value = 0
    for index in range(position, position + 4):
        byte: Any = np.int64(data[index])
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 97 <= byte <= 102:
            digit = byte - 87
        elif 65 <= byte <= 70:
            digit = byte - 55
        else:
            return -1
        value = value * 16 + digit
    return value


@njit(cache=True, nogil=True)
def _utf8(data: np.ndarray, position: int, limit: int) -> int:
    """Bytes of the character that begins here with a byte over 127, 0 when it is none."""
    first = data[position]
    if first < 0xC2 or first > 0xF4:
        return 0
    size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if position + size > limit:
        return 0
    second = data[position + 1]
    low, high = 0x80, 0xBF
    if first == 0xE0:
        low = 0xA0
    elif first == 0xED:
        high = 0x9F
    elif first == 0xF0:
        low = 0x90
    elif first == 0xF4:
        high = 0x8F
    if second < low or second > high:
        return 0
    for index in range(position + 2, position + size):
        if data[index] & 0xC0 != 0x80:
            return 0
    return size


@njit(cache=True, nogil=True)
def _code(data: np.ndarray, position: int, size: int) -> int:
    """The number of a valid character of two or three bytes."""
    first: Any = np.int64(data[position])
    second: Any = np.int64(data[position + 1]) & 0x3F
    if size == 2:
        return (first & 0x1F) << 6 | second
    return (first & 0xF) << 12 | second << 6 | np.int64(data[position + 2]) & 0x3F


@njit(cache=True, nogil=True)
def _is_special(code: int) -> bool:
    """Characters that the general path looks for and tags: line ends other than a line feed, a byte order mark."""
    return code == 0x85 or code == 0x2028 or code == 0x2029 or code == 0xFEFF


@njit(cache=True, nogil=True)
def _has_mark(data: np.ndarray, position: int, limit: int, marks: np.ndarray, mark_starts: np.ndarray) -> bool:
    for number in range(mark_starts.shape[0] - 1):
        begin, size = mark_starts[number], mark_starts[number + 1] - mark_starts[number]
        if position + size > limit:
            continue
        index = 0
        while index < size and data[position + index] == marks[begin + index]:
            index += 1
        if index == size:
            return True
    return False


_ONES, _HIGH = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_SPACES, _QUOTES, _SLASHES = _ONES * np.uint64(32), _ONES * np.uint64(34), _ONES * np.uint64(92)


@njit(cache=True, nogil=True)
def _is_ordinary(word: np.uint64, lead_words: np.ndarray) -> bool:
    """Whether eight bytes are all ASCII, no control, quote or backslash, and none begins a mark."""
    found = word | (word - _SPACES) & ~word
    other = word ^ _QUOTES
    found |= (other - _ONES) & ~other
    other = word ^ _SLASHES
    found |= (other - _ONES) & ~other
    for number in range(lead_words.shape[0]):
        other = word ^ lead_words[number]
        found |= (other - _ONES) & ~other
    return found & _HIGH == 0


@njit(cache=True, nogil=True)
def _string(
    data: np.ndarray,
    begin: int,
    limit: int,
    classes: np.ndarray,
    lead_words: np.ndarray,
    marks: np.ndarray,
    mark_starts: np.ndarray,
) -> tuple[int, int]:
    """The place of the quote that ends a string whose characters begin at `begin`, -1 when it is no text; its flags."""
    position = begin
    flags = 0
    newline_end = -1
    while position < limit:
        byte = data[position]
        kind = classes[byte]
        if kind == 0:
            position += 1
            while position + 8 <= limit and _is_ordinary(load64(data, position), lead_words):
                position += 8
        elif kind == 1:  # quote
            return position, flags | BREAK if newline_end == position else flags
        elif kind == 2:  # backslash
            flags |= ESCAPED
            if position + 1 >= limit:
                return -1, 0
            escape = data[position + 1]
            if escape == 110:  # n
                if newline_end == position:
                    flags |= BREAK
                position += 2
                newline_end = position
            elif escape == 117:  # u
                code = _hex4(data, position + 2, limit)
                if code < 0:
                    return -1, 0
                position += 6
                if 0xD800 <= code < 0xDC00:
                    low = -1
                    if position + 1 < limit and data[position] == 92 and data[position + 1] == 117:
                        low = _hex4(data, position + 2, limit)
                    if 0xDC00 <= low < 0xE000:
                        position += 6
                    else:
                        return -1, 0
                elif 0xDC00 <= code < 0xE000:  # half a character, wherever it stands
                    return -1, 0
                elif code < 0x80 or _is_special(code):
                    flags |= _ODD
            elif escape == 34 or escape == 92 or escape == 116 or escape == 98 or escape == 102:  # " \ t b f
                position += 2
            elif escape == 47:  # / , which may hide the slash of a closing mark
                if position > begin and data[position - 1] == 60:
                    flags |= _ODD
                position += 2
            elif escape == 114:  # r
                flags |= _ODD
                position += 2
            else:
                return -1, 0
        elif kind == 3:  # a control character
            return -1, 0
        elif kind == 4:  # not ASCII
            size = _utf8(data, position, limit)
            if size == 0:
                return -1, 0
            if (byte == 0xC2 or byte == 0xE2 or byte == 0xEF) and _is_special(_code(data, position, size)):
                flags |= _ODD
            position += size
        else:  # may begin a mark
            if flags & _ODD == 0 and _has_mark(data, position, limit, marks, mark_starts):
                flags |= _ODD
            position += 1
    return -1, 0


@njit(cache=True, nogil=True)
def _is_white(code: int) -> bool:
    """White space as `str.strip` sees it."""
    return (
        code == 32
        or 9 <= code <= 13
        or 28 <= code <= 31
        or code == 0x85
        or code == 0xA0
        or code == 0x1680
        or 0x2000 <= code <= 0x200A
        or code == 0x2028
        or code == 0x2029
        or code == 0x202F
        or code == 0x205F
        or code == 0x3000
    )


@njit(cache=True, nogil=True)
def _is_blank(data: np.ndarray, begin: int, end: int) -> bool:
    """Whether a valid string holds nothing but white space."""
    position = begin
    while position < end:
        byte: Any = np.int64(data[position])
        if byte == 92:
            escape = data[position + 1]
            if escape == 117:
                code = _hex4(data, position + 2, end)
                if not _is_white(code):
                    return False
                position += 6
            elif escape == 110 or escape == 116 or escape == 114 or escape == 102:
                position += 2
            else:
                return False
        elif byte < 0x80:
            if not _is_white(byte):
                return False
            position += 1
        elif byte < 0xF0:
            size = 2 if byte < 0xE0 else 3
            if not _is_white(_code(data, position, size)):
                return False
            position += size
        else:
            return False
    return True


@njit(cache=True, nogil=True)
def _digits(data: np.ndarray, position: int, limit: int) -> int:
    while position < limit and 48 <= data[position] <= 57:
        position += 1
    return position


@njit(cache=True, nogil=True)
def _number(data: np.ndarray, position: int, limit: int) -> int:
    """Where the number that begins here ends, -1 when it is none, or one that may be beyond any float."""
    begin = position
    if position < limit and data[position] == 45:
        position += 1
    if position >= limit:
        return -1
    if data[position] == 48:
        position += 1
    else:
        end = _digits(data, position, limit)
        if end == position:
            return -1
        position = end
    if position < limit and data[position] == 46:
        end = _digits(data, position + 1, limit)
        if end == position + 1:
            return -1
        position = end
    if position < limit and (data[position] == 101 or data[position] == 69):
        position += 1
        if position < limit and (data[position] == 43 or data[position] == 45):
            position += 1
        end = _digits(data, position, limit)
        if end == position or end > position + 2:
            return -1
        position = end
    return position if position - begin <= _MAX_NUMBER else -1


@njit(cache=True, nogil=True)
def _word(data: np.ndarray, position: int, limit: int) -> tuple[int, int]:
    """Where true, false or null ends (-1: none of them), and its kind."""
    for kind, begin, stop in ((TRUE, 0, 4), (FALSE, 4, 9), (NULL, 9, 13)):
        if position + stop - begin > limit:
            continue
        index = begin
        while index < stop and data[position + index - begin] == _WORDS[index]:
            index += 1
        if index == stop:
            return position + stop - begin, kind
    return -1, 0


@njit(cache=True, nogil=True)
def _skip(
    data: np.ndarray,
    position: int,
    limit: int,
    classes: np.ndarray,
    lead_words: np.ndarray,
    marks: np.ndarray,
    mark_starts: np.ndarray,
    is_strict: bool,
) -> int:
    """Where the JSON value that begins here ends, -1 when it is none or nests deeper than 60; when strict, `_UNSURE`
    when a text in it is odd."""
    depth = 0
    objects = np.uint64(0)  # one bit a level: 1 for an object
    while True:
        # A value is expected here.
        position = _white(data, position, limit)
        if position >= limit:
            return -1
        byte = data[position]
        opened = False
        if byte == 34:
            end, found = _string(data, position + 1, limit, classes, lead_words, marks, mark_starts)
            if end < 0:
                return -1
            if is_strict and found & _ODD:
                return _UNSURE
            position = end + 1
        elif byte == 123 or byte == 91:
            is_object = byte == 123
            position = _white(data, position + 1, limit)
            if position >= limit:
                return -1
            if data[position] == (125 if is_object else 93):
                position += 1
            else:
                if depth == 60:
                    return -1
                objects = objects << np.uint64(1) | np.uint64(1 if is_object else 0)
                depth += 1
                opened = True
        elif byte == 45 or 48 <= byte <= 57:
            position = _number(data, position, limit)
            if position < 0:
                return -1
        else:
            position, _ = _word(data, position, limit)
            if position < 0:
                return -1
        # Then commas and closing brackets, until a value is expected again.
        while not opened:
            if depth == 0:
                return position
            position = _white(data, position, limit)
            if position >= limit:
                return -1
            byte = data[position]
            in_object = objects & np.uint64(1) == np.uint64(1)
            if byte == 44:
                position += 1
                break
            if byte != (125 if in_object else 93):
                return -1
            objects = objects >> np.uint64(1)
            depth -= 1
            position += 1
        if objects & np.uint64(1) == np.uint64(1):
            position = _white(data, position, limit)
            if position >= limit or data[position] != 34:
                return -1
            end, found = _string(data, position + 1, limit, classes, lead_words, marks, mark_starts)
            if end < 0:
                return -1
            if is_strict and found & _ODD:
                return _UNSURE
            position = _white(data, end + 1, limit)
            if position >= limit or data[position] != 58:
                return -1
            position += 1


@njit(cache=True, nogil=True)
def _put_code(out: np.ndarray, at: int, code: int) -> int:
    if code < 0x80:
        out[at] = code
        return at + 1
    if code < 0x800:
        out[at] = 0xC0 | code >> 6
        out[at + 1] = 0x80 | code & 0x3F
        return at + 2
    if code < 0x10000:
        out[at] = 0xE0 | code >> 12
        out[at + 1] = 0x80 | code >> 6 & 0x3F
        out[at + 2] = 0x80 | code & 0x3F
        return at + 3
    out[at] = 0xF0 | code >> 18
    out[at + 1] = 0x80 | code >> 12 & 0x3F
    out[at + 2] = 0x80 | code >> 6 & 0x3F
    out[at + 3] = 0x80 | code & 0x3F
    return at + 4


@njit(cache=True, nogil=True)
def _unescape(data: np.ndarray, begin: int, end: int, out: np.ndarray, at: int) -> int:
    """Write a valid string without its escapes; returns the place behind it. It never grows."""
    position = begin
    while position < end:
        if data[position] != 92:
            run = position
            while position < end and data[position] != 92:
                position += 1
            copy_bytes(out, at, data, run, position - run)
            at += position - run
            continue
        escape = data[position + 1]
        if escape == 117:
            code = _hex4(data, position + 2, end)
            position += 6
            if 0xD800 <= code < 0xDC00:
                code = 0x10000 + ((code - 0xD800) << 10) + (_hex4(data, position + 2, end) - 0xDC00)
                position += 6
            at = _put_code(out, at, code)
            continue
        if escape == 110:
            out[at] = 10
        elif escape == 116:
            out[at] = 9
        elif escape == 114:
            out[at] = 13
        elif escape == 98:
            out[at] = 8
        elif escape == 102:
            out[at] = 12
        else:  # " \ /
            out[at] = escape
        at += 1
        position += 2
    return at


@njit(cache=True, nogil=True)
def _json_kind(
    data: np.ndarray,
    begin: int,
    end: int,
    classes: np.ndarray,
    lead_words: np.ndarray,
    marks: np.ndarray,
    mark_starts: np.ndarray,
    scratch: np.ndarray,
    is_call: bool,
) -> int:
    """TEXT, or which kind of JSON the characters of a valid string are; -1 when that is for the general path to say."""
    size = _unescape(data, begin, end, scratch, 0)
    first = _white(scratch, 0, size)
    if first == size:
        return TEXT
    stop = _skip(scratch, first, size, classes, lead_words, marks, mark_starts, True)
    if stop == _UNSURE:
        return -1
    if stop < 0 or _white(scratch, stop, size) != size:
        # A number that is too long for `_number` is JSON after all.
        return -1 if stop < 0 and (scratch[first] == 45 or 48 <= scratch[first] <= 57) else TEXT
    if scratch[first] == 123:
        if is_call:
            return _call_kind(scratch, first, stop, classes, lead_words, marks, mark_starts)
        return JSON_OBJECT_TEXT
    if is_call:
        return -1
    return JSON_LIST_TEXT if scratch[first] == 91 else JSON_SCALAR_TEXT


@njit(cache=True, nogil=True)
def _is_key(data: np.ndarray, begin: int, end: int, name: np.ndarray) -> bool:
    if end - begin != name.shape[0]:
        return False
    for index in range(end - begin):
        if data[begin + index] != name[index]:
            return False
    return True


@njit(cache=True, nogil=True)
def _call_kind(
    data: np.ndarray,
    begin: int,
    end: int,
    classes: np.ndarray,
    lead_words: np.ndarray,
    marks: np.ndarray,
    mark_starts: np.ndarray,
) -> int:
    """CALL_TEXT for a valid object that is a plain call, -1 for any other."""
    position = _white(data, begin + 1, end)
    num_names = num_arguments = 0
    while data[position] != 125:
        stop, found = _string(data, position + 1, end, classes, lead_words, marks, mark_starts)
        if found & ESCAPED:
            return -1
        is_name = _is_key(data, position + 1, stop, _NAME)
        is_arguments = _is_key(data, position + 1, stop, _ARGUMENTS)
        if _is_key(data, position + 1, stop, _ID) or _is_key(data, position + 1, stop, _FUNCTION):
            return -1
        position = _white(data, _white(data, stop + 1, end) + 1, end)
        if is_name:
            num_names += 1
            if data[position] != 34 or data[position + 1] == 34:
                return -1
        if is_arguments:
            num_arguments += 1
            if data[position] == 34:
                return -1
        position = _white(data, _skip(data, position, end, classes, lead_words, marks, mark_starts, False), end)
        if data[position] == 44:
            position = _white(data, position + 1, end)
    return CALL_TEXT if num_names == 1 and num_arguments <= 1 else -1


@njit(cache=True, nogil=True)
def scan_rows(
    data: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    classes: np.ndarray,
    lead_words: np.ndarray,
    marks: np.ndarray,
    mark_starts: np.ndarray,
    key_hashes: np.ndarray,
    key_asks: np.ndarray,
    pos: np.ndarray,
    end: np.ndarray,
    kinds: np.ndarray,
    flags: np.ndarray,
    row_tokens: np.ndarray,
    shapes: np.ndarray,
    is_odd: np.ndarray,
) -> int:
    """Tokens of the rows at `data[starts[r]:ends[r]]` (uint8); returns how many rows were read before tokens ran out.

    Fills, a token: `pos` and `end` (int32, in `data`; of a text without its quotes), `kinds` and `flags` (uint8).
    Fills, a row: `row_tokens` (int64 [num_rows + 1], its first token), `shapes` (uint64) and `is_odd` (uint8).
    `classes` (uint8 [256]) says what a byte is inside a string: 0 ordinary, 1 quote, 2 backslash, 3 control, 4 not
    ASCII, 5 the first of a mark; `lead_words` (uint64) holds each first byte of a mark eight times. A text with a mark
    makes its row odd. `key_hashes` (uint64) and `key_asks` (uint8) name the keys that are opened, literal, JSON text or
    ids.
    """
    token = 0
    widest = 0
    for row in range(starts.shape[0]):
        widest = max(widest, ends[row] - starts[row])
    scratch = np.empty(widest, np.uint8)
    open_keys = np.empty((_MAX_OPEN, _MAX_KEYS), np.uint64)
    num_keys = np.zeros(_MAX_OPEN, np.int64)
    open_token = np.zeros(_MAX_OPEN, np.int64)
    # Of an open object: whether a call speaks (1), or a value has come before anyone said so (2).
    speaker = np.zeros(_MAX_OPEN, np.int64)
    id_pos, id_end = np.empty(_MAX_IDS, np.int64), np.empty(_MAX_IDS, np.int64)
    row_tokens[0] = 0
    for row in range(starts.shape[0]):
        position, limit = starts[row], ends[row]
        # No token is shorter than two bytes: a digit and what follows it.
        if token + (limit - position) // 2 + 2 > pos.shape[0]:
            return row
        first_token = token
        shape = _FNV
        depth = -1
        num_ids = 0
        asks = 0
        odd = False
        position = _white(data, position, limit)
        if position >= limit or data[position] != 123:
            odd = True
        while not odd:
            # A value is expected, under a key that asks for `asks`.
            position = _white(data, position, limit)
            if position >= limit:
                odd = True
                break
            byte = data[position]
            opened = False
            pos[token] = position
            flags[token] = 0
            if byte == 34:
                stop, found = _string(data, position + 1, limit, classes, lead_words, marks, mark_starts)
                if stop < 0 or found & _ODD:
                    odd = True
                    break
                pos[token] = position + 1
                end[token] = stop
                flags[token] = found & (ESCAPED | BREAK)
                kind = TEXT
                if stop == position + 1:
                    kind = EMPTY_TEXT
                elif asks & LITERAL:
                    if stop - position > _MAX_LITERAL:
                        odd = True
                        break
                    kind = LITERAL_TEXT
                    shape = (shape ^ hash_bytes(data, position + 1, stop)) * _PRIME
                    if asks & FROM:
                        is_call = _is_key(data, position + 1, stop, _CALL_NAMES[0]) or _is_key(
                            data, position + 1, stop, _CALL_NAMES[1]
                        )
                        if is_call and speaker[depth] == 2:
                            odd = True
                            break
                        speaker[depth] = is_call
                elif asks & ID and depth > 0:
                    kind = ID_TEXT
                    number = 0
                    while number < num_ids:
                        if id_end[number] - id_pos[number] == stop - position - 1:
                            index = 0
                            while (
                                index < stop - position - 1
                                and data[id_pos[number] + index] == data[position + 1 + index]
                            ):
                                index += 1
                            if index == stop - position - 1:
                                break
                        number += 1
                    if number == num_ids:
                        if num_ids == _MAX_IDS or found & ESCAPED:
                            odd = True
                            break
                        id_pos[num_ids], id_end[num_ids] = position + 1, stop
                        num_ids += 1
                    shape = (shape ^ np.uint64(number + 1)) * _PRIME
                elif asks & JSON or asks & VALUE and speaker[depth] == 1:
                    kind = _json_kind(
                        data, position + 1, stop, classes, lead_words, marks, mark_starts, scratch, asks & VALUE != 0
                    )
                    if kind < 0:
                        odd = True
                        break
                if asks & VALUE and speaker[depth] == 0:
                    speaker[depth] = 2
                if kind != EMPTY_TEXT and _is_blank(data, position + 1, stop):
                    odd = True
                    break
                position = stop + 1
            elif byte == 123 or byte == 91:
                is_object = byte == 123
                inner = _white(data, position + 1, limit)
                if inner < limit and data[inner] == (125 if is_object else 93):
                    if depth < 0:  # a row without fields
                        odd = True
                        break
                    kind = OPAQUE_EMPTY
                    end[token] = inner + 1
                    shape = (shape ^ np.uint64(byte)) * _PRIME
                    position = inner + 1
                elif depth < 0 or asks & OPEN or (is_object and kinds[open_token[depth]] == LIST):
                    if depth + 1 == _MAX_OPEN:
                        odd = True
                        break
                    kind = OBJECT if is_object else LIST
                    depth += 1
                    open_token[depth] = token
                    num_keys[depth] = 0
                    speaker[depth] = 0
                    opened = True
                    position = inner
                else:
                    stop = _skip(data, position, limit, classes, lead_words, marks, mark_starts, depth > 0)
                    if stop < 0:
                        odd = True
                        break
                    kind = OPAQUE_OBJECT if is_object else OPAQUE_LIST
                    end[token] = stop
                    position = stop
            elif byte == 45 or 48 <= byte <= 57:
                stop = _number(data, position, limit)
                if stop < 0:
                    odd = True
                    break
                kind = NUMBER
                if asks & LITERAL:
                    if stop - position > _MAX_LITERAL:
                        odd = True
                        break
                    kind = LITERAL_NUMBER
                    shape = (shape ^ hash_bytes(data, position, stop)) * _PRIME
                end[token] = stop
                position = stop
            else:
                stop, kind = _word(data, position, limit)
                if stop < 0:
                    odd = True
                    break
                end[token] = stop
                position = stop
            kinds[token] = kind
            shape = (shape ^ np.uint64(kind + 256)) * _PRIME
            token += 1
            # Then commas and closing brackets, until a value is expected again.
            while not opened:
                position = _white(data, position, limit)
                if position >= limit:
                    odd = True
                    break
                byte = data[position]
                container = open_token[depth]
                in_object = kinds[container] == OBJECT
                if byte == 44:
                    position += 1
                    break
                if byte != (125 if in_object else 93):
                    odd = True
                    break
                position += 1
                end[container] = position
                shape = (shape ^ np.uint64(byte + 512)) * _PRIME
                depth -= 1
                if depth < 0:
                    break
            if odd or depth < 0:
                break
            if kinds[open_token[depth]] == LIST:
                asks = 0
                continue
            position = _white(data, position, limit)
            if position >= limit or data[position] != 34:
                odd = True
                break
            stop, found = _string(data, position + 1, limit, classes, lead_words, marks, mark_starts)
            if stop < 0 or found & (_ODD | ESCAPED):
                odd = True
                break
            key = hash_bytes(data, position + 1, stop)
            for index in range(num_keys[depth]):
                if open_keys[depth, index] == key:
                    odd = True
            if odd or num_keys[depth] == _MAX_KEYS:
                odd = True
                break
            open_keys[depth, num_keys[depth]] = key
            num_keys[depth] += 1
            asks = 0
            for index in range(key_hashes.shape[0]):
                if key_hashes[index] == key:
                    asks = key_asks[index]
            pos[token], end[token], kinds[token], flags[token] = position + 1, stop, KEY, 0
            token += 1
            shape = (shape ^ key) * _PRIME
            position = _white(data, stop + 1, limit)
            if position >= limit or data[position] != 58:
                odd = True
                break
            position += 1
        if not odd and _white(data, position, limit) != limit:
            odd = True
        if odd:
            token = first_token
            shape = np.uint64(0)
        is_odd[row] = odd
        shapes[row] = shape
        row_tokens[row + 1] = token
    return starts.shape[0]


# What an operation puts into a cell.
PUT_LITERAL, PUT_TEXT, PUT_RAW, PUT_NULL = 0, 1, 2, 3


@njit(cache=True, nogil=True)
def assemble(
    data: np.ndarray,
    pos: np.ndarray,
    end: np.ndarray,
    kinds: np.ndarray,
    flags: np.ndarray,
    first_tokens: np.ndarray,
    plans: np.ndarray,
    cell_starts: np.ndarray,
    op_starts: np.ndarray,
    op_codes: np.ndarray,
    op_tokens: np.ndarray,
    op_ends: np.ndarray,
    literals: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One text column as Arrow wants it: bytes, offsets (int32 [num_cells + 1]) and validity (uint8 [num_cells]).

    Row r follows plan `plans[r]`, whose cells are `cell_starts[plan]` to `cell_starts[plan + 1]`; a cell is what its
    operations put one behind the other: bytes of `literals` (from `op_tokens` to `op_ends`), the text or the raw JSON
    of the row's token `op_tokens`, or null.
    """
    num_cells, room = 0, 0
    for row in range(plans.shape[0]):
        plan = plans[row]
        for cell in range(cell_starts[plan], cell_starts[plan + 1]):
            num_cells += 1
            for op in range(op_starts[cell], op_starts[cell + 1]):
                if op_codes[op] == PUT_LITERAL:
                    room += op_ends[op] - op_tokens[op]
                elif op_codes[op] != PUT_NULL:
                    token = first_tokens[row] + op_tokens[op]
                    room += end[token] - pos[token] + 2
    out = np.empty(room, np.uint8)
    offsets = np.empty(num_cells + 1, np.int32)
    valid = np.ones(num_cells, np.uint8)
    offsets[0] = 0
    number, at = 0, 0
    for row in range(plans.shape[0]):
        plan = plans[row]
        for cell in range(cell_starts[plan], cell_starts[plan + 1]):
            for op in range(op_starts[cell], op_starts[cell + 1]):
                code = op_codes[op]
                if code == PUT_LITERAL:
                    size = op_ends[op] - op_tokens[op]
                    copy_bytes(out, at, literals, op_tokens[op], size)
                    at += size
                elif code == PUT_NULL:
                    valid[number] = 0
                else:
                    token = first_tokens[row] + op_tokens[op]
                    begin, stop = pos[token], end[token]
                    is_text = kinds[token] == TEXT or kinds[token] == ID_TEXT or kinds[token] >= JSON_OBJECT_TEXT
                    if code == PUT_TEXT and flags[token] & ESCAPED:
                        at = _unescape(data, begin, stop, out, at)
                        continue
                    if code == PUT_RAW and is_text:
                        begin, stop = begin - 1, stop + 1
                    copy_bytes(out, at, data, begin, stop - begin)
                    at += stop - begin
            number += 1
            offsets[number] = at
    return out[:at], offsets, valid
