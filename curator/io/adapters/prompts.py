"""Prompts without an answer: one field that asks, and only fields that tell about it (test sets, red teaming)."""

from curator.io.adapters.base import (
    Adapter,
    BadRow,
    Draft,
    Fields,
    Message,
    kind_of,
    metadata_of,
    raw_text,
    text_of,
)
from curator.io.adapters.joined import BREAK, breaks_before
from curator.io.adapters.shape import TURNS, Shape, items_of, read, restore

_ASKS = ("prompt", "instruction", "Instruction", "question", "problem", "query", "mutated_prompt", "Prompt", "Question")
_ABOUT = frozenset(
    {
        *("id", "idx", "key", "index", "uid", "uuid", "question_id", "query_id", "prompt_id", "task_id", "name"),
        *("title", "type", "Type", "class", "category", "Category", "subcategory", "label", "labels", "tags", "topic"),
        *("domain", "subject", "skill", "Skill", "level", "difficulty", "Difficulty", "language", "lang", "locale"),
        *("source", "Source", "dataset", "subset", "split", "url", "date", "created_at", "author", "license", "focus"),
        *(
            "note",
            "notes",
            "model",
            "generator",
            "metadata",
            "meta",
            "extra_info",
            "canary",
            "system",
            "context",
            "input",
        ),
        *("attack_type", "is_malicious", "motivation_app", "mc1_targets", "mc2_targets", "api_list", "relevant APIs"),
    }
)
"""Names that never hold an answer. A row with any other field is not taken: what it holds may be the answer."""


_IDS = ("idx", "key", "question_id", "query_id", "task_id")


def _ask(names: frozenset[str]) -> str | None:
    asks = [name for name in _ASKS if name in names]
    return asks[0] if len(asks) == 1 and names - {asks[0]} <= _ABOUT else None


def _takes(names: frozenset[str]) -> bool:
    return not names & TURNS and (_ask(names) is not None or _list(names) is not None)


def _list(names: frozenset[str]) -> str | None:
    """The field that holds a list of prompts, where no other can hold their answers."""
    held = names & {"instructions", "prompts"}
    return next(iter(held)) if len(held) == 1 and names - held <= _ABOUT | {"inputs"} else None


def _convert(fields: Fields) -> Draft | list[Draft]:
    ask = _ask(frozenset(fields))
    if ask is None:
        return _each(fields)
    asks = (ask, "input") if "input" in fields and kind_of(fields["input"]) == "text" else (ask,)
    if "context" in fields and kind_of(fields["context"]) == "text":
        asks = ("context", *asks)
    shape = Shape(
        asks,
        system="system",
        tags={
            "original_id": next(
                (name for name in ("idx", "key", "question_id", "query_id", "task_id") if name in fields), ""
            ),
            "difficulty": "Difficulty" if "Difficulty" in fields else "difficulty",
        },
    )
    draft = read(fields, shape)
    if "api_list" in fields and kind_of(fields["api_list"]) == "list":
        draft.tools = raw_text(fields["api_list"])
        draft.used = (*draft.used, "api_list")
        draft.form["tools"] = "api_list"
    return draft


def _each(fields: Fields) -> list[Draft]:
    """One record for each text of a list of prompts; lists as long are dealt out, and inputs join their prompt."""
    name = _list(frozenset(fields)) or ""
    if kind_of(fields[name]) != "list":
        raise BadRow(f"wrong type: {name} is {kind_of(fields[name])}, expected a list of texts")
    items = items_of(fields[name])
    dealt = {
        key: values
        for key, raw in fields.items()
        if key != name and kind_of(raw) == "list" and len(values := items_of(raw)) == len(items)
    }
    drafts = []
    for index, item in enumerate(items):
        text = text_of({name: item}, name) or ""
        left = {key: raw_text(values[index]) for key, values in dealt.items()}
        form: dict[str, object] = {"keys": list(fields), "list": name, "part": [index, len(items)]}
        if "inputs" in dealt and (given := text_of({"inputs": dealt["inputs"][index]}, "inputs", required=False)):
            joined = f"{text}{BREAK}{given}"
            form["breaks"] = breaks_before(joined, len(text))
            text = joined
            del left["inputs"]
        draft = Draft([Message("user", text)], kind="prompt", used=(name, *dealt), left=left, form=form)
        drafts.append(metadata_of(fields, draft))
    return drafts


ADAPTER = Adapter("prompts", _takes, _convert, '{"prompt": "1 + 1?"}', restore=restore)
