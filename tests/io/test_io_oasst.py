"""Open-Assistant: every answer of a tree is trained once, the row comes back, and a table reads like its trees."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from record_samples import ids_of, ingested, ledger_of, quarantine_of, rows_of, texts_of, write_lines

from curator.io.adapters import oasst
from curator.io.adapters.oasst import restore
from curator.io.build import Builder, SourceSettings
from curator.io.raw import RawRow
from curator.pipeline.passes import Options


def node(name: str, role: str, *replies: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"message_id": name, "text": f"{name} says", "role": role, **fields, "replies": list(replies)}


TREE = {
    "message_tree_id": "t",
    "tree_state": "ready_for_export",
    "prompt": node(
        "t",
        "prompter",
        node(
            "a",
            "assistant",
            node("q", "prompter", node("b", "assistant", rank=1), node("c", "assistant", rank=0), labels={"x": 1}),
            node("open", "prompter"),
            rank=0,
            lang="de",
            model_name="m",
        ),
        node("d", "assistant", rank=1.50, emojis=None),
        lang="de",
        review_count=12345678901234567890,
    ),
}


def flat(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The messages of a tree as rows of a table, parents first."""
    stack = [(None, tree["prompt"])]
    while stack:
        parent, message = stack.pop()
        rest = {key: value for key, value in message.items() if key != "replies"}
        yield {"parent_id": parent, "message_tree_id": tree["message_tree_id"], **rest}
        stack += [(message["message_id"], reply) for reply in reversed(message["replies"])]


