"""Model folders built on the spot."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from chat_samples import CHATML, PLAIN, tokenizer_json

from curator.chat.tokenizer import ChatTokenizer


@pytest.fixture
def make_folder(tmp_path: Path) -> Callable[..., Path]:
    """A folder with tokenizer.json, tokenizer_config.json and the given template."""

    def make(template: str | None = CHATML, **config: object) -> Path:
        folder = tmp_path / f"model-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        (folder / "tokenizer.json").write_text(tokenizer_json())
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<|endoftext|>",
            "eos_token": "<|im_end|>",
            "pad_token": "<|im_end|>",
            **config,
        }
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        if template is not None:
            (folder / "chat_template.jinja").write_text(template)
        return folder

    return make


@pytest.fixture
def chat(make_folder: Callable[..., Path]) -> ChatTokenizer:
    return ChatTokenizer.load(make_folder())


@pytest.fixture
def plain(make_folder: Callable[..., Path]) -> ChatTokenizer:
    return ChatTokenizer.load(make_folder(PLAIN))
