"""Raw rows for the classifiers that ship: public sets to JSON lines with a label, one file a set.

    python recipes/classifiers/data.py FOLDER_OF_SETS OUT

OUT/domain and OUT/difficulty are what models are trained on: permissively licensed sets only. OUT/unseen-domain and
OUT/unseen-difficulty are for measuring, whatever their licence; their label is called `truth`.
"""

import csv
import gzip
import io
import json
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

MAX_ROWS = 1_500
"""Rows of one set, evenly spread over it: a large set must not be the whole of its class."""

TRUTH = "truth"
"""The label where it is for measuring: out of the classifier's sight."""

MMLU = {
    "math": "abstract_algebra college_mathematics elementary_mathematics high_school_mathematics "
    "high_school_statistics",
    "code": "college_computer_science high_school_computer_science computer_security machine_learning",
    "science": "astronomy college_biology college_chemistry college_physics conceptual_physics electrical_engineering "
    "high_school_biology high_school_chemistry high_school_physics",
    "medicine": "anatomy clinical_knowledge college_medicine human_aging medical_genetics nutrition "
    "professional_medicine virology",
    "society": "business_ethics econometrics formal_logic high_school_european_history high_school_geography "
    "high_school_government_and_politics high_school_macroeconomics high_school_microeconomics high_school_us_history "
    "high_school_world_history international_law jurisprudence management marketing moral_disputes philosophy "
    "prehistory professional_accounting professional_law public_relations security_studies sociology "
    "us_foreign_policy world_religions",
}
TRUTHFULQA = {
    "medicine": ["Health", "Nutrition"],
    "society": ["Law", "Sociology", "Economics", "Politics", "History", "Finance", "Religion", "Education"],
}
WIZARDLM = {
    "math": ["Math"],
    "code": ["Code Generation", "Code Debug", "Computer Science"],
    "science": ["Biology", "Physics", "Chemistry"],
    "medicine": ["Medicine"],
    "society": ["Law", "Economy", "History", "Philosophy", "Ethics"],
    "writing": ["Writting", "Academic Writing", "Roleplay"],
    "general": ["Sport", "Entertainment", "Music", "Art", "Common-Sense"],
}
CHATBOT_BENCHES = {
    "math": ["math"],
    "code": ["coding"],
    "science": ["stem"],
    "society": ["humanities"],
    "writing": ["writing", "roleplay"],
    "general": ["generic", "common-sense"],
}
BELLE = {"math": ["math"], "code": ["code"], "writing": ["generation", "rewrite"]}
LEVELS = {"1": "easy", "2": "easy", "4": "hard", "5": "hard"}

Row = tuple[str, str, str | None]
"""Prompt, label, and the part of the set it is from (None: the set is one)."""


