"""APIs in a string: Gorilla's `code` holds instruction and output, as `{'Instruction': ..., 'Output': {...}}` without
quotes around the first, or as `###Instruction: ...` and `###Output: ...`. The output stays the text that it is."""

import json
import re
from collections.abc import Mapping
from typing import Any

from curator.io.adapters.base import Adapter, BadRow, Draft, Fields, Message, metadata_of, text_of
from curator.io.adapters.shape import in_order, json_text, restored_tags

_STYLES = {
    "dict": (re.compile(r"\{'Instruction': (.*), 'Output': (.*)\}", re.DOTALL), "{{'Instruction': {}, 'Output': {}}}"),
    "marks": (re.compile(r"###Instruction: (.*)\n###Output: (.*)", re.DOTALL), "###Instruction: {}\n###Output: {}"),
}
_SEPARATORS = {"dict": ", 'Output': ", "marks": "\n###Output: "}


def _convert(fields: Fields) -> Draft:
    code = text_of(fields, "code") or ""
    for style, (pattern, _) in _STYLES.items():
        match = pattern.fullmatch(code)
        if match is None:
            continue
        if code.count(_SEPARATORS[style]) != 1:
            raise BadRow(f"not certain: code holds {_SEPARATORS[style].strip()!r} more than once")
        messages = [Message("user", match[1]), Message("assistant", match[2])]
        return metadata_of(fields, Draft(messages, used=("code",), form={"keys": list(fields), "style": style}))
    raise BadRow("not certain: code is neither {'Instruction': ..., 'Output': ...} nor ###Instruction: and ###Output:")


def restore(record: Mapping[str, Any]) -> str:
    """The JSON text of the row."""
    form = json.loads(record["provenance"]["form"])
    texts = [message["content"] for message in record["messages"]]
    values = {**restored_tags(record, form), "code": json_text(_STYLES[form["style"]][1].format(*texts))}
    return in_order(form["keys"], values)


ADAPTER = Adapter(
    "apis",
    lambda names: {"code", "api_call"} <= names,
    _convert,
    '{"code": "###Instruction: Load it.\\n###Output: {\'api_call\': \'load()\'}", "api_call": "load()"}',
    restore=restore,
)
