"""Writes the tiny model: a byte-level tokenizer trained on the sample texts, a chat template, random start weights."""

import json
from pathlib import Path
from typing import Any

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VOCABULARY = 2048
SEED = 7

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 1024,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "mlp_bias": False,
    "tie_word_embeddings": True,
    "initializer_range": 0.02,
    "bos_token_id": None,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "use_cache": True,
    "dtype": "float32",
}

TOKENIZER_CONFIG: dict[str, Any] = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": None,
    "eos_token": END,
    "pad_token": PAD,
    "additional_special_tokens": [START],
    "add_prefix_space": False,
    "clean_up_tokenization_spaces": False,
    "model_max_length": 1024,
}

# Nothing is trimmed: each content stands in the text as it came. The loss mask covers an answer and its end mark.
TEMPLATE = r"""{%- if tools -%}
    {{- '<|im_start|>system\n' -}}
    {%- if messages[0].role == 'system' -%}
        {{- (messages[0].content or '') + '\n\n' -}}
    {%- endif -%}
    {{- 'You can call these tools:\n<tools>\n' -}}
    {%- for tool in tools -%}
        {{- (tool | tojson) + '\n' -}}
    {%- endfor -%}
    {{- '</tools>\nWrite a call as <tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call><|im_end|>\n' -}}
{%- endif -%}
{%- for message in messages -%}
    {%- if message.role == 'assistant' -%}
        {{- '<|im_start|>assistant\n' -}}
        {%- generation -%}
            {%- if message.reasoning_content -%}
                {{- '<think>\n' + message.reasoning_content + '\n</think>\n\n' -}}
            {%- endif -%}
            {{- message.content or '' -}}
            {%- for call in message.tool_calls or [] -%}
                {%- set made = call.function if call.function else call -%}
                {%- if message.content or not loop.first -%}
                    {{- '\n' -}}
                {%- endif -%}
                {{- '<tool_call>\n{"name": "' + made.name + '", "arguments": ' -}}
                {%- if made.arguments is string -%}
                    {{- made.arguments -}}
                {%- else -%}
                    {{- made.arguments | tojson -}}
                {%- endif -%}
                {{- '}\n</tool_call>' -}}
            {%- endfor -%}
            {{- '<|im_end|>' -}}
        {%- endgeneration -%}
        {{- '\n' -}}
    {%- elif not (loop.first and tools and message.role == 'system') -%}
        {{- '<|im_start|>' + message.role + '\n' + (message.content or '') + '<|im_end|>\n' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\n' -}}
{%- endif -%}
"""


def tokenizer_json(lines: list[str]) -> str:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    # A line feed and a digit always stand alone, so that no token reaches across the start of an answer.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split("\n", "isolated"),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer.to_str(pretty=False) + "\n"


def weight_shapes() -> dict[str, tuple[int, ...]]:
    hidden, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    queries = CONFIG["num_attention_heads"] * CONFIG["head_dim"]
    keys = CONFIG["num_key_value_heads"] * CONFIG["head_dim"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, hidden)}
    for layer in range(CONFIG["num_hidden_layers"]):
        parts = {
            "input_layernorm": (hidden,),
            "self_attn.q_proj": (queries, hidden),
            "self_attn.k_proj": (keys, hidden),
            "self_attn.v_proj": (keys, hidden),
            "self_attn.o_proj": (hidden, queries),
            "post_attention_layernorm": (hidden,),
            "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
        }
        shapes |= {f"model.layers.{layer}.{part}.weight": shape for part, shape in parts.items()}
    return shapes | {"model.norm.weight": (hidden,)}


def weights_bytes() -> bytes:
    """Uniform start weights of the usual deviation: unlike normal ones they come out equal on every machine."""
    import numpy as np
    from safetensors.numpy import save

    draw = np.random.Generator(np.random.PCG64(SEED))
    width = CONFIG["initializer_range"] * 12**0.5
    tensors = {
        name: np.ones(shape, np.float32) if len(shape) == 1 else ((draw.random(shape) - 0.5) * width).astype(np.float32)
        for name, shape in weight_shapes().items()
    }
    return save(tensors, metadata={"format": "pt"})


def write(folder: Path, lines: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    special = {"eos_token_id": 2, "pad_token_id": 0}
    for name, content in (
        ("config.json", CONFIG),
        ("generation_config.json", special | {"do_sample": False, "max_new_tokens": 256}),
        ("tokenizer_config.json", TOKENIZER_CONFIG),
    ):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    (folder / "tokenizer.json").write_text(tokenizer_json(lines), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(weights_bytes())
