"""Claim: raw instruction files to tagged, exactly deduplicated, filtered Parquet, against Hugging Face datasets.

The same work on the same files: alpaca_en (18 gzipped JSON arrays) and t0_p3 (125 JSON-lines files), prompt and answer
joined into turns, word and character counts and a code flag, duplicates by case-folded, space-collapsed conversation,
rows without a response dropped, Parquet written. Two processes each, whole processes timed, import included. curator
also writes rejects, ledger, hashes and digests, and syncs every file; datasets caches each step.

    CURATOR_REAL_DATA=... python benchmarks/curate.py
"""

import json
import sys
import tempfile
from pathlib import Path

from common import conditions, measure, real_data, save

REPEATS = 3


def ours(data: Path, out: Path) -> None:
    from curator.io.build import SourceSettings
    from curator.pipeline.ingest import ingest
    from curator.pipeline.passes import Options, run_pass
    from curator.stages.catalog import build_stage

    options = Options(workers=2)
    ingest([f"{data}/alpaca_en/*.json.gz"], SourceSettings("alpaca"), out / "alpaca", options)
    ingest([f"{data}/t0_p3/*.jsonl"], SourceSettings("t0_p3"), out / "t0_p3", options)
    run_pass([out / "alpaca", out / "t0_p3"], [build_stage("tag.signals", None)], out / "tagged", options)
    dedup = build_stage("dedup.exact", {"on": "conversation", "normalise": ["case", "space"]})
    run_pass([out / "tagged"], [dedup], out / "exact", options)
    last = run_pass(
        [out / "exact"], [build_stage("filter.where", "scores.num_response_words.value > 0")], out / "clean", options
    )
    print(json.dumps({"rows": last.ledger.kept}))


def peer(data: Path, out: Path) -> None:
    import hashlib
    import re

    import datasets

    datasets.config.HF_DATASETS_CACHE = out / "cache"
    datasets.disable_progress_bars()
    words, code = re.compile(r"[^\W_]+"), re.compile(r"```|^\s*(?:def \w+\(|class \w+[(:]|import \w+)", re.MULTILINE)

    def alpaca(row: dict) -> dict:
        prompt = f"{row['instruction']}\n\n{row['input']}" if row["input"] else row["instruction"]
        return {"prompt": prompt, "response": row["output"]}

    def pair(row: dict) -> dict:
        return {"prompt": row["prompt"], "response": row["completion"]}

    def tag(row: dict) -> dict:
        prompt, response = row["prompt"], row["response"]
        text = f"user\n{prompt}\nassistant\n{response}"
        return {
            "messages": [{"role": "user", "content": prompt}, {"role": "assistant", "content": response}],
            "num_prompt_chars": len(prompt),
            "num_response_chars": len(response),
            "num_prompt_words": len(words.findall(prompt)),
            "num_response_words": len(words.findall(response)),
            "has_code": bool(code.search(text)),
            "key": hashlib.md5(" ".join(text.casefold().split()).encode()).hexdigest(),
        }

    def load(pattern: str) -> datasets.Dataset:
        files = [str(path) for path in sorted(data.glob(pattern))]
        return datasets.load_dataset("json", data_files=files, split="train", num_proc=2, cache_dir=str(out / "cache"))

    left = load("alpaca_en/*.json.gz").map(alpaca, num_proc=2, remove_columns=["instruction", "input", "output"])
    right = load("t0_p3/*.jsonl").map(pair, num_proc=2, remove_columns=["completion"])
    both = datasets.concatenate_datasets([left, right]).map(tag, num_proc=2, remove_columns=["prompt", "response"])
    seen: set[str] = set()
    first = [index for index, key in enumerate(both["key"]) if not (key in seen or seen.add(key))]
    kept = both.select(first).filter(lambda count: count > 0, input_columns="num_response_words", num_proc=2)
    kept.to_parquet(str(out / "clean.parquet"))
    print(json.dumps({"rows": kept.num_rows}))


def main() -> None:
    data = real_data()
    if len(sys.argv) > 1:
        with tempfile.TemporaryDirectory() as scratch:
            {"ours": ours, "peer": peer}[sys.argv[1]](data, Path(scratch))
        return
    runs = {who: measure([sys.executable, __file__, who], REPEATS) for who in ("ours", "peer")}
    save(
        "curate",
        {
            "claim": "raw files to tagged, deduplicated, filtered Parquet, two processes",
            **conditions(["pyarrow", "duckdb", "msgspec", "datasets"]),
            "curator": runs["ours"],
            "datasets": runs["peer"],
            "ratio": round(runs["peer"]["seconds"] / runs["ours"]["seconds"], 2),
            "same_rows": runs["ours"]["rows"] == runs["peer"]["rows"],
        },
    )


if __name__ == "__main__":
    main()
