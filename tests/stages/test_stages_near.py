"""dedup.near: who is dropped, why, and that nothing but the texts and the keep order decides it."""

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from near_reference import jaccard, keepers, shingles
from record_samples import files_of, ids_of, passed, record, rejects_of, rows_of, write_dataset

from curator.errors import CuratorError, UsageError
from curator.io.manifest import Manifest
from curator.pipeline import rounds
from curator.pipeline.passes import Options
from curator.schema.record import record_schema
from curator.stages.dedup import near
from curator.stages.dedup.near import Near

VOCABULARY = [f"w{number}" for number in range(3000)]


def dedup(tmp_path: Path, texts: list[str], shard_rows: int = 50, workers: int = 1, **settings: Any) -> Path:
    """A folder after dedup.near on these prompts; row n is `s/f#n`."""
    number = len(list(tmp_path.iterdir()))
    rows = [record(f"s/f#{place}", text, "answer") for place, text in enumerate(texts)]
    folder = write_dataset(tmp_path / f"in-{number}", rows, shard_rows=shard_rows)
    stage = Near(**{"on": "prompt", **settings})
    return passed(stage, folder, tmp_path / f"out-{number}", Options(workers=workers))


def kept(folder: Path) -> list[int]:
    return [int(name.rpartition("#")[2]) for name in ids_of(folder)]


def similar_texts(seed: int, count: int, length: int = 40) -> list[str]:
    """Texts of which many are another one with some words changed, at every similarity."""
    generator = random.Random(seed)
    texts: list[list[str]] = []
    for _ in range(count):
        if texts and generator.random() < 0.6:
            words = list(generator.choice(texts))
            for _ in range(generator.choice([0, 1, 1, 2, 3, 5, 9])):
                words[generator.randrange(len(words))] = generator.choice(VOCABULARY)
        else:
            words = generator.choices(VOCABULARY, k=length)
        texts.append(words)
    return [" ".join(words) for words in texts]


def check_against_reference(tmp_path: Path, texts: list[str], **settings: Any) -> int:
    """Compare with every pair by the book; a kept pair that no band brings together may differ, and is counted."""
    threshold, unit, size = (settings.get(name, default) for name, default in REFERENCE_DEFAULTS)
    out = dedup(tmp_path, texts, **settings)
    dropped = {int(name.rpartition("#")[2]): row["drop"] for name, row in rejects_of(out).items()}
    sets = [shingles(text, unit, size) for text in texts]
    for number, drop in dropped.items():
        keeper = int(drop["keeper"].rpartition("#")[2])
        assert keeper not in dropped
        assert drop["value"] == jaccard(sets[number], sets[keeper]) >= threshold
    expected = {number for number, found in enumerate(keepers(texts, threshold, unit, size)) if found}
    return len(expected ^ set(dropped))


REFERENCE_DEFAULTS = (("threshold", 0.8), ("unit", "words"), ("size", 3))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"threshold": 0.6, "size": 2},
        {"threshold": 0.9, "unit": "characters", "size": 5},
        {"threshold": 1.0},
        {"threshold": 0.3, "size": 1},
    ],
)
def test_drops_are_those_of_every_pair_compared(tmp_path: Path, settings: dict[str, Any]) -> None:
    assert check_against_reference(tmp_path, similar_texts(5, 300), **settings) <= 1


def test_a_drop_says_what_it_is_similar_to_and_how_much(tmp_path: Path) -> None:
    base = " ".join(VOCABULARY[:60])
    changed = base.replace("w59", "other")
    out = dedup(tmp_path, [base, "something else entirely", changed, base.upper()])
    rejected = rejects_of(out)
    assert rejected["s/f#2"]["drop"] == {
        "step": "dedup.near",
        "rule": "duplicate",
        "value": 57 / 59,
        "threshold": 0.8,
        "keeper": "s/f#0",
        "detail": "prompt, Jaccard of 3-word shingles",
    }
    assert rejected["s/f#3"]["drop"]["value"] == 1.0
    component = {"component": "s/f#0", "component_size": 3}
    assert rejected["s/f#2"]["dedup"] == {"of": "s/f#0", "similarity": 57 / 59, **component}
    assert [row["dedup"] for row in rows_of(out)] == [{"of": None, "similarity": None, **component}, None]


