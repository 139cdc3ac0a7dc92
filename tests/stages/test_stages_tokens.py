"""tag.tokens: counts are the chat tokenizer's, and results are looked up, not made again."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from record_samples import ONE, batch_of, files_of, message, passed, record, rows_of, through, write_dataset

from curator.chat.tokenizer import ChatTokenizer
from curator.errors import CuratorError
from curator.pipeline.passes import Options
from curator.stages.tag import tokens
from curator.stages.tag.tokens import Tokens

ROWS = [
    record("a", "What is 2 + 2?", message("assistant", "4", reasoning="Two and two.")),
    record("b", ("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello there, friend.")),
    record("c", "no answer"),
    record("d", "q", ""),
    record("e", "q", message("assistant", None, tool_calls="not json")),
    record("f", "今天\0\u2028", "天气"),
]
NAMES = ("num_prompt_tokens", "num_response_tokens", "num_reasoning_tokens", "num_tokens", "num_supervised_tokens")


def values(row: dict[str, Any]) -> list[Any]:
    return [row["scores"][name]["value"] for name in NAMES]


def test_counts_are_those_of_the_chat_tokenizer(tiny_model: Path) -> None:
    chat = ChatTokenizer.load(tiny_model)
    kept, _ = through(Tokens(str(tiny_model)), ROWS)
    encoded = chat.encode_batch(batch_of(ROWS))
    for index, row in enumerate(kept):
        texts = ROWS[index]["messages"]
        prompt = "\n\n".join(turn["content"] for turn in texts if turn["role"] == "user")
        response = "\n\n".join(turn["content"] or "" for turn in texts if turn["role"] == "assistant")
        assert values(row)[0] == chat.count([prompt])[0]
        assert values(row)[1] == chat.count([response])[0]
        one = encoded[index]
        failed = one.status not in ("ok", "no_supervised_tokens")
        assert values(row)[3:] == ([None, None] if failed else [len(one.ids), one.supervised])
        assert row["scores"]["num_tokens"]["status"] == one.status
    assert values(kept[0])[2] == chat.count(["Two and two."])[0] > 0
    assert {row["id"]: row["scores"]["num_tokens"]["status"] for row in kept} == {
        "a": "ok",
        "b": "ok",
        "c": "no_supervised_tokens",
        "d": kept[3]["scores"]["num_tokens"]["status"],
        "e": "template_error",
        "f": "ok",
    }
    assert values(kept[2])[4] == 0
    assert values(kept[4])[3:] == [None, None]
    assert kept[0]["scores"]["num_tokens"]["by"] == f"tokens@1:{chat.digest[:12]}"


def test_settings_are_the_content_of_the_model_not_its_place(tiny_model: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_model, tmp_path / "copy")
    assert Tokens(str(tmp_path / "copy")).describe() == Tokens(str(tiny_model)).describe()
    template = tmp_path / "copy" / "chat_template.jinja"
    template.write_text(template.read_text() + "{# changed #}")
    assert Tokens(str(tmp_path / "copy")).describe() != Tokens(str(tiny_model)).describe()


def test_a_folder_without_tokenizer_stops_before_any_work(tmp_path: Path) -> None:
    folder = write_dataset(tmp_path / "d", ROWS)
    with pytest.raises(CuratorError, match=r"nothing: no such model folder"):
        passed(Tokens(str(tmp_path / "nothing")), folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


class Counting:
    """The batches that reached the tokenizer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        encode = ChatTokenizer.encode_batch

        def counted(chat: ChatTokenizer, batch: Any) -> Any:
            self.rows += batch.num_rows
            return encode(chat, batch)

        monkeypatch.setattr(tokens.ChatTokenizer, "encode_batch", counted)


def test_with_a_memo_the_second_run_makes_nothing_again(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_dataset(tmp_path / "d", ROWS)
    plain = passed(Tokens(str(tiny_model)), folder, tmp_path / "plain")
    counting = Counting(monkeypatch)
    options = Options(workers=1, memo=tmp_path / "memo")
    passed(Tokens(str(tiny_model)), folder, tmp_path / "one", options)
    assert counting.rows == len(ROWS)
    from curator.pipeline import apply

    apply._opened.clear()
    passed(Tokens(str(tiny_model)), folder, tmp_path / "two", options)
    assert counting.rows == len(ROWS)
    more = write_dataset(tmp_path / "more", [*ROWS[:3], record("new", "another", "one")])
    apply._opened.clear()
    passed(Tokens(str(tiny_model)), more, tmp_path / "three", options)
    assert counting.rows == len(ROWS) + 1
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two") == files_of(plain)
    assert [values(row) for row in rows_of(tmp_path / "three")][:3] == [values(row) for row in rows_of(plain)][:3]


def test_a_memo_of_another_model_is_not_used(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(tiny_model, tmp_path / "other")
    template = tmp_path / "other" / "chat_template.jinja"
    template.write_text(template.read_text() + "{# changed #}")
    folder = write_dataset(tmp_path / "d", ROWS)
    counting = Counting(monkeypatch)
    options = Options(workers=1, memo=tmp_path / "memo")
    passed(Tokens(str(tiny_model)), folder, tmp_path / "one", options)
    passed(Tokens(str(tmp_path / "other")), folder, tmp_path / "two", options)
    assert counting.rows == 2 * len(ROWS)
    assert len(list((tmp_path / "memo").iterdir())) == 2


INLINE = """{%- for message in messages %}{{ message.role }}: {% if message.role == 'assistant' -%}
{% generation %}{{ message.content }}{{ eos_token }}{% endgeneration %}{% else %}{{ message.content }}{% endif %}
{% endfor %}"""


def test_what_the_hash_leaves_out_is_not_mixed_up_by_the_memo(tmp_path: Path, tiny_model: Path) -> None:
    """Two records of one content hash: other white space around the trace, other weights."""
    shutil.copytree(tiny_model, tmp_path / "inline")
    (tmp_path / "inline" / "chat_template.jinja").write_text(INLINE)
    wraps = [("<think>", "</think>"), ("<think>\n\n\n", "\n\n\n</think>\n\n\n\n")]
    rows = [
        record(str(n), "q", message("assistant", "a", reasoning="r", wrap={"open": opened, "close": closed}))
        for n, (opened, closed) in enumerate(wraps)
    ]
    rows += [record("w", "q", message("assistant", "a", weight=0.0)), record("v", "q", "a")]
    folder = write_dataset(tmp_path / "d", rows)
    stage = Tokens(str(tmp_path / "inline"))
    plain = [values(row) for row in rows_of(passed(stage, folder, tmp_path / "plain"))]
    assert plain[0] != plain[1] and plain[2] != plain[3]
    options = Options(workers=1, memo=tmp_path / "memo")
    assert [values(row) for row in rows_of(passed(stage, folder, tmp_path / "memoised", options))] == plain


def test_nothing_is_kept_without_a_memo(tmp_path: Path, tiny_model: Path) -> None:
    passed(Tokens(str(tiny_model)), write_dataset(tmp_path / "d", ROWS), tmp_path / "out", ONE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "out"]
