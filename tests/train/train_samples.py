"""Small mixture folders and model folders, built on the spot."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from curator.io.dataset import ShardWriter
from curator.io.manifest import FileEntry, Manifest, TaskResult
from curator.mixture.sampler import write_order
from curator.schema.record import RECORD_SCHEMA, schema_to_json

TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}{{- message.content + '<|im_end|>' }}{%- endgeneration %}
    {%- else %}
        {{- message.content + '<|im_end|>' }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}
"""
SLICES = ["red", "green"]


def make_model(folder: Path, template: str | None = TEMPLATE, tied: bool = True, **settings: Any) -> Path:
    """A Llama of some 30,000 parameters without weights (a seeded random start) and a tokenizer of single bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({text: index for index, text in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": 264,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "tie_word_embeddings": tied,
        "eos_token_id": tokenizer.token_to_id("<|im_end|>"),
        "bos_token_id": None,
        **settings,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def record(number: int, question: str, answer: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"sample/a.jsonl#{number}",
        "kind": "sft",
        "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}],
        "metadata": {"source": SLICES[number % 2], "split": "train"},
        **fields,
    }


def sample_records(count: int, num_validation: int = 0) -> list[dict[str, Any]]:
    """Questions and answers of ragged lengths, the last ones held out."""
    rng = np.random.default_rng(7)
    words = ["sum", "of", "two", "red", "green", "blue", "is", "not", "the", "answer", "to", "all"]
    records = []
    for number in range(count):
        question, answer = (" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(2))
        split = "validation" if number >= count - num_validation else "train"
        metadata = {"source": SLICES[number % 2], "split": split}
        records.append(record(number, question, answer, metadata=metadata))
    return records


def make_mixture(
    folder: Path,
    records: Sequence[dict[str, Any]],
    order: Sequence[int] | None = None,
    phases: Sequence[tuple[str, int]] = (),
) -> Path:
    """A mixture folder: `order` lists rows (default: the train rows as they stand), `phases` names and ends."""
    entries = _write_shards(folder, records)
    manifest = Manifest(
        {"steps": [{"step": "mix"}], "inputs": []}, [TaskResult("00000", "mix", entries)], schema_to_json(RECORD_SCHEMA)
    )
    (folder / "manifest.json").write_bytes(manifest.to_bytes())
    if order is None:
        order = [row for row, item in enumerate(records) if item["metadata"]["split"] == "train"]
    rows = np.array(order, dtype=np.int64)
    epochs = np.array([list(order[:place]).count(row) for place, row in enumerate(order)])
    ends = list(phases) or [("all", len(rows))]
    firsts = [0, *(end for _, end in ends[:-1])]
    columns = {
        "row": rows,
        "epoch": epochs,
        "phase": np.searchsorted([end for _, end in ends], np.arange(len(rows)), side="right"),
        "slice": rows % 2,
    }
    digest = write_order(folder / "order.parquet", columns)
    mixture = {
        "format": "curator.mixture",
        "order": {"positions": len(rows), "xxh3": digest},
        "phases": [
            {"name": name, "first": first, "last": end} for first, (name, end) in zip(firsts, ends, strict=True)
        ],
        "slices": [f"source={name}" for name in SLICES],
        "slice_fields": ["source"],
    }
    (folder / "mixture.json").write_text(json.dumps(mixture))
    return folder


def _write_shards(folder: Path, records: Sequence[dict[str, Any]]) -> list[FileEntry]:
    """The records in two shards of two row groups each, so that row numbers cross every kind of border."""
    entries = []
    half = max(-(-len(records) // 2), 1)
    for number, first in enumerate(range(0, len(records), half)):
        writer = ShardWriter(folder, f"data/{number:05d}.parquet", RECORD_SCHEMA)
        part = list(records[first : first + half])
        for group in (part[: len(part) // 3], part[len(part) // 3 :]):
            writer.write(pa.RecordBatch.from_pylist(group, RECORD_SCHEMA))
            writer._flush()
        entries.append(writer.close())
    return entries
