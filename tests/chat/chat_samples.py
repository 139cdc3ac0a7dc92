"""A byte-level tokenizer and templates small enough to read."""

from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

CHATML = """\
{%- if tools %}
    {{- '<|im_start|>tools\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson + '\\n' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}
            {%- if message.reasoning_content %}
                {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
            {%- endif %}
            {{- message.content }}
            {%- for call in message.tool_calls or [] %}
                {{- '<tool_call>' + call.function | tojson + '</tool_call>' }}
            {%- endfor %}
            {{- '<|im_end|>' }}
        {%- endgeneration %}
    {%- else %}
        {{- message.content + '<|im_end|>' }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

PLAIN = """\
{% for message in messages %}
{% if message['role'] == 'user' %}
### Question: {{ message['content'] | trim }}
{% elif message['role'] == 'system' %}
{{ bos_token + message['content'] }}

{% else %}
### Answer: {% generation %}{{ message['content'] }}{{ eos_token }}{% endgeneration %}

{% endif %}
{% endfor %}
"""

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def tokenizer_json() -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["the user asks and the assistant answers the question, in words"] * 4, trainer)
    tokenizer.add_tokens(["<tool_call>", "</tool_call>"])
    return tokenizer.to_str()


def turn(role: str, content: str | None, **fields: Any) -> dict[str, Any]:
    """A message as records hold it."""
    return {"role": role, "content": content, **fields}
