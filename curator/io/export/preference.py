"""Preference form: `prompt`, `chosen` and `rejected`, each a list of role/content turns."""

from curator.io.adapters.base import form_of
from curator.io.export.base import Record, Rendered, Target, Unrenderable, left_over, require_turns
from curator.io.export.messages import is_json, lost_in_turns, turns_text


def render(record: Record) -> Rendered:
    messages = require_turns(record)
    if record["kind"] != "preference" or not record["rejected"]:
        raise Unrenderable(f"kind {record['kind']}")
    start = border(record)
    fields = {
        "prompt": turns_text(messages[:start]),
        "chosen": turns_text(messages[start:]),
        "rejected": turns_text(record["rejected"]),
    }
    places = ["rejected"]
    if record["tools"] is not None and is_json(record["tools"]):
        fields["tools"] = record["tools"]
        places.append("tools")
    lost = lost_in_turns([*messages, *record["rejected"]])
    return Rendered(fields, lost | left_over(record, *places))


def border(record: Record) -> int:
    """Where the chosen continuation begins: behind what both sides share, else behind the last user turn."""
    messages = record["messages"]
    try:
        form = form_of(record)
    except ValueError:
        form = {}
    if "chosen_messages" in form:
        return min(len(messages) - form["chosen_messages"] + form.get("shared", 0), len(messages) - 1)
    if "shared" in form:
        return min(int(form["shared"]), len(messages) - 1)
    users = [index for index, message in enumerate(messages) if message["role"] == "user"]
    return min(users[-1] + 1 if users else 0, len(messages) - 1)


TARGET = Target(
    "preference",
    "prompt, chosen, rejected",
    frozenset({"preference", "transcripts"}),
    render,
    frozenset({"preference"}),
)
