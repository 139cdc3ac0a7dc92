"""Writes the sample data: `python sample_data/generate.py [folder] [--no-model]`. The same bytes at every run."""

import csv
import gzip
import io
import json
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import dialogs
import plants
import prose
import texts
from dialogs import user_text
from texts import Example

SEED = 20240229
CSV, PARQUET, BROKEN = "qa.csv", "qa.parquet", "broken.jsonl"
TALK, AGENTS, MESSAGES = "chats/talk.jsonl.gz", "chats/agents.jsonl.gz", "messages.jsonl.zst"
ALPACA, TAGGED, COMPLETION = "alpaca.json", "alpaca_metadata.jsonl", "prompt_completion.jsonl"
PREFERENCE, TRANSCRIPTS = "preference.jsonl", "transcripts.jsonl.gz"
# Plain examples a file gets before anything is planted.
PLAIN = {
    ALPACA: 216, TAGGED: 140, TALK: 82, AGENTS: 56, MESSAGES: 108, COMPLETION: 68, CSV: 66, PARQUET: 48,
    PREFERENCE: 40, TRANSCRIPTS: 40, BROKEN: 20,
}  # fmt: skip
FORMATS = {
    ALPACA: "alpaca", TAGGED: "alpaca", TALK: "sharegpt", AGENTS: "sharegpt", MESSAGES: "messages",
    COMPLETION: "prompt_completion", CSV: "question_answer", PARQUET: "question_answer", PREFERENCE: "preference",
    TRANSCRIPTS: "transcripts", BROKEN: "alpaca",
}  # fmt: skip
DOMAIN_KINDS = {
    "code": ["python_function", "row_function", "sql_query", "row_function", "sql_query"],
    "math": ["word_problem", "plain_sum", "word_problem"],
    "devops": ["ticket", "shell_command", "postmortem", "ticket"],
    "science": ["science_why", "science_number", "science_number"],
    "writing": ["letter", "summary", "extraction", "cooking", "story", "plan"],
}
LONG = {"postmortem": dialogs.postmortem, "story": dialogs.story}
GENERATORS = texts.GENERATORS | prose.GENERATORS | LONG
LISTED_FROM = 0.6  # pairs at least this similar are listed in truth.json
UNKNOWN_DIFFICULTY = (3, 40, 77)  # rows of alpaca_metadata.jsonl with null
DISTINCT_BELOW = 0.5  # two examples that were not planted stay under this


def shingles(text: str) -> frozenset[tuple[str, ...]]:
    """Runs of three words of the casefolded text; a shorter text is one shingle."""
    found = re.findall(r"\w+", text.casefold())
    return frozenset(zip(found, found[1:], found[2:], strict=False)) or frozenset([tuple(found)])


def jaccard(a: str, b: str) -> float:
    return round(len(shingles(a) & shingles(b)) / len(shingles(a) | shingles(b)), 6)


class Similar:
    """Finds earlier texts by the Jaccard similarity of their shingles."""

    def __init__(self) -> None:
        self.sets: list[frozenset[tuple[str, ...]]] = []
        self.holders: dict[tuple[str, ...], list[int]] = defaultdict(list)

    def matches(self, text: str, least: float) -> list[tuple[int, float]]:
        own = shingles(text)
        shared = Counter(holder for shingle in own for holder in self.holders[shingle])
        scored = ((n, common / (len(own) + len(self.sets[n]) - common)) for n, common in sorted(shared.items()))
        return [(n, score) for n, score in scored if score >= least]

    def add(self, text: str) -> None:
        self.sets.append(shingles(text))
        for shingle in self.sets[-1]:
            self.holders[shingle].append(len(self.sets) - 1)


