"""classify.language: what is told apart, what is undetermined, and what stays as it was."""

import csv
import sys
from pathlib import Path
from typing import Any

import pytest
from record_samples import ONE, batch_of, passed, record, rows_of, through, write_dataset

from curator.errors import CuratorError, UsageError
from curator.pipeline.passes import Options, run_pass
from curator.schema.record import RECORD_SCHEMA
from curator.stages.classify.language import Language, identifier
from curator.stages.filter.where import Where

TEXTS = {
    "en": "How long does it take to drive from the coast to the mountains?",
    "de": "Wie lange dauert die Fahrt von der Küste bis in die Berge?",
    "fr": "Combien de temps faut-il pour aller de la côte à la montagne ?",
    "ru": "Сколько времени занимает дорога от побережья до гор?",
    "zh": "从海边开车到山里要多长时间？",
    "ja": "海岸から山まで車でどのくらいかかりますか。",
    "ko": "해안에서 산까지 차로 얼마나 걸리나요?",
    "ar": "كم من الوقت تستغرق الرحلة من الساحل إلى الجبال؟",
    "th": "ขับรถจากชายฝั่งไปภูเขาใช้เวลานานเท่าไร",
    "he": "כמה זמן לוקחת הנסיעה מהחוף אל ההרים?",
}
SHORT = ["", " ", "Hello", "Yes", "Pepperoni Pizza", "E=mc^2", "print(1)", "😀", '{"a":1}', "42", "\u2028\x00", "$x^2$"]


def languages(texts: list[str], **settings: Any) -> list[tuple[str | None, str]]:
    rows = [record(f"s/f#{number}", text) for number, text in enumerate(texts)]
    kept, _ = through(Language(**settings), rows)
    return [(row["metadata"]["language"], row["scores"]["language_confidence"]["status"]) for row in kept]


def test_languages_are_told_apart() -> None:
    assert languages(list(TEXTS.values())) == [(code, "ok") for code in TEXTS]


def test_b086_too_little_to_go_by_is_und_and_a_filter_can_keep_it(tmp_path: Path) -> None:
    assert languages(SHORT) == [("und", "too_short")] * len(SHORT)
    rows = [record(f"s/f#{number}", text) for number, text in enumerate([*SHORT, TEXTS["en"], TEXTS["de"]])]
    tagged = passed(Language(), write_dataset(tmp_path / "d", rows), tmp_path / "tagged")
    keep = Where("metadata.language = 'en' or metadata.language = 'und'")
    outcome = run_pass([tagged], [keep], tmp_path / "kept", ONE)
    assert outcome.ledger.kept == len(SHORT) + 1
    assert outcome.ledger.dropped == {"filter.where/where": 1}
    undetermined = [row for row in rows_of(tmp_path / "kept") if row["metadata"]["language"] == "und"]
    assert [row["messages"][0]["content"] for row in undetermined] == SHORT


def test_letters_in_no_language_are_doubtful() -> None:
    assert languages(["xqzzt wvkkp ghhtl mnbvx", "zzqx " * 30]) == [("und", "doubtful")] * 2


def test_code_formulas_links_and_keys_do_not_speak() -> None:
    code = "```python\nfor word in words:\n    print(word, 'the end of the line')\n```"
    formulas = r"$$\text{where is the answer}$$ \(if this then that\) $a_{the longest name} = 1$"
    links = "https://example.org/the/history/of/the/english/language someone.with.a.name@example.org"
    keys = '{"the name of the person": 1, "where does it come from": 2}'
    for noise in (code, formulas, links, keys):
        assert languages([noise, f"{TEXTS['de']}\n{noise}"]) == [("und", "too_short"), ("de", "ok")], noise


def test_a_reasoning_trace_and_the_selector_decide_what_is_looked_at() -> None:
    rows = [record("s/f#0", TEXTS["de"], TEXTS["en"])]
    found = {on: through(Language(on=on), rows)[0][0]["metadata"]["language"] for on in ("prompt", "response")}
    assert found == {"prompt": "de", "response": "en"}
    with pytest.raises(UsageError, match="no selector 'promt'"):
        Language(on="promt")