def test_the_most_similar_keeper_is_named_and_both_are_one_component(tmp_path: Path) -> None:
    words = VOCABULARY[:100]
    left, right = [*words[:88], *VOCABULARY[200:212]], [*VOCABULARY[300:311], *words[11:]]
    middle = [*words[:90], *VOCABULARY[200:210]]
    texts = [" ".join(part) for part in (right, left, middle)]
    out = dedup(tmp_path, texts, threshold=0.7)
    (drop,) = [row["drop"] for row in rejects_of(out).values()]
    assert (drop["keeper"], round(drop["value"], 3)) == ("s/f#1", round(jaccard(*map(shingles, texts[1:])), 3))
    assert jaccard(shingles(texts[0]), shingles(texts[2])) >= 0.6


def test_components_do_not_depend_on_who_stays(tmp_path: Path) -> None:
    words = VOCABULARY[:200]
    chain = [" ".join(words[start : start + 100]) for start in range(0, 50, 5)]
    for order in (chain, chain[::-1], chain[1::2] + chain[::2]):
        out = dedup(tmp_path, order)
        rows = [*rows_of(out), *rejects_of(out).values()]
        assert {row["dedup"]["component"] for row in rows} == {"s/f#0"}
        assert {row["dedup"]["component_size"] for row in rows} == {10}


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    once = dedup(tmp_path, similar_texts(6, 200))
    twice = passed(Near(on="prompt"), once, tmp_path / "twice")
    assert rows_of(twice) == rows_of(once)


def test_components_of_an_earlier_step_are_joined(tmp_path: Path) -> None:
    from curator.stages.dedup.exact import Exact

    base = " ".join(VOCABULARY[:60])
    texts = ["x y z", base, "x y z", base.replace("w59", "other"), base.replace("w59", "other"), ""]
    rows = [record(f"s/f#{place}", text, "answer") for place, text in enumerate(texts)]
    exact = passed(Exact(on="prompt"), write_dataset(tmp_path / "d", rows), tmp_path / "exact")
    out = passed(Near(on="prompt"), exact, tmp_path / "near")
    assert [(row["id"], row["dedup"] and row["dedup"]["component_size"]) for row in rows_of(out)] == [
        ("s/f#0", 2),
        ("s/f#1", 3),
        ("s/f#5", None),
    ]
    assert rejects_of(out)["s/f#3"]["dedup"]["component"] == "s/f#1"


def test_keep_columns_decide_and_nulls_come_last(tmp_path: Path) -> None:
    base = " ".join(VOCABULARY[:60])
    scores = [None, 0.3, 0.9, 0.9]
    rows = [
        record(f"s/f#{n}", base.replace("w59", f"v{n}"), "a", scores={"q": {"value": q, "status": "ok", "by": "t"}})
        for n, q in enumerate(scores)
    ]
    folder = write_dataset(tmp_path / "d", rows, record_schema(None, {"q": pa.float64()}), 2)
    assert ids_of(passed(Near(on="prompt", keep="scores.q.value desc"), folder, tmp_path / "best")) == ["s/f#2"]
    assert ids_of(passed(Near(on="prompt", keep="scores.q.value"), folder, tmp_path / "worst")) == ["s/f#1"]
    assert ids_of(passed(Near(on="prompt"), folder, tmp_path / "id")) == ["s/f#0"]
    with pytest.raises(CuratorError, match=r"dedup.near reads scores.qq.value, which the input does not have"):
        passed(Near(keep="scores.qq.value"), folder, tmp_path / "no")


def test_partitions_shards_and_workers_change_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = similar_texts(7, 400)
    expected = None
    for number, (partition_rows, workers) in enumerate([(10_000, 1), (37, 1), (90, 2), (1, 2)]):
        monkeypatch.setattr(rounds, "PARTITION_ROWS", partition_rows)
        files = files_of(dedup(tmp_path / str(number), texts, workers=workers)) if _made(tmp_path / str(number)) else {}
        expected = expected or files
        assert files == expected
    assert kept(dedup(tmp_path / "0", texts, shard_rows=33)) == kept(tmp_path / "0" / "out-0")


