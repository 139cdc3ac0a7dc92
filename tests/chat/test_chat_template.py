"""Rendered text is the text transformers renders; folders that cannot be trained on are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_samples import CHATML, PLAIN

from curator.chat.tokenizer import ChatTokenizer
from curator.errors import CuratorError

CONTROL_FLOW = """\
{%- set ns = namespace(seen=0) %}
{%- macro show(text) %}[{{ text | upper }}]{% endmacro %}
{%- for m in messages %}
    {%- if m.role == 'system' %}{% continue %}{% endif %}
    {%- set ns.seen = ns.seen + 1 %}
    {{ show(m.role) }}
    {%- generation -%}
        {% set inner = m.content | trim %}
        {{- inner }}
    {%- endgeneration %}
    {{- {'n': ns.seen, 'é': '<&>', 'a': [1, none, true]} | tojson }}
    {%- if ns.seen > 3 %}{% break %}{% endif %}
{%- endfor %}
{{ inner is defined }} {{ strftime_now('%Y') | length }} {{ dict(a=1) }} {{ eos_token }}
"""

CONVERSATIONS: list[tuple[list[dict[str, Any]], list[dict[str, Any]] | None]] = [
    ([{"role": "user", "content": "question"}, {"role": "assistant", "content": "answer"}], None),
    (
        [
            {"role": "system", "content": "be brief\n"},
            {"role": "user", "content": "  <b>&amp; é 日本 "},
            {"role": "assistant", "content": "one"},
            {"role": "user", "content": "q2"},
            {"role": "assistant", "content": "", "reasoning_content": "because"},
        ],
        [{"type": "function", "function": {"name": "f", "parameters": {"z": 1, "a": "é<>"}}}],
    ),
]


def stored(message: dict[str, Any]) -> dict[str, Any]:
    return {{"reasoning_content": "reasoning"}.get(key, key): value for key, value in message.items()}


@pytest.mark.parametrize("template", [CHATML, PLAIN, CONTROL_FLOW])
@pytest.mark.parametrize("add_generation_prompt", [False, True])
def test_text_and_mask_equal_transformers(
    make_folder: Callable[..., Path], template: str, add_generation_prompt: bool
) -> None:
    import json

    from transformers import AutoTokenizer

    folder = make_folder(template)
    chat, theirs = ChatTokenizer.load(folder), AutoTokenizer.from_pretrained(folder)
    for messages, tools in CONVERSATIONS:
        if chat.inlines_reasoning and any("reasoning_content" in message for message in messages):
            continue
        own = chat.render([stored(m) for m in messages], tools and json.dumps(tools), add_generation_prompt)
        expected = theirs.apply_chat_template(
            messages, tools=tools, tokenize=False, add_generation_prompt=add_generation_prompt
        )
        assert own == expected


def test_ids_and_mask_equal_transformers(make_folder: Callable[..., Path]) -> None:
    from transformers import AutoTokenizer

    folder = make_folder(CHATML)
    chat, theirs = ChatTokenizer.load(folder), AutoTokenizer.from_pretrained(folder)
    for messages, _ in CONVERSATIONS:
        encoded = chat.encode([stored(m) for m in messages])
        expected = theirs.apply_chat_template(
            messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
        )
        assert encoded.ids.tolist() == expected["input_ids"]
        assert (encoded.weights > 0).astype(int).tolist() == expected["assistant_masks"]


def test_tiny_model_of_the_samples_equals_transformers() -> None:
    from transformers import AutoTokenizer

    folder = Path(__file__).parents[2] / "sample_data" / "tiny-model"
    if not folder.exists():
        pytest.skip("sample_data/tiny-model is not there")
    chat, theirs = ChatTokenizer.load(folder), AutoTokenizer.from_pretrained(folder)
    for messages, _ in CONVERSATIONS:
        assert chat.render([stored(m) for m in messages]) == theirs.apply_chat_template(messages, tokenize=False)


def test_templates_cannot_reach_out(make_folder: Callable[..., Path]) -> None:
    template = "{% generation %}{{ messages.__class__.__mro__ }}{% endgeneration %}"
    encoded = ChatTokenizer.load(make_folder(template)).encode([{"role": "assistant", "content": "a"}])
    assert encoded.status == "template_error" and "SecurityError" in (encoded.detail or "")


def test_what_the_template_raises_is_the_status(make_folder: Callable[..., Path]) -> None:
    template = "{{ raise_exception('roles must alternate') }}{% generation %}{% endgeneration %}"
    encoded = ChatTokenizer.load(make_folder(template)).encode([{"role": "assistant", "content": "a"}])
    assert (encoded.status, encoded.detail) == ("template_error", "TemplateError: roles must alternate")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (None, "no chat template"),
        ("{% for m in messages %}{{ m.content }}{% endfor %}", "no generation marks"),
        ("{% for m in messages %}", "does not parse"),
    ],
)
def test_folders_without_a_usable_template(make_folder: Callable[..., Path], template: str | None, words: str) -> None:
    with pytest.raises(CuratorError, match=words) as error:
        ChatTokenizer.load(make_folder(template))
    assert "\n" not in error.value.message


def test_counting_needs_no_template(make_folder: Callable[..., Path]) -> None:
    assert ChatTokenizer.load(make_folder(None), needs_template=False).count(["the"]).tolist() == [1]


def test_folders_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(CuratorError, match=r"no tokenizer\.json"):
        ChatTokenizer.load(tmp_path)
    with pytest.raises(CuratorError, match="no such model folder"):
        ChatTokenizer.load(tmp_path / "nowhere")


def test_digest_follows_what_decides_ids_and_masks(make_folder: Callable[..., Path]) -> None:
    base = ChatTokenizer.load(make_folder()).digest
    assert ChatTokenizer.load(make_folder()).digest == base
    assert ChatTokenizer.load(make_folder(CHATML + " ")).digest != base
    assert ChatTokenizer.load(make_folder(bos_token="<|im_start|>")).digest != base
    assert ChatTokenizer.load(make_folder(model_max_length=7)).digest == base


def test_template_inside_the_config(make_folder: Callable[..., Path]) -> None:
    named = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": PLAIN}]
    assert ChatTokenizer.load(make_folder(None, chat_template=PLAIN)).template.source == PLAIN  # type: ignore[union-attr]
    assert ChatTokenizer.load(make_folder(None, chat_template=named)).template.source == PLAIN  # type: ignore[union-attr]