def test_only_nulls_are_filled_unless_asked() -> None:
    rows = [
        record("s/f#0", TEXTS["de"], metadata={"language": "nds"}),
        record("s/f#1", TEXTS["de"]),
        record("s/f#2", "Hello", metadata={"language": "en"}),
    ]
    kept, _ = through(Language(), rows)
    assert [row["metadata"]["language"] for row in kept] == ["nds", "de", "en"]
    scores = [row["scores"]["language_confidence"] for row in kept]
    assert [score["status"] for score in scores] == ["labelled", "ok", "labelled"]
    assert [score["value"] is None for score in scores] == [True, False, True]
    again, _ = through(Language(overwrite_labels=True), rows)
    # What a person wrote is worth more than undetermined.
    assert [row["metadata"]["language"] for row in again] == ["de", "de", "en"]
    assert [row["scores"]["language_confidence"]["status"] for row in again] == ["ok", "ok", "too_short"]


def test_twice_is_once(tmp_path: Path) -> None:
    rows = [record(f"s/f#{number}", text) for number, text in enumerate([*TEXTS.values(), *SHORT])]
    once = passed(Language(), write_dataset(tmp_path / "d", rows), tmp_path / "once")
    assert rows_of(passed(Language(), once, tmp_path / "twice")) == rows_of(once)


def test_memo_does_not_keep_who_chose_a_label(tmp_path: Path) -> None:
    """Two records of the same content, one with a person's label: the store goes by content alone."""
    rows = [record("s/f#0", TEXTS["de"]), record("s/f#1", TEXTS["de"], metadata={"language": "nds"})]
    first = write_dataset(tmp_path / "d", rows)
    second = write_dataset(tmp_path / "e", [{**row, "id": f"s/g#{n}"} for n, row in enumerate(reversed(rows))])
    options = Options(workers=1, memo=tmp_path / "memo")
    for folder in (first, second):
        out = passed(Language(), folder, tmp_path / f"{folder.name}-out", options)
        assert sorted(row["metadata"]["language"] for row in rows_of(out)) == ["de", "nds"]


def test_b088_an_answer_does_not_depend_on_its_neighbours() -> None:
    texts = [*TEXTS.values(), *SHORT, "x" * 100_000, "wort " * 50_000, "海" * 50_000]
    rows = [record(f"s/f#{number}", text) for number, text in enumerate(texts)]
    tag = Language().open()
    together = tag(batch_of(rows))
    for number, row in enumerate(rows):
        alone = tag(batch_of([row]))
        assert {name: array[0] for name, array in alone.items()} == {
            name: array[number] for name, array in together.items()
        }
    empty = tag(batch_of(rows).slice(0, 0))
    assert {name: array.type for name, array in empty.items()} == {name: a.type for name, a in together.items()}


def test_every_unicode_block_passes(tmp_path: Path) -> None:
    """CLD2 raises on some characters; a text that holds them is judged by the other library or undetermined."""
    texts = [
        "".join(map(chr, range(start, start + 256))) for start in [*range(0, 0xD800, 256), *range(0xE000, 0x11000, 256)]
    ]
    found = languages(texts)
    assert len(found) == len(texts)
    assert all(code for code, _ in found)


def test_a_missing_library_is_named_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_dataset(tmp_path / "d", [record("s/f#0", TEXTS["en"])])
    monkeypatch.setitem(sys.modules, "pycld2", None)
    with pytest.raises(CuratorError) as caught:
        passed(Language(), folder, tmp_path / "out")
    assert str(caught.value) == "this needs pycld2, which is not installed\nhint: pip install 'sft-curator[classify]'"
    assert not (tmp_path / "out").exists()


def test_a_field_that_is_not_text_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa

    metadata = pa.struct(
        [(f.name, pa.int64() if f.name == "language" else f.type) for f in RECORD_SCHEMA.field("metadata").type]
    )
    schema = RECORD_SCHEMA.set(RECORD_SCHEMA.get_field_index("metadata"), pa.field("metadata", metadata))
    with pytest.raises(UsageError, match=r"metadata\.language is int64"):
        through(Language(), [], schema)


def test_mgsm_questions(real_data: Path) -> None:
    """2,750 questions in eleven languages; the two libraries alone: 2,728 and 2,746."""
    import pyarrow as pa

    expected, texts = [], []
    for path in sorted((real_data / "mgsm").glob("mgsm_*.tsv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                expected.append(path.stem.rpartition("_")[2])
                texts.append(row[0])
    found = identifier()(pa.array(texts)).field("label").to_pylist()
    assert len(found) == 2750
    assert sum(code == right for code, right in zip(found, expected, strict=True)) >= 2748