class Source:
    """Draws examples that are not near-duplicates of any earlier one."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.prompts, self.whole = Similar(), Similar()

    def draw(self, kinds: list[str]) -> Example:
        while True:
            example = GENERATORS[self.rng.choice(kinds)](self.rng)
            prompt, whole = user_text(example), user_text(example) + "\n" + example.answer
            if self.prompts.matches(prompt, DISTINCT_BELOW) or self.whole.matches(whole, DISTINCT_BELOW):
                continue
            self.prompts.add(prompt)
            self.whole.add(whole)
            return example


def said_by(turn: dict[str, Any]) -> str:
    """The content, or the calls where there is none."""
    return json.dumps(turn["tool_calls"]) if turn["content"] is None else turn["content"]


@dataclass
class Item:
    """One conversation on its way into a file, with what was planted in it."""

    example: Example
    turns: list[dict[str, Any]] = field(default_factory=list)
    tools: list[dict[str, Any]] | None = None
    rejected: str | None = None
    marks: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.turns:
            user = {"role": "user", "content": user_text(self.example)}
            self.turns = [user, {"role": "assistant", "content": self.example.answer}]

    @property
    def conversation(self) -> list[tuple[str, str]]:
        return [(turn["role"], said_by(turn)) for turn in self.turns]


Files = dict[str, list[Item]]


def tool_item(rng: Random, side_by_side: int) -> Item:
    """A conversation in which one to three calls are made, at most `side_by_side` of them in one turn."""
    calls = [rng.choice(dialogs.CALLS)(rng) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    turns: list[dict[str, Any]] = []
    if rng.random() < 0.5:
        turns.append({"role": "system", "content": dialogs.SYSTEMS[4]})
    while calls_left := calls[len([turn for turn in turns if turn["role"] == "tool"]) :]:
        together = calls_left[: rng.randint(1, side_by_side)]
        turns.append({"role": "user", "content": " ".join(call.ask for call in together)})
        made = [(f"call_{rng.randrange(16**8):08x}", call) for call in together]
        requests = [
            {"id": key, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
            for key, call in made
        ]
        said = rng.choice([None, None, "Let me look that up."])
        turns.append({"role": "assistant", "content": said, "tool_calls": requests})
        turns += [
            {"role": "tool", "tool_call_id": key, "name": call.name, "content": call.result} for key, call in made
        ]
        turns.append({"role": "assistant", "content": " ".join(call.answer for call in together)})
    first = calls[0]
    return Item(Example("devops", "medium", first.ask, "", first.answer), turns, dialogs.tools_for(rng, calls))


def plain_files(rng: Random, source: Source) -> Files:
    everything = sorted(GENERATORS)
    domains = sorted(DOMAIN_KINDS)
    files: Files = {}
    for name, count in PLAIN.items():
        items = files[name] = []
        for number in range(count):
            if (name == AGENTS and number % 5) or (name == MESSAGES and number % 2):
                items.append(tool_item(rng, side_by_side=1 if name == AGENTS else 2))
                continue
            kinds = DOMAIN_KINDS[domains[number % 5]] if name == TAGGED else everything
            item = Item(source.draw(kinds))
            if name in (TALK, AGENTS, MESSAGES, TRANSCRIPTS):
                more = [source.draw(everything) for _ in range(rng.choice([0, 0, 1, 2]))]
                item = Item(item.example, dialogs.talk(rng, [item.example, *more]))
            if name == TRANSCRIPTS and item.turns[0]["role"] == "system":
                del item.turns[0]
            if name == TAGGED and item.example.reasoning and rng.random() < 0.4:
                item.marks["reasoning"] = rng.choice(plants.TRACE_FORMS)
            if name == MESSAGES and item.example.reasoning and number % 8 == 0:
                item.turns[-1]["reasoning_content"] = item.example.reasoning
            if name in (PREFERENCE, TRANSCRIPTS):
                item.rejected = dialogs.worse(rng, item.turns[-1]["content"])
            items.append(item)
    return files


# --- rows of each format ---------------------------------------------------------------------------------------------


def alpaca_row(item: Item, rng: Random) -> dict[str, Any]:
    return {"instruction": item.example.prompt, "input": item.example.context, "output": item.example.answer}


def tagged_row(item: Item, rng: Random) -> dict[str, Any]:
    example, trace = item.example, item.marks.get("reasoning")
    metadata: dict[str, Any] = {
        "domain": example.domain,
        "difficulty": example.difficulty,
        "reasoning_trace": trace is not None,
        "source": rng.choice(["workshop", "helpdesk", "textbook", "letters"]),
    }
    output = trace.format(example.reasoning) + example.answer if trace else example.answer
    return {"instruction": example.prompt, "input": example.context, "output": output, "metadata": metadata}


def sharegpt_row(item: Item, rng: Random) -> dict[str, Any]:
    names = {"system": "system", "user": "human", "assistant": "gpt", "tool": "observation"}
    turns: list[dict[str, str]] = []
    for turn in item.turns:
        if turn["content"] is not None and not (turn.get("tool_calls") and turn["content"]):
            turns.append({"from": names[turn["role"]], "value": turn["content"]})
        for call in turn.get("tool_calls", []):
            said = {"name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])}
            turns.append({"from": "function_call", "value": json.dumps(said)})
    row: dict[str, Any] = {"conversations": turns}
    if turns[0]["from"] == "system" and rng.random() < 0.4:
        row = {"system": turns.pop(0)["value"], "conversations": turns}
    if item.tools:
        row["tools"] = json.dumps([tool["function"] for tool in item.tools], ensure_ascii=False)
    return row


def messages_row(item: Item, rng: Random) -> dict[str, Any]:
    row: dict[str, Any] = {"messages": item.turns}
    return row | {"tools": item.tools} if item.tools else row


def completion_row(item: Item, rng: Random) -> dict[str, Any]:
    return {"prompt": user_text(item.example), "completion": item.example.answer}


def question_row(item: Item, rng: Random) -> dict[str, Any]:
    return {"question": user_text(item.example), "answer": item.example.answer}


def preference_row(item: Item, rng: Random) -> dict[str, Any]:
    return {"prompt": user_text(item.example), "chosen": item.example.answer, "rejected": item.rejected}


def transcript_row(item: Item, rng: Random) -> dict[str, Any]:
    names = {"user": "Human", "assistant": "Assistant"}
    before = "".join(f"\n\n{names[turn['role']]}: {turn['content']}" for turn in item.turns[:-1])
    chosen = f"{before}\n\nAssistant: {item.turns[-1]['content']}"
    return {"chosen": chosen, "rejected": f"{before}\n\nAssistant: {item.rejected}"}


ROWS = {
    ALPACA: alpaca_row, TAGGED: tagged_row, TALK: sharegpt_row, AGENTS: sharegpt_row, MESSAGES: messages_row,
    COMPLETION: completion_row, CSV: question_row, PARQUET: question_row, PREFERENCE: preference_row,
    TRANSCRIPTS: transcript_row, BROKEN: alpaca_row,
}  # fmt: skip


# --- bytes -----------------------------------------------------------------------------------------------------------


def line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def gzip_members(lines: list[bytes], members: int) -> bytes:
    size = -(-len(lines) // members)
    parts = [b"".join(lines[start : start + size]) for start in range(0, len(lines), size)]
    return b"".join(gzip.compress(part, 9, mtime=0) for part in parts)


def csv_bytes(rows: list[dict[str, Any]]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def parquet_bytes(rows: list[dict[str, Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    schema = pa.schema([("question", pa.string()), ("answer", pa.string())])
    pq.write_table(pa.Table.from_pylist(rows, schema), out, row_group_size=25, compression="zstd")
    return out.getvalue()


def encode(name: str, rows: list[dict[str, Any]]) -> bytes:
    if name == ALPACA:
        return json.dumps(rows, ensure_ascii=False, indent=1).encode() + b"\n"
    if name == CSV:
        return csv_bytes(rows)
    if name == PARQUET:
        return parquet_bytes(rows)
    lines = [line(row) for row in rows]
    if name == TAGGED:  # a number whose text a float would change
        lines[7] = lines[7].replace(b'"source": ', b'"rating": 4.50, "source": ')
    if name == AGENTS:
        lines[3] = lines[3][:-2] + b', "cost": 1.10, "uid": 90071992547409931234}\n'
    if name.endswith(".gz"):
        return gzip_members(lines, 3 if name == TALK else 1)
    if name.endswith(".zst"):
        import zstandard

        return zstandard.ZstdCompressor(level=9, write_content_size=True).compress(b"".join(lines))
    return b"".join(lines)


# --- the account -----------------------------------------------------------------------------------------------------


def squeeze(conversation: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((role, " ".join(content.casefold().split())) for role, content in conversation)


def groups(keyed: list[tuple[Any, list[Any]]]) -> list[list[list[Any]]]:
    found: dict[Any, list[list[Any]]] = defaultdict(list)
    for key, place in keyed:
        found[key].append(place)
    return [places for places in found.values() if len(places) > 1]


def account(files: Files, bad: list[dict[str, Any]], broken_rows: list[int]) -> dict[str, Any]:
    """What truth.json says. A place is [file, row]."""
    row_of = {name: broken_rows if name == BROKEN else list(range(len(items))) for name, items in files.items()}
    placed = [(item, [name, row_of[name][n]]) for name, items in files.items() for n, item in enumerate(items)]
    sft = [(item, place) for item, place in placed if item.rejected is None]
    first = [next(turn["content"] for turn in item.turns if turn["role"] == "user") for item, _ in sft]
    whole = ["\n".join(turn["content"] or "" for turn in item.turns) for item, _ in sft]
    near = []
    known = Similar(), Similar()
    for n, (item, place) in enumerate(sft):
        scores = [
            dict(index.matches(text, LISTED_FROM)) for index, text in zip(known, (first[n], whole[n]), strict=True)
        ]
        for m in sorted(scores[0] | scores[1]):
            if squeeze(item.conversation) == squeeze(sft[m][0].conversation):
                continue
            with_tools = item.tools or sft[m][0].tools
            prompt, conversation = jaccard(first[m], first[n]), None if with_tools else jaccard(whole[m], whole[n])
            if max(prompt, conversation or 0) >= LISTED_FROM:
                near.append({"a": sft[m][1], "b": place, "prompt": prompt, "conversation": conversation})
        known[0].add(first[n])
        known[1].add(whole[n])

    def marked(mark: str) -> list[Any]:
        return [place for item, place in placed if item.marks.get(mark)]

    return {
        "about": {
            "place": "[file, row]: zero-based, every raw row counts, bad ones too, blank lines do not",
            "exact_duplicates": "equal roles and contents, in any format, among rows without a rejected answer",
            "normalised_duplicates": "equal after casefold and collapsed white space; exact duplicates are among them",
            "near_duplicates": f"all other pairs whose word-3-shingle Jaccard is at least {LISTED_FROM} on the first user text "
            "(prompt) or on all contents without reasoning joined by line feeds (conversation; null when tools are called); "
            "words are \\w+ of the casefolded text",
            "same_prompt": "rows whose first user text is equal, duplicates included",
            "bad": "rows that no adapter can read; every other row holds a record",
        },
        "files": {
            name: {
                "format": FORMATS[name],
                "rows": len(items) + (len(bad) if name == BROKEN else 0),
                "bad": bad if name == BROKEN else [],
            }
            for name, items in files.items()
        },
        "exact_duplicates": groups([(tuple(item.conversation), place) for item, place in sft]),
        "normalised_duplicates": groups([(squeeze(item.conversation), place) for item, place in sft]),
        "near_duplicates": near,
        "same_prompt": groups([(text, place) for text, (_, place) in zip(first, sft, strict=True)]),
        "secrets": [{"place": place, **secret} for item, place in placed for secret in item.marks.get("secrets", [])],
        "contaminated": [
            {"place": place, "evalset_id": item.marks["evalset_id"], "where": item.marks["where"]}
            for item, place in placed
            if "evalset_id" in item.marks
        ],
        "reasoning": marked("reasoning") + [p for i, p in placed if any(t.get("reasoning_content") for t in i.turns)],
        "control_tokens": marked("control"),
        "empty_responses": [place for item, place in placed if item.turns[-1]["content"] == ""],
        "long_rows": marked("long"),
        "nul": [place for item, place in placed if any("\0" in (turn["content"] or "") for turn in item.turns)],
        "line_separator": [
            place for item, place in placed if any("\u2028" in (t["content"] or "") for t in item.turns)
        ],
    }


def label_file(rows: list[dict[str, Any]], files: Files) -> tuple[bytes, dict[str, Any]]:
    """A side file that gives most of the rows of messages.jsonl.zst a domain, and two ids that nobody has."""
    kept = [n for n in range(len(rows)) if n % 11 != 10]
    labels = [{"id": rows[n]["id"], "domain": files[MESSAGES][n].example.domain} for n in kept]
    labels += [{"id": "tkt-9001", "domain": "science"}, {"id": "tkt-9002", "domain": "code"}]
    truth = {"file": MESSAGES, "rows": len(labels), "matched": len(kept), "unmatched": ["tkt-9001", "tkt-9002"]}
    return csv_bytes(labels), truth


def tag_counts(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many rows of alpaca_metadata.jsonl hold each tag."""
    counts = {name: Counter(str(row["metadata"][name]) for row in rows) for name in rows[0]["metadata"]}
    return {name: dict(sorted(count.items())) for name, count in counts.items()}