def _made(folder: Path) -> bool:
    folder.mkdir()
    return True


def test_no_kernel_is_compiled_while_rows_wait(tmp_path: Path) -> None:
    from curator.kernels import buckets, components, jaccard, minhash
    from curator.kernels import shingles as shingle_kernels

    kernels = [
        minhash.signatures,
        minhash.band_keys,
        shingle_kernels.shingle_sets,
        buckets.pack,
        buckets.equal_folds,
        buckets.shared_keys,
        buckets.lists_of_rows,
        components.connect,
        jaccard.choose_keepers,
    ]
    Near().warm()
    before = [len(kernel.signatures) for kernel in kernels]
    dedup(tmp_path, similar_texts(8, 60), shard_rows=7)
    dedup(tmp_path, ["", "a", ""], unit="characters", shard_rows=1)
    assert [len(kernel.signatures) for kernel in kernels] == before


# --- awkward cases, by their numbers ------------------------------------------------------------------------------


def test_b053_a_huge_bucket_of_identical_texts(tmp_path: Path) -> None:
    texts = ["I'm sorry, but I can't help with that."] * 30_000 + [f"question {n} about {n * 7}" for n in range(1000)]
    out = dedup(tmp_path, texts, shard_rows=8000)
    assert kept(out) == [0, *range(30_000, 31_000)]
    assert rows_of(out)[0]["dedup"]["component_size"] == 30_000


def test_b056_texts_shorter_than_a_shingle(tmp_path: Path) -> None:
    answers = ["Yes.", "No.", "Paris", "Yes.", "four words in here", "short answer"]
    assert kept(dedup(tmp_path, answers, size=5)) == [0, 1, 2, 4, 5]
    assert kept(dedup(tmp_path, ["cat", "dog", "cat", "", " ", "", "!!!", "???", "!!!"], size=5)) == [
        *[0, 1, 3, 4, 5, 6, 7],
    ]


def test_b058_a_shared_band_is_not_enough(tmp_path: Path) -> None:
    generator = random.Random(1)
    texts = []
    for _ in range(400):
        words = generator.choices(VOCABULARY, k=200)
        texts += [" ".join(words[:150]), " ".join([*words[:100], *generator.choices(VOCABULARY, k=50)])]
    assert round(jaccard(shingles(texts[0], size=5), shingles(texts[1], size=5)), 2) == 0.49
    assert len(kept(dedup(tmp_path, texts, size=5, num_perm=256))) == 800
    close = []
    for _ in range(400):
        words = generator.choices(VOCABULARY, k=200)
        close += [" ".join(words), " ".join(words[:-5] + generator.choices(VOCABULARY, k=5))]
    assert len(kept(dedup(tmp_path, close, size=5))) <= 404


def test_b059_a_chain_does_not_collapse(tmp_path: Path) -> None:
    texts = [" ".join(VOCABULARY[start : start + 100]) for start in range(0, 210, 10)]
    out = dedup(tmp_path, texts, size=5)
    sets = [shingles(text, size=5) for text in texts]
    survivors = kept(out)
    assert 1 < len(survivors) < len(texts)
    for number in set(range(len(texts))) - set(survivors):
        assert max(jaccard(sets[number], sets[other]) for other in survivors) >= 0.8


def test_b060_boilerplate_is_left_out_by_the_selector(tmp_path: Path) -> None:
    block = " ".join(f"tool_{n} takes a {VOCABULARY[n]} and gives {VOCABULARY[n + 50]} back," for n in range(60))
    questions = [f"please {VOCABULARY[n]} the {VOCABULARY[n + 9]} of {VOCABULARY[n + 18]} now" for n in range(5)]
    rows = [record(f"s/f#{n}", ("system", block), ("user", q), ("assistant", f"{n}")) for n, q in enumerate(questions)]
    folder = write_dataset(tmp_path / "d", rows)
    assert len(ids_of(passed(Near(), folder, tmp_path / "turns"))) == 5
    assert len(ids_of(passed(Near(on="system"), folder, tmp_path / "system"))) == 1


