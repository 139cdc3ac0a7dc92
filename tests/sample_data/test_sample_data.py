"""The sample data is what the generator writes, and truth.json tells the truth about it."""

import csv
import gzip
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

SAMPLES = Path(__file__).parents[2] / "sample_data"
TRUTH = json.loads((SAMPLES / "truth.json").read_text(encoding="utf-8"))
CAN_WRITE_MODEL = all(importlib.util.find_spec(name) for name in ("tokenizers", "safetensors", "numpy"))
Conversation = list[tuple[str, str]]


def content_of(path: Path) -> Any:
    """What the file says; compressed files are opened, since another library version may pack them differently."""
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.suffix == ".zst":
        zstandard = pytest.importorskip("zstandard")
        return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(path.read_bytes())).read()
    if path.suffix == ".parquet":
        return pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    return path.read_bytes()


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    options = [] if CAN_WRITE_MODEL else ["--no-model"]
    command = [sys.executable, "-B", str(SAMPLES / "generate.py"), str(folder), *options]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": "1"})
    return folder


def files_below(folder: Path) -> set[str]:
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return {name for name in found if not name.endswith((".py", ".pyc", "README.md"))}


def test_generator_reproduces_the_committed_files(fresh: Path) -> None:
    written = files_below(fresh)
    committed = files_below(SAMPLES)
    assert written == (committed if CAN_WRITE_MODEL else {name for name in committed if "tiny-model" not in name})
    assert [name for name in sorted(written) if content_of(fresh / name) != content_of(SAMPLES / name)] == []


# --- an independent reader -------------------------------------------------------------------------------------------


def raw_rows(name: str) -> list[Any]:
    """Every raw row: parsed, or its bytes where it is not JSON."""
    content = content_of(SAMPLES / name)
    if name.endswith(".parquet"):
        return content
    if name.endswith(".json"):
        return json.loads(content)
    if name.endswith(".csv"):
        return list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    rows = []
    for raw in content.split(b"\n"):
        if raw.strip():
            try:
                rows.append(json.loads(raw.decode("utf-8")))
            except ValueError:
                rows.append(raw)
    return rows


def is_bad(row: Any) -> bool:
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except (TypeError, UnicodeEncodeError):
        return True
    return not isinstance(row, dict) or not row or not all(isinstance(row.get(f, ""), str) for f in ("input", "output"))


def conversation_of(row: dict[str, Any]) -> Conversation:
    if "conversations" in row:
        roles = {
            "human": "user",
            "gpt": "assistant",
            "observation": "tool",
            "function_call": "call",
            "system": "system",
        }
        system = [("system", row["system"])] if "system" in row else []
        return system + [(roles[turn["from"]], turn["value"]) for turn in row["conversations"]]
    if "messages" in row:
        return [
            (t["role"], t["content"] if t["content"] is not None else json.dumps(t["tool_calls"]))
            for t in row["messages"]
        ]
    if "instruction" in row:
        answer = re.sub(r"\A<think>.*?</think>\s*", "", row["output"], flags=re.DOTALL)
        return [
            ("user", "\n\n".join(part for part in (row["instruction"], row["input"]) if part)),
            ("assistant", answer),
        ]
    answer = row["completion"] if "completion" in row else row["answer"]
    return [("user", row["prompt"] if "prompt" in row else row["question"]), ("assistant", answer)]


RAW = {name: raw_rows(name) for name in TRUTH["files"]}
BAD = {(name, entry["row"]) for name, file in TRUTH["files"].items() for entry in file["bad"]}
SFT = {
    (name, number): conversation_of(row)
    for name, rows in RAW.items()
    for number, row in enumerate(rows)
    if (name, number) not in BAD and "rejected" not in row
}


def with_tools(place: tuple[str, int]) -> bool:
    return bool(RAW[place[0]][place[1]].get("tools"))


def places(listed: list[list[Any]]) -> list[tuple[str, int]]:
    return [(name, row) for name, row in listed]


def as_groups(keys: dict[tuple[str, int], Any]) -> set[frozenset[tuple[str, int]]]:
    found: dict[Any, list[tuple[str, int]]] = defaultdict(list)
    for place, key in keys.items():
        found[key].append(place)
    return {frozenset(group) for group in found.values() if len(group) > 1}


def test_rows_and_bad_rows() -> None:
    assert {name: len(rows) for name, rows in RAW.items()} == {n: file["rows"] for n, file in TRUTH["files"].items()}
    found = {(name, number) for name, rows in RAW.items() for number, row in enumerate(rows) if is_bad(row)}
    no_role = {(n, e["row"]) for n, file in TRUTH["files"].items() for e in file["bad"] if e["reason"] == "no_role"}
    assert found | no_role == BAD
    assert RAW["broken.jsonl"][next(iter(no_role))[1]]["messages"][0]["speaker"] == "narrator"
    assert sum(map(len, RAW.values())) > 900


