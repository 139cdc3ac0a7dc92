"""Preferences as two whole conversations: chosen_messages and rejected_messages (LLaMA-Factory v1)."""

from collections.abc import Mapping
from typing import Any

from curator.io.adapters.base import Adapter, Draft, Fields, form_of, metadata_of, restore_object
from curator.io.adapters.openai import messages_of, messages_text
from curator.io.adapters.preference import join_sides
from curator.io.adapters.sharegpt import tools_of, tools_text

_SIDES = ("chosen_messages", "rejected_messages")


def _convert(fields: Fields) -> Draft:
    chosen, rejected = (messages_of(fields, name) for name in _SIDES)
    draft, shared = join_sides([], chosen[0], rejected[0])
    draft.tools, form = tools_of(fields)
    draft.used = (*_SIDES, "tools") if "tools" in fields else _SIDES
    draft.form = {"keys": list(fields), "shared": shared, "written": [chosen[1], rejected[1]], **form}
    return metadata_of(fields, draft)


def _restore(record: Mapping[str, Any]) -> str:
    form = form_of(record)
    chosen = record["messages"] or []
    rejected = [*chosen[: form["shared"]], *(record["rejected"] or [])]
    sides = zip(_SIDES, (chosen, rejected), form["written"], strict=True)
    texts = {name: messages_text(turns, written) for name, turns, written in sides}
    return restore_object(record, form, {"tools": tools_text(record, form), **texts})


ADAPTER = Adapter(
    "message_pairs",
    lambda names: names.issuperset(_SIDES),
    _convert,
    '{"chosen_messages": [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}],'
    ' "rejected_messages": [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "3"}]}',
    restore=_restore,
)