def test_b061_every_cluster_has_one_survivor(tmp_path: Path) -> None:
    bases = [" ".join(VOCABULARY[start : start + 60]) for start in range(0, 700, 100)]
    texts = [base + f" v{n}" for base, size in zip(bases, [2, 3, 5, 1, 1, 1, 1], strict=True) for n in range(size)]
    for shard_rows in (1, 5, 100):
        assert kept(dedup(tmp_path, texts, shard_rows=shard_rows)) == [0, 2, 5, 10, 11, 12, 13]


def test_b063_the_survivor_does_not_depend_on_order_or_shards(tmp_path: Path) -> None:
    base = " ".join(VOCABULARY[:60])
    made = {
        f"s/f#{n}": text
        for n, text in enumerate([f"{base} a b", base, f"{base} c", "other one", "yet another", "third one"])
    }
    survivors = set()
    for order in itertools.islice(itertools.permutations(made), 0, 720, 150):
        for shard_rows in (2, 3, 6):
            folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
            write_dataset(folder, [record(name, made[name], "a") for name in order], shard_rows=shard_rows)
            out = passed(Near(on="prompt"), folder, folder.with_name(f"{folder.name}-out"))
            survivors.add(tuple(sorted(ids_of(out))))
    assert survivors == {("s/f#0", "s/f#3", "s/f#4", "s/f#5")}


def test_b064_nothing_is_kept_from_an_earlier_run(tmp_path: Path) -> None:
    stage = Near(on="prompt")
    base = [" ".join(VOCABULARY[start : start + 40]) for start in (0, 100, 200)]
    for name, texts in (("first", base * 2), ("second", [f"{text} more" for text in base])):
        rows = [record(f"s/f#{n}", text, "a") for n, text in enumerate(texts)]
        folder = write_dataset(tmp_path / name, rows)
        assert len(ids_of(passed(stage, folder, tmp_path / f"{name}-out"))) == 3


@pytest.mark.parametrize("workers", [1, 2])
def test_b065_one_table_for_all_workers(tmp_path: Path, workers: int) -> None:
    texts = [" ".join(VOCABULARY[start * 30 : start * 30 + 20]) for start in range(50)] * 20
    assert kept(dedup(tmp_path, texts, shard_rows=50, workers=workers)) == list(range(50))


def test_b067_languages_without_spaces(tmp_path: Path) -> None:
    weather = "今天天气很好我们一起去公园散步然后喝咖啡"
    texts = [weather, weather[:-2] + "奶茶", "明天要下雨所以我们待在家里看电影吧"]
    texts += ["اشرح لي كيف تعمل الطاقة الشمسية في المنازل", "ما هي عاصمة فرنسا وكم عدد سكانها اليوم"]
    assert kept(dedup(tmp_path, texts, threshold=0.7)) == [0, 2, 3, 4]


def test_b068_numbers_and_operators_count(tmp_path: Path) -> None:
    texts = ["What is 12+30?", "What is 1+230?", "What is 12*30?", "| 1 | 2 |", "| 12 |"]
    assert kept(dedup(tmp_path, texts)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("unit", "size"), [("words", 5), ("words", 2), ("characters", 5)])
def test_b070_templates_that_differ_in_a_number(tmp_path: Path, unit: str, size: int) -> None:
    texts = [f"Route {n} is a short county road located in Lake County." for n in range(1506, 1526)]
    left = []
    for threshold in (0.5, 0.7, 0.9):
        assert check_against_reference(tmp_path, texts, threshold=threshold, unit=unit, size=size) == 0
        left.append(len(kept(dedup(tmp_path, texts, threshold=threshold, unit=unit, size=size))))
    assert left == sorted(left)