def test_duplicates() -> None:
    exact = as_groups({place: tuple(turns) for place, turns in SFT.items()})
    assert exact == {frozenset(places(group)) for group in TRUTH["exact_duplicates"]}
    squeezed = {p: tuple((role, " ".join(text.casefold().split())) for role, text in turns) for p, turns in SFT.items()}
    assert as_groups(squeezed) == {frozenset(places(group)) for group in TRUTH["normalised_duplicates"]}
    first = {place: next(text for role, text in turns if role == "user") for place, turns in SFT.items()}
    assert as_groups(first) == {frozenset(places(group)) for group in TRUTH["same_prompt"]}
    assert any(len({name for name, _ in group}) > 2 for group in exact)


def shingles(text: str) -> set[str]:
    words = re.findall(r"\w+", text.casefold())
    return {" ".join(words[start : start + 3]) for start in range(max(1, len(words) - 2))}


def similarity(a: set[str], b: set[str]) -> float:
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared)


def test_near_duplicates_are_all_listed_with_their_similarity() -> None:
    prompt = {place: shingles(next(text for role, text in turns if role == "user")) for place, turns in SFT.items()}
    whole = {
        place: shingles("\n".join(text for _, text in turns)) for place, turns in SFT.items() if not with_tools(place)
    }
    squeezed = {place: [" ".join(text.casefold().split()) for _, text in turns] for place, turns in SFT.items()}
    found = {}
    for a, b in combinations(SFT, 2):
        by_prompt = similarity(prompt[a], prompt[b])
        by_whole = similarity(whole[a], whole[b]) if a in whole and b in whole else None
        if max(by_prompt, by_whole or 0) >= 0.6 and squeezed[a] != squeezed[b]:
            found[frozenset((a, b))] = (by_prompt, by_whole)
    listed = {
        frozenset(places([pair["a"], pair["b"]])): (pair["prompt"], pair["conversation"])
        for pair in TRUTH["near_duplicates"]
    }
    assert found.keys() == listed.keys()
    for pair, scores in found.items():
        assert scores == pytest.approx(listed[pair], abs=1e-5)
    assert sum((scores[1] or 0) >= 0.7 for scores in found.values()) >= 14


def text_at(place: list[Any]) -> str:
    return "\n".join(text for _, text in SFT[(place[0], place[1])])


def test_planted_rows() -> None:
    for secret in TRUTH["secrets"]:
        assert secret["text"] in text_at(secret["place"])
    evalset = {item["id"]: item["question"] for item in raw_rows("evalset.jsonl")}
    leaks = {
        (*place, key)
        for place, turns in SFT.items()
        for key, question in evalset.items()
        if any(question in text for _, text in turns)
    }
    assert leaks == {(*leak["place"], leak["evalset_id"]) for leak in TRUTH["contaminated"]}
    assert {key for _, _, key in leaks} < set(evalset)
    assert {p for p, turns in SFT.items() if turns[-1][1] == ""} == set(places(TRUTH["empty_responses"]))
    assert {p for p, turns in SFT.items() if any("\0" in text for _, text in turns)} == set(places(TRUTH["nul"]))
    assert {p for p, turns in SFT.items() if any("\u2028" in t for _, t in turns)} == set(
        places(TRUTH["line_separator"])
    )
    assert {p for p, turns in SFT.items() if len(turns[0][1]) > 20_000} == set(places(TRUTH["long_rows"]))
    for place in TRUTH["control_tokens"]:
        assert re.search(r"<\||</s>|<think>", text_at(place))
    for name, number in places(TRUTH["reasoning"]):
        assert re.search(r'"<think>|"reasoning_content"', json.dumps(RAW[name][number]))


def test_labels_and_metadata() -> None:
    labels = raw_rows("tickets_labels.csv")
    known = {row["id"] for row in RAW[TRUTH["labels"]["file"]]}
    assert len(labels) == TRUTH["labels"]["rows"]
    assert len({label["id"] for label in labels} & known) == TRUTH["labels"]["matched"]
    assert [label["id"] for label in labels if label["id"] not in known] == TRUTH["labels"]["unmatched"]
    tagged = RAW["alpaca_metadata.jsonl"]
    for tag, counts in TRUTH["metadata"].items():
        for value, count in counts.items():
            assert sum(str(row["metadata"][tag]) == value for row in tagged) == count
    assert all(row["metadata"]["reasoning_trace"] == row["output"].startswith("<think>") for row in tagged)