def build(folder: Path, model: bool = True) -> None:
    rng = Random(SEED)
    source = Source(rng)
    files = plain_files(rng, source)
    plants.plant(
        rng, files, lambda: source.draw(["letter", "summary", "cooking", "story", "ticket", "plan"]), Item, shingles
    )
    for items in files.values():
        rng.shuffle(items)
    tables = {name: [ROWS[name](item, rng) for item in items] for name, items in files.items()}
    for number, row in enumerate(tables[MESSAGES]):
        tables[MESSAGES][number] = {"id": f"tkt-{number:04d}", **row}
    for number in UNKNOWN_DIFFICULTY:
        tables[TAGGED][number]["metadata"]["difficulty"] = None
    written = {name: encode(name, rows) for name, rows in tables.items() if name != BROKEN}
    written[BROKEN], bad, broken_rows = plants.broken_file([line(row) for row in tables[BROKEN]])
    written["tickets_labels.csv"], labels = label_file(tables[MESSAGES], files)
    written["evalset.jsonl"] = b"".join(line(item) for item in plants.EVALSET)
    truth = account(files, bad, broken_rows) | {"labels": labels, "metadata": tag_counts(tables[TAGGED])}
    shown = json.dumps(truth, ensure_ascii=False, indent=1)
    shown = re.sub(r"\[\s+(\"[\w/.]+\"),\s+(\d+)\s+\]", r"[\1, \2]", shown)
    written["truth.json"] = shown.encode() + b"\n"
    for name, content in written.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if model:
        import tiny_model

        short = [item for items in files.values() for item in items if not item.marks.get("long")]
        lines = [f"{role}\n{content}" for item in short for role, content in item.conversation]
        lines += [f"<think>\n{item.example.reasoning}\n</think>" for item in short if item.example.reasoning]
        lines += ["<tool_call>\n</tool_call>" for item in short if item.tools]
        tiny_model.write(folder / "tiny-model", lines)


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--no-model"]
    build(Path(arguments[0]) if arguments else Path(__file__).parent, model="--no-model" not in sys.argv)