def lines(path: Path) -> list[Any]:
    """The objects of a JSON-lines file or the items of a JSON array, compressed or not."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text = raw.decode("utf-8-sig")
    if text.lstrip().startswith("["):
        return json.loads(text)
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def labelled(path: Path, field: str, label: str) -> Iterator[Row]:
    for row in lines(path):
        extra = row.get("input") or ""
        yield (f"{row[field]}\n{extra}" if extra else row[field]), label, None


def by_category(rows: Iterable[tuple[str, str]], table: dict[str, list[str]]) -> Iterator[Row]:
    """(prompt, category) to rows, those of other categories left out."""
    label_of = {category: label for label, categories in table.items() for category in categories}
    for prompt, category in rows:
        if category in label_of:
            yield prompt, label_of[category], None


def by_hand(sets: Path, name: str) -> Iterator[Row]:
    labels = json.loads((Path(__file__).parent / "labels.json").read_text(encoding="utf-8"))[name]
    rows = lines(sets / name)
    for label, numbers in labels.items():
        for number in numbers:
            row = rows[number]
            prompt = row if isinstance(row, str) else f"{row['instruction']}\n{row['instances'][0]['input']}".strip()
            yield prompt, label, None


def mmlu(path: Path) -> Iterator[Row]:
    label_of = {subject: label for label, subjects in MMLU.items() for subject in subjects.split()}
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            folder, _, file = name.rpartition("/")
            subject = file.rpartition("_")[0]
            if folder not in ("data/test", "data/val") or subject not in label_of:
                continue
            for number, cells in enumerate(csv.reader(io.TextIOWrapper(archive.open(name), "utf-8"))):
                # With its choices on one half, so that the form of a question does not give its subject away.
                prompt = "\n".join(cells[:5]) if number % 2 else cells[0]
                yield prompt, label_of[subject], subject


def maths(sets: Path, name: str, field: str) -> Iterator[Row]:
    return labelled(sets / "qwen_math_eval" / name, field, "math")


def svamp(path: Path) -> Iterator[Row]:
    for row in lines(path):
        yield f"{row['Body']}. {row['Question']}", "math", None


def first_turns(path: Path, label: str) -> Iterator[Row]:
    for row in lines(path):
        yield row["conversations"][0]["value"], label, None


def truthfulqa(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield from by_category(((row["Question"], row["Category"]) for row in csv.DictReader(file)), TRUTHFULQA)


def domain(sets: Path) -> dict[str, tuple[str, Iterable[Row]]]:
    """Set to licence and rows, for training: permissive licences only."""
    zh = sets / "alpaca_zh_extra"
    return {
        "gsm8k": ("MIT", labelled(sets / "gsm8k/train.jsonl", "question", "math")),
        "math": ("MIT", labelled(sets / "hendrycks_math_test/math_test.jsonl.gz", "problem", "math")),
        "aqua": ("MIT", maths(sets, "aqua__test.jsonl", "question")),
        "svamp": ("MIT", svamp(sets / "qwen_math_eval/svamp__test.jsonl")),
        "gaokao2023en": ("MIT", maths(sets, "gaokao2023en__test.jsonl", "question")),
        "olympiadbench": ("MIT", maths(sets, "olympiadbench__test.jsonl.gz", "question")),
        "cmath": ("MIT", maths(sets, "cmath__test.jsonl", "question")),
        "cn_middle_school": ("MIT", maths(sets, "cn_middle_school__test.jsonl", "question")),
        "zh_arithmetic": ("MIT", labelled(zh / "integer_arithmetic.json", "instruction", "math")),
        "minerva": ("MIT", labelled(sets / "qwen_math_eval/minerva_math__test.jsonl", "problem", "science")),
        "zh_academic": ("MIT", labelled(zh / "academic.json", "instruction", "science")),
        "mbpp": ("CC BY 4.0", labelled(sets / "mbpp/mbpp.jsonl", "text", "code")),
        "humaneval": ("MIT", labelled(sets / "humaneval/HumanEval.jsonl.gz", "prompt", "code")),
        "purplellama": ("MIT", labelled(sets / "purplellama_frr/mitre_frr.json", "mutated_prompt", "code")),
        "zh_code": ("MIT", labelled(zh / "code_questions.json", "instruction", "code")),
        "huatuo": ("Apache-2.0", labelled(sets / "huatuo_med_zh/llama_data.json.gz", "instruction", "medicine")),
        "mmlu": ("MIT", mmlu(sets / "mmlu/mmlu.zip")),
        "truthfulqa": ("Apache-2.0", truthfulqa(sets / "truthfulqa/TruthfulQA.csv")),
        "zh_management": ("MIT", labelled(zh / "management.json", "instruction", "society")),
        "roleplay": (
            "MIT",
            labelled(sets / "gpteacher/roleplay-simple-deduped-roleplay-instruct.json", "instruction", "writing"),
        ),
        "zh_applications": ("MIT", labelled(zh / "applications.json", "instruction", "writing")),
        "zh_advice": ("MIT", labelled(zh / "advice.json", "instruction", "general")),
        "glaive_en": (
            "Apache-2.0",
            first_turns(sets / "llamafactory_demo/glaive_toolcall_en_demo.json", "general"),
        ),
        "glaive_zh": (
            "Apache-2.0",
            first_turns(sets / "llamafactory_demo/glaive_toolcall_zh_demo.json", "general"),
        ),
        "open_assistant": ("Apache-2.0", by_hand(sets, "open_assistant/prompt_lottery_en_250_text.jsonl")),
        "self_instruct": ("Apache-2.0", by_hand(sets, "self_instruct/seed_tasks.jsonl")),
    }


def unseen_domain(sets: Path) -> dict[str, tuple[str, Iterable[Row]]]:
    """Sets that no shipped model was trained on."""
    wizardlm = lines(sets / "alpagasus/wizardlm_test_set.jsonl")
    dolly = lines(sets / "alpagasus/dolly_3k.json")
    bench = [
        (row["turns"][0], row["category"])
        for name in ("mt_bench_question", "vicuna_bench_question")
        for row in lines(sets / f"mt_bench/{name}.jsonl")
    ]
    return {
        "wizardlm": ("-", by_category(((row["Instruction"], row["Skill"]) for row in wizardlm), WIZARDLM)),
        "chatbot_benches": ("-", by_category(bench, CHATBOT_BENCHES)),
        "belle_eval": (
            "-",
            by_category(((row["question"], row["class"]) for row in lines(sets / "belle/eval_set.json")), BELLE),
        ),
        "codealpaca": ("-", labelled(sets / "codealpaca/code_alpaca_2k.json", "instruction", "code")),
        "dolly_creative": (
            "-",
            by_category(((row["instruction"], row["category"]) for row in dolly), {"writing": ["creative_writing"]}),
        ),
    }


def math_levels(path: Path) -> Iterator[Row]:
    for row in lines(path):
        level = str(row["level"]).removeprefix("Level ")
        if level in LEVELS:
            yield row["problem"], LEVELS[level], row["type"]


def wizardlm_levels(path: Path, only_maths: bool) -> Iterator[Row]:
    for row in lines(path):
        if not only_maths or row["Skill"] == "Math":
            level = int(row["Difficulty"])
            if level <= 3 or level >= 7:
                yield row["Instruction"], "easy" if level <= 3 else "hard", row["Skill"]


def write(folder: Path, label_field: str, sets: dict[str, tuple[str, Iterable[Row]]], spread: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (license_name, rows) in sets.items():
        found = list(rows)
        parts = sorted({part for _, _, part in found if part is not None})
        if spread and not parts and len(found) > MAX_ROWS:
            found = [found[index * len(found) // MAX_ROWS] for index in range(MAX_ROWS)]
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for prompt, label, part in found:
                metadata = {"source": name, "license": license_name}
                row = {
                    "instruction": prompt,
                    "output": "",
                    "metadata": metadata if label_field == TRUTH else {**metadata, label_field: label},
                    "subject": f"{name}/{part}" if part else name,
                    **({TRUTH: label} if label_field == TRUTH else {}),
                }
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        print(f"{folder.name}/{name}: {len(found):,} rows")


def main() -> None:
    sets, out = Path(sys.argv[1]), Path(sys.argv[2])
    maths_path, wizardlm = sets / "hendrycks_math_test/math_test.jsonl.gz", sets / "alpagasus/wizardlm_test_set.jsonl"
    write(out / "domain", "domain", domain(sets), spread=True)
    write(out / "unseen-domain", TRUTH, unseen_domain(sets), spread=True)
    write(out / "difficulty", "difficulty", {"math": ("MIT", math_levels(maths_path))}, spread=False)
    levels = {
        "wizardlm_math": ("-", wizardlm_levels(wizardlm, True)),
        "wizardlm_all": ("-", wizardlm_levels(wizardlm, False)),
    }
    write(out / "unseen-difficulty", TRUTH, levels, spread=False)


if __name__ == "__main__":
    main()