def test_readme_counts() -> None:
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    counted = {name: int(rows) for name, rows in re.findall(r"^\| `([\w./]+)` \| (\d+) \|", readme, re.MULTILINE)}
    assert counted == {name: file["rows"] for name, file in TRUTH["files"].items()} | {
        "tickets_labels.csv": TRUTH["labels"]["rows"],
        "evalset.jsonl": len(raw_rows("evalset.jsonl")),
    }


def test_small_enough_to_commit() -> None:
    model = sum(path.stat().st_size for path in (SAMPLES / "tiny-model").iterdir())
    assert model < 8_000_000
    assert sum((SAMPLES / name).stat().st_size for name in files_below(SAMPLES)) - model < 3_000_000


# --- the tiny model --------------------------------------------------------------------------------------------------

TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
CHAT = [
    {"role": "system", "content": " Be brief. "},
    {"role": "user", "content": "\nWhat is 2 + 3? <|im_end|> \u2028 \0 caf\u00e9 面包"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "function": {"name": "add", "arguments": '{"a":2.0}'}}],
    },
    {"role": "tool", "tool_call_id": "a", "name": "add", "content": "5"},
    {"role": "assistant", "reasoning_content": "The tool says 5.", "content": "\n\n It is 5 😀.\n"},
    {"role": "user", "content": "Thanks!"},
    {"role": "assistant", "content": "Welcome.", "tool_calls": [{"name": "add", "arguments": {"a": "ü"}}]},
]
ANSWERS = [
    '<tool_call>\n{"name": "add", "arguments": {"a":2.0}}\n</tool_call><|im_end|>',
    "<think>\nThe tool says 5.\n</think>\n\n\n\n It is 5 😀.\n<|im_end|>",
    'Welcome.\n<tool_call>\n{"name": "add", "arguments": {"a": "ü"}}\n</tool_call><|im_end|>',
]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    pytest.importorskip("torch")
    return pytest.importorskip("transformers").AutoTokenizer.from_pretrained(SAMPLES / "tiny-model")


def masked_answers(tokenizer: Any, messages: list[dict[str, Any]], tools: Any = None) -> list[str]:
    """The decoded runs of tokens under the assistant mask."""
    encoded = tokenizer.apply_chat_template(
        messages, tools=tools, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    runs: list[list[int]] = []
    before = 0
    for token, mask in zip(encoded["input_ids"], encoded["assistant_masks"], strict=True):
        if mask and not before:
            runs.append([])
        if mask:
            runs[-1].append(token)
        before = mask
    return [tokenizer.decode(run) for run in runs]


def test_mask_covers_exactly_the_answers(tokenizer: Any) -> None:
    assert masked_answers(tokenizer, CHAT, [TOOL]) == ANSWERS
    for place, turns in list(SFT.items())[::9]:
        if not with_tools(place) and len(turns[0][1]) < 20_000:
            messages = [{"role": role, "content": text} for role, text in turns]
            expected = [text + "<|im_end|>" for role, text in turns if role == "assistant"]
            assert masked_answers(tokenizer, messages) == expected


def test_template_keeps_every_content(tokenizer: Any) -> None:
    for tools in (None, [TOOL]):
        text = tokenizer.apply_chat_template(CHAT, tools=tools, tokenize=False)
        assert all((message["content"] or "") in text for message in CHAT)
        assert ('"name": "add", "parameters"' in text) == (tools is not None)
    asked = tokenizer.apply_chat_template(CHAT[:2], tokenize=False, add_generation_prompt=True)
    assert asked.endswith("<|im_end|>\n<|im_start|>assistant\n")


def test_tokenizer_is_byte_level(tokenizer: Any) -> None:
    hard = "".join(map(chr, range(0x250))) + "\u2028 \r\n 面包 😀 e\u0301"
    assert tokenizer.decode(tokenizer(hard)["input_ids"]) == hard
    assert len(tokenizer) == 2048
    assert (tokenizer.pad_token, tokenizer.eos_token) == ("<|endoftext|>", "<|im_end|>")
    byte_marks = {token for token in tokenizer.get_vocab() if len(token) == 1}
    assert len(byte_marks) == 256


def test_model_loads_and_predicts(tokenizer: Any) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(SAMPLES / "tiny-model")
    assert 1_000_000 <= model.num_parameters() <= 3_000_000
    assert model.dtype == torch.float32
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    ids = torch.tensor([tokenizer("What is 2 + 3?")["input_ids"]])
    loss = model(input_ids=ids, labels=ids).loss.item()
    assert abs(loss - 7.6) < 0.5  # ln 2048: nothing learnt yet
