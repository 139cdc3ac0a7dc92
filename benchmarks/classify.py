"""Claim: classify.language is right more often than either of its libraries alone, at a cost between the two. Beside
it what classify.domain costs, and what fastText costs that is asked about raw text with the same model: the difference
is the preparation of texts (case, symbols, numbers, scripts without spaces) and the tokens that it makes more.

Texts a second of one process, loading not counted: prompts with answers of alpaca_en, and MGSM's 2,750 questions, where
the language is known. Each contender in a process of its own, the median of three.

    CURATOR_REAL_DATA=... python benchmarks/classify.py
"""

import csv
import gzip
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from common import conditions, measure, real_data, save

REPEATS = 3
CHUNKS = 4
"""Files of alpaca_en."""


def mgsm(data: Path) -> tuple[list[str], list[str]]:
    """Languages and questions."""
    languages, texts = [], []
    for path in sorted((data / "mgsm").glob("mgsm_*.tsv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                languages.append(path.stem.rpartition("_")[2])
                texts.append(row[0])
    return languages, texts


def alpaca(data: Path) -> list[str]:
    rows = []
    for path in sorted((data / "alpaca_en").glob("*.json.gz"))[:CHUNKS]:
        rows += json.loads(gzip.decompress(path.read_bytes()))
    return ["\n\n".join(filter(None, (row["instruction"], row["input"], row["output"]))) for row in rows]


def ours() -> Callable[[list[str]], list[str]]:
    import pyarrow as pa

    from curator.stages.classify.language import identifier

    identify = identifier()
    return lambda texts: identify(pa.array(texts)).field("label").to_pylist()


def pycld2_alone() -> Callable[[list[str]], list[str]]:
    import pycld2

    def languages(texts: list[str]) -> list[str]:
        return [pycld2.detect(text)[2][0][1].partition("-")[0] for text in texts]

    return languages


def py3langid_alone() -> Callable[[list[str]], list[str]]:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    return lambda texts: [identifier.classify(text)[0] for text in texts]


def domain() -> Callable[[list[str]], list[str]]:
    import pyarrow as pa

    from curator.stages.classify.label import SHIPPED
    from curator.stages.classify.model import Classifier

    label = Classifier.open(SHIPPED / "domain").load()
    return lambda texts: label(pa.array(texts)).field("label").to_pylist()


def fasttext_alone() -> Callable[[list[str]], list[str]]:
    """The same model on raw text: no calibration, words with their punctuation."""
    import fasttext

    from curator.stages.classify.label import SHIPPED

    model = fasttext.load_model(str(SHIPPED / "domain/model.bin"))
    return lambda texts: [model.predict(text.replace("\n", " "))[0][0] for text in texts]


CONTENDERS = {
    "classify.language": ours,
    "pycld2": pycld2_alone,
    "py3langid": py3langid_alone,
    "classify.domain": domain,
    "fasttext": fasttext_alone,
}
LANGUAGE = ("classify.language", "pycld2", "py3langid")


def run(name: str, data: Path) -> None:
    answer = CONTENDERS[name]()
    languages, questions = mgsm(data)
    answer(questions[:10])
    result: dict[str, float] = {}
    for what, texts in (("alpaca_en", alpaca(data)), ("mgsm", questions)):
        started = time.perf_counter()
        found = answer(texts)
        result[f"{what}_texts_per_second"] = round(len(texts) / (time.perf_counter() - started))
        if what == "mgsm" and name in LANGUAGE:
            right = sum(one == other for one, other in zip(found, languages, strict=True))
            result["mgsm_right"] = right
            result["mgsm_right_share"] = round(right / len(questions), 4)
    print(json.dumps(result))


def main() -> None:
    data = real_data()
    contenders = {}
    for name in CONTENDERS:
        runs = [measure([sys.executable, __file__, name], 1) for _ in range(REPEATS)]
        keys = [key for key in runs[0] if key.startswith(("alpaca", "mgsm"))]
        contenders[name] = {key: sorted(run[key] for run in runs)[REPEATS // 2] for key in keys}
    save(
        "classify",
        {
            "data": {"alpaca_en": len(alpaca(data)), "mgsm": len(mgsm(data)[1])},
            "contenders": contenders,
            **conditions(["fasttext-community", "pycld2", "py3langid", "pyarrow"]),
        },
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(sys.argv[1], real_data())
    else:
        main()