def test_b073_every_removal_is_on_record(tmp_path: Path) -> None:
    out = dedup(tmp_path, ["Adhesion is the tendency of particles to cling"] * 10)
    log = {name: (row["drop"]["keeper"], row["drop"]["value"]) for name, row in rejects_of(out).items()}
    assert log == {f"s/f#{n}": ("s/f#0", 1.0) for n in range(1, 10)}


def test_b074_other_columns_pass_through(tmp_path: Path) -> None:
    rows = [
        record(f"s/f#{n}", text, "a", extra=extra, metadata={"source": "s", "domain": domain})
        for n, (text, extra, domain) in enumerate(
            [
                ("one two three four", '{"n":5}', None),
                ("five six seven", '{"l":[1,null]}', "d"),
                ("one two three four", None, "x"),
                ("", "{}", None),
                ("eight", None, ""),
            ]
        )
    ]
    folder = write_dataset(tmp_path / "d", rows, shard_rows=2)
    before = {row["id"]: row for row in rows_of(folder)}
    for row in rows_of(passed(Near(on="prompt"), folder, tmp_path / "out")):
        assert {**row, "dedup": None} == {**before[row["id"]], "dedup": None}


@pytest.mark.parametrize("threshold", [0.0, 1.5, -1.0, 80.0, float("nan"), float("inf")])
def test_b075_a_threshold_out_of_range_is_refused(threshold: float) -> None:
    with pytest.raises(UsageError, match=r"threshold \S+ is not above 0 and at most 1"):
        Near(threshold=threshold)


def test_b075_one_means_equal_shingle_sets(tmp_path: Path) -> None:
    texts = ["a b c d e f", "A b, c d e f!", "a b c d e g"]
    assert kept(dedup(tmp_path, texts, threshold=1.0)) == [0, 2]


def test_b078_texts_do_not_match_themselves(tmp_path: Path) -> None:
    texts = ["\n\n".join(" ".join(VOCABULARY[n * 90 + p * 30 :][:25]) for p in range(3)) for n in range(5)]
    assert kept(dedup(tmp_path, texts)) == [0, 1, 2, 3, 4]


# --- buckets that are too full, wrong settings --------------------------------------------------------------------


def test_a_capped_bucket_fails_or_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(near, "MAX_BUCKET", 5)
    shared = " ".join(VOCABULARY[:400])
    texts = [f"{shared} {VOCABULARY[500 + n]}" for n in range(9)]
    with pytest.raises(CuratorError, match="9 different texts share a band, over 5") as error:
        dedup(tmp_path, texts, threshold=0.999)
    assert "--allow-capped" in (error.value.hint or "")
    out = dedup(tmp_path, texts, threshold=0.9, allow_capped=True)
    capped = Manifest.read(out).extra["dedup.near"]["capped_buckets"]
    assert capped
    assert "different texts only 5 were compared" in capsys.readouterr().err
    assert {bucket["texts"] for bucket in capped} <= set(range(6, 10))
    assert all(bucket["id"].startswith("s/f#") for bucket in capped)
    assert kept(dedup(tmp_path, [shared] * 9)) == [0]


def test_the_manifest_tells_the_bands(tmp_path: Path) -> None:
    out = dedup(tmp_path, ["a b c", "a b c", "d"])
    assert json.loads((out / "manifest.json").read_text())["extra"]["dedup.near"] == {
        "bands": 21,
        "rows_per_band": 6,
        "largest_component": 2,
        "capped_buckets": [],
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"on": "promt"}, "no selector 'promt'"),
        ({"unit": "letters"}, "unit 'letters'"),
        ({"size": 0}, "size 0 is not between"),
        ({"num_perm": 0}, "num_perm 0 is not between"),
        ({"num_perm": 16, "threshold": 0.1}, "16 places are too few for threshold 0.1"),
        ({"keep": "a b c"}, "keep order 'a b c'"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Near(**settings)


@pytest.mark.parametrize("texts", [[], [""], ["", " "], ["only one"]])
def test_nothing_to_compare(tmp_path: Path, texts: list[str]) -> None:
    assert kept(dedup(tmp_path, texts)) == list(range(len(texts)))