def built(*rows: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Records and reasons of raw rows of one file."""
    data = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    raw = [RawRow(index, 0, text) for index, text in enumerate(data)]
    parts = list(Builder(SourceSettings("s"), "f").build(raw))
    records = [record for part in parts for record in part.records.to_pylist()]
    return records, [reason for part in parts for reason in part.bad.column("reason").to_pylist()]


def names(record: dict[str, Any]) -> list[str]:
    """Who speaks, with ! behind what may carry loss."""
    return [
        (turn["content"] or "").split(" ")[0] + ("!" if turn["role"] == "assistant" and turn["weight"] is None else "")
        for turn in record["messages"]
    ]


def same(record: dict[str, Any]) -> tuple[Any, ...]:
    """What a tree and a table must agree on."""
    tags = {key: value for key, value in record["metadata"].items() if value is not None}
    return record["content_hash"], record["kind"], record["group"], tags, record["messages"]


def test_every_answer_of_a_tree_is_trained_once() -> None:
    records, bad = built(TREE)
    assert not bad
    assert [record["id"] for record in records] == [f"s/f#0.{part}" for part in range(5)]
    assert [(record["kind"], names(record)) for record in records] == [
        ("sft", ["t", "a!"]),
        ("sft", ["t", "a", "q", "b!"]),
        ("sft", ["t", "a", "q", "c!"]),
        ("prompt", ["t", "a", "open"]),
        ("sft", ["t", "d!"]),
    ]
    assert {record["group"] for record in records} == {"s/f#t"}
    assert records[0]["metadata"]["language"] == "de" and records[0]["metadata"]["teacher"] == "m"
    assert [record["metadata"]["original_id"] for record in records] == ["a", "b", "c", "open", "d"]
    trained = Counter(name for record in records for name in names(record) if name.endswith("!"))
    assert trained == {"a!": 1, "b!": 1, "c!": 1, "d!": 1}


def test_each_message_is_carried_once_with_all_its_fields() -> None:
    records, _ = built(TREE)
    carried = [message for record in records for message in json.loads(record["extra"])["prompt"]]
    assert [message["message_id"] for message in carried] == ["t", "a", "q", "b", "c", "open", "d"]
    assert json.loads(records[1]["extra"])["prompt"][0]["labels"] == {"x": 1}
    assert '"review_count":12345678901234567890' in records[0]["extra"]
    assert '"rank":1.5,"emojis":null' in records[4]["extra"]
    assert all(json.loads(record["extra"])["tree_state"] == "ready_for_export" for record in records)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"text": None},
        {"text": ""},
        {"role": "assistant"},
        {"text": "<think>a</think>b", "role": "assistant"},
        {"text": "\u0000 \u2028 <image>"},
        {"message_id": 7},
        {"replies": None},
        {"replies": []},
    ],
)
def test_the_row_comes_back(change: dict[str, Any]) -> None:
    tree = json.loads(json.dumps(TREE))
    tree["prompt"]["replies"][0]["replies"][0] |= change
    for row in (tree, {**tree["prompt"], "parent_id": None, "z": [1.0, {"b": 1, "a": 2}]}):
        records, bad = built(row)
        assert not bad
        assert json.dumps(json.loads(restore(records))) == json.dumps(row)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"prompt": "text"}, "wrong type: prompt is text, expected a message"),
        ({"prompt": None}, "wrong type: prompt is null, expected a message"),
        ({"prompt": {"role": "prompter"}}, "no field: text of a message"),
        ({"prompt": {"text": "a"}}, "no field: role"),
        ({"prompt": {"text": 1, "role": "prompter"}}, "wrong type: text is number, expected text"),
        (
            {"prompt": {"text": "a", "role": "prompter", "replies": ["b"]}},
            "wrong type: replies of a message are no list of objects",
        ),
        (
            {"prompt": {"text": "a", "role": "prompter", "replies": {"text": "a", "role": "prompter"}}},
            "wrong type: replies of a message are no list of objects",
        ),
    ],
)
def test_a_tree_of_the_wrong_shape_says_so(change: dict[str, Any], reason: str) -> None:
    assert built({**TREE, **change}) == ([], [reason])


@pytest.mark.parametrize("where", ['"replies":[{"text":"a","role":"assistant","text":"b"}]', '"role":"prompter"'])
def test_a_key_twice_in_a_message_is_told(where: str) -> None:
    prompt = f'{{"text":"a","role":"prompter",{where}}}'
    key = "text" if "replies" in where else "role"
    assert built(f'{{"message_tree_id":"t","prompt":{prompt}}}'.encode()) == ([], [f"key twice: {key}"])
    if "replies" in where:
        row = f'{{"message_id":"t","parent_id":null,{prompt[1:]}'
        assert built(row.encode()) == ([], [f"key twice: {key}"])


def chain(depth: int) -> dict[str, Any]:
    message = node(f"m{depth}", "assistant" if depth % 2 else "prompter")
    for level in reversed(range(depth)):
        message = node(f"m{level}", "assistant" if level % 2 else "prompter", message)
    return {"message_tree_id": "t", "prompt": message}


def chain_text(depth: int) -> bytes:
    """The same, written without recursion."""
    begin = "".join(
        f'{{"message_id":"m{level}","text":"m{level} says","role":"{"assistant" if level % 2 else "prompter"}",'
        '"replies":['
        for level in range(depth + 1)
    )
    return f'{{"message_tree_id":"t","prompt":{begin}{"]}" * (depth + 1)}}}'.encode()


def test_a_deep_tree_needs_no_deep_stack() -> None:
    records, bad = built(chain_text(61))
    assert not bad and len(records) == 31
    assert [len(record["messages"]) for record in records] == list(range(2, 63, 2))
    assert json.loads(restore(records)) == json.loads(chain_text(61)) == chain(61)
    for depth in (64, 500, 5_000, 100_000):
        assert built(chain_text(depth)) == ([], ["nested too deeply: more than 128 levels"])


def test_a_table_may_be_thousands_deep() -> None:
    rows = [
        {
            "message_id": f"m{level}",
            "parent_id": f"m{level - 1}" if level else None,
            "text": "x",
            "role": "assistant" if level % 2 else "prompter",
        }
        for level in range(1_500)
    ]
    raw = [RawRow(index, 0, json.dumps(row).encode()) for index, row in enumerate(rows)]
    parts = list(Builder(SourceSettings("s"), "f").build(raw))
    assert sum(part.records.num_rows for part in parts) == 1_500
    # No stretch grows with the square of the depth.
    assert len(parts) > 4 and all(len(part.records.column("messages").flatten()) < 1 << 19 for part in parts)
    last = parts[-1].records.slice(parts[-1].records.num_rows - 1).to_pylist()[0]
    assert len(last["messages"]) == 1_500 and last["group"] == "s/f#m0"
    assert [turn["weight"] for turn in last["messages"][-4:]] == [None, 0.0, None, None]


def test_the_records_of_a_tree_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oasst, "MAX_TREE_CHARS", 60)
    records, bad = built(TREE)
    assert not records
    assert bad == ["too large: with their ways, the answers of the tree are over 60 characters"]


# --- tables ---------------------------------------------------------------------------------------------------------


def test_a_table_gives_the_records_of_its_trees() -> None:
    rows = list(flat(TREE))
    records, bad = built(*rows)
    assert not bad and [record["id"] for record in records] == [f"s/f#{row}" for row in range(7)]
    replied_to = {row["parent_id"] for row in rows}
    leaves = [
        record for record in records if record["kind"] == "sft" or record["metadata"]["original_id"] not in replied_to
    ]
    assert list(map(same, leaves)) == list(map(same, built(TREE)[0]))
    assert [json.loads(restore([record])) for record in records] == rows
    assert records[0]["kind"] == records[2]["kind"] == "prompt"


def row(name: str, parent: str | None, tree: str | None = "t", **fields: Any) -> dict[str, Any]:
    tie = {} if tree is None else {"message_tree_id": tree}
    role = "assistant" if name.startswith("a") else "prompter"
    return {"message_id": name, "parent_id": parent, "text": f"{name} says", "role": role, **tie, **fields}


@pytest.mark.parametrize(
    ("rows", "kept", "reasons"),
    [
        ([row("a", "q"), row("q", None)], [["q"]], ["no parent: message q is not in the rows before this one"]),
        (
            [row("q", None), row("a", "x"), row("r", "a"), row("b", "q")],
            [["q"], ["q", "b"]],
            [
                "no parent: message x is not in the rows before this one",
                "no parent: message a is not in the rows before this one",
            ],
        ),
        ([row("q", None), row("q", None)], [["q"]], ["message twice: q was in a row before"]),
        ([row("q", None), row("a", "q", "u")], [["q"]], ["no parent: message q is of another tree, t"]),
        ([row("q", None, None), row("a", "q", None)], [["q"], ["q", "a!"]], []),
        (
            [row("q", None), row("r", None, "u"), row("a", "q"), row("ab", "r", "u")],
            [["q"], ["r"], ["q", "a!"], ["r", "ab!"]],
            [],
        ),
        ([row("q", None, message_id=1), row("a", "q", parent_id=1)], [["q"], ["q", "a!"]], []),
        ([row("q", None, message_id=None), row("r", None, message_id=None)], [["q"], ["r"]], []),
        (
            [row("q", None), row("a", "q", replies=[node("r", "prompter", node("ab", "assistant"))]), row("ac", "r")],
            [["q"], ["q", "a!"], ["q", "a", "r", "ab!"], ["q", "a", "r", "ac!"]],
            [],
        ),
        (
            [row("q", None), row("a", "q", replies=[node("q", "prompter")]), row("ab", "q")],
            [["q"], ["q", "ab!"]],
            ["message twice: q was in a row before"],
        ),
        (
            [row("q", None), row("a", "q", text=5), row("ab", "a")],
            [["q"]],
            ["wrong type: text is number, expected text", "no parent: message a is not in the rows before this one"],
        ),
        ([row("q", None, replies=None), row("a", "q", replies=[])], [["q"], ["q", "a!"]], []),
    ],
)
def test_a_reply_needs_its_parent_above_it(rows: list[Any], kept: list[Any], reasons: list[str]) -> None:
    records, bad = built(*rows)
    assert ([names(record) for record in records], bad) == (kept, reasons)
    groups: dict[Any, list[Any]] = {}
    for record in records:
        groups.setdefault(record["provenance"]["row"], []).append(record)
    for number, parts in groups.items():
        assert json.loads(restore(parts)) == rows[number]


def test_only_the_trees_read_last_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oasst, "KEPT_CHARS", 20)
    rows = [row("q", None, "1"), row("r", None, "2"), row("a", "q", "1"), row("s", None, "3"), row("ab", "r", "2")]
    records, bad = built(*rows, row("b", "a", "1"))
    assert [names(record) for record in records] == [["q"], ["r"], ["q", "a!"], ["s"], ["q", "a", "b"]]
    assert bad == ["no parent: message r is not in the rows before this one"]
    # The tree at hand is held whole.
    records, bad = built(*flat(TREE))
    assert len(records) == 7 and not bad


def test_a_table_is_not_cut_between_workers(tmp_path: Path) -> None:
    trees = [json.loads(json.dumps(TREE).replace('"t"', f'"t{index}"')) for index in range(60)]
    for index, tree in enumerate(trees):
        for message in flat(tree):
            assert message["message_tree_id"] == f"t{index}"
    rows = [
        {**message, **{key: f"{index}-{message[key]}" for key in ("message_id", "parent_id") if message[key]}}
        for index, tree in enumerate(trees)
        for message in flat(tree)
    ]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    ingested(path, tmp_path / "whole")
    ingested(path, tmp_path / "cut", Options(workers=2), shard_bytes=4096)
    ingested(path, tmp_path / "alone", Options(workers=1), shard_bytes=4096, adapter="oasst-messages")
    assert len(list((tmp_path / "cut/data").iterdir())) > 5
    assert ledger_of(tmp_path / "whole").read == len(rows) and not quarantine_of(tmp_path / "whole")
    assert rows_of(tmp_path / "cut") == rows_of(tmp_path / "whole") == rows_of(tmp_path / "alone")
    # Other files are cut as before.
    other = write_lines(tmp_path / "other.jsonl", [{"question": "x" * 500, "answer": "b"}] * 20)
    ingested(other, tmp_path / "other", shard_bytes=4096)
    assert len({name.name[:11] for name in (tmp_path / "other/data").iterdir()}) == 1
    assert len(ids_of(tmp_path / "other")) == 20


def test_real_dialogues_are_the_same_in_all_three_forms(real_data: Path, tmp_path: Path) -> None:
    folder = real_data / "open_assistant"
    sources = {
        name: list(map(json.loads, (folder / f"en_100_{name}.jsonl").read_bytes().splitlines()))
        for name in ("tree", "message")
    }
    records = {}
    for name, rows in sources.items():
        ingested(folder / f"en_100_{name}.jsonl", tmp_path / name)
        records[name] = rows_of(tmp_path / name)
        parts: dict[int, list[Any]] = {}
        for record in records[name]:
            parts.setdefault(record["provenance"]["row"], []).append(record)
        assert [json.dumps(json.loads(restore(parts[number]))) for number in parts] == [json.dumps(row) for row in rows]
    table = write_lines(tmp_path / "table.jsonl", [message for tree in sources["tree"] for message in flat(tree)])
    ingested(table, tmp_path / "table")
    records["table"] = rows_of(tmp_path / "table")
    assert len(records["table"]) == 1167 and len(records["tree"]) == 687 + 226

    def plain(rows: list[Any]) -> list[Any]:
        return [(*same(row)[:2], row["group"].partition("#")[2], *same(row)[3:]) for row in rows]

    assert plain(records["tree"]) == plain(records["message"])
    answers = [row for row in records["table"] if row["kind"] == "sft"]
    assert plain(answers) == plain([row for row in records["tree"] if row["kind"] == "sft"])
    assert all(texts_of(row)[0][0] == "user" for row in answers)
