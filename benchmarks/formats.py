"""Claim: every set in the real data is read, and every byte of it is a record or in quarantine with a reason.

One line a dataset: the families that took its rows, rows as a plain reader counts them (MANIFEST.tsv), raw rows,
records, quarantined rows by reason, fields that stay in `extra`, megabytes a second on one core. A dataset whose raw
rows differ from the plain count has its reason in `EXPLAINED`; any other difference ends the script with an error.

    CURATOR_REAL_DATA=... python benchmarks/formats.py
"""

import csv
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from common import conditions, real_data, save

SETTINGS: dict[str, dict[str, Any]] = {
    "mmlu": {"header": False, "columns": ("question", "A", "B", "C", "D", "answer")},
    "mgsm": {"header": False, "columns": ("question", "answer")},
}
"""What a person has to say about a dataset: tables without header whose first row might be one."""

EXPLAINED = {
    "alpaca_zh": "one file is broken JSON, 0 to a plain reader: its whole rows are read, the rest is one bad row",
    "bbh": "a file is one object that holds many examples, and its text files are prompts that no plain reader counts",
    "bfcl_v4": "answers in side files join their questions and are no rows of their own",
    "dialogstudio": "a file is one object that holds a dialogue; dataset descriptions are counted by no plain reader",
    "lilac_concepts": "a file is one object that holds many labelled texts",
    "llamafactory_demo": "dataset_info.json describes the others and is quarantined as one row",
    "open_assistant": "a tree is one row that holds many records",
}


def look(folder: Path, out: Path, size: int) -> dict[str, Any]:
    """Ingest a dataset and account for it."""
    import pyarrow.parquet as pq

    from curator.io.build import SourceSettings
    from curator.pipeline.ingest import ingest
    from curator.pipeline.passes import Options

    source = SourceSettings(folder.name, max_quarantine="100%", **SETTINGS.get(folder.name, {}))
    started = time.perf_counter()
    outcome = ingest([str(folder)], source, out, Options(workers=1))
    seconds = time.perf_counter() - started
    extra: Counter[str] = Counter()
    raw_rows = set()
    for shard in (out / "data").glob("*.parquet"):
        table = pq.read_table(shard, columns=["extra", "provenance"])
        for text in table.column("extra").to_pylist():
            extra.update(list(json.loads(text)) if text else [])
        raw_rows |= {(row["file"], row["row"]) for row in table.column("provenance").to_pylist()}
    bad: Counter[str] = Counter()
    for file in (out / "quarantine").glob("*.parquet"):
        for row in pq.read_table(file, columns=["reason", "file", "row"]).to_pylist():
            bad[row["reason"][:90]] += 1
            raw_rows.add((row["file"], row["row"]))
    detected = outcome.notes["detected"]
    return {
        "families": {name.removeprefix("rows as "): count for name, count in detected.items() if "rows as" in name},
        "containers": {name.removeprefix("read as "): count for name, count in detected.items() if "read as" in name},
        "raw_rows": len(raw_rows),
        "records": outcome.ledger.kept,
        "quarantined": dict(bad),
        "extra_fields": [name for name, _ in extra.most_common(12)],
        "mb_per_second_on_disk": round(size / seconds / 1e6, 1),
    }


def main() -> None:
    data = real_data()
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    with (data / "MANIFEST.tsv").open() as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if not row["records"].isdigit():
                continue
            # The table names files relative to the data, or to the folder of their dataset.
            path = data / row["file"] if (data / row["file"]).exists() else data / row["dataset"] / row["file"]
            if path.exists():
                sizes[row["dataset"]] += path.stat().st_size
                counts[row["dataset"]] += int(row["records"])
    work = Path(tempfile.mkdtemp())
    result: dict[str, Any] = {"claim": (__doc__ or "").splitlines()[0], **conditions(["pyarrow"]), "datasets": {}}
    wrong = []
    for name in sorted(name for name in counts if counts[name]):
        try:
            line = look(data / name, work / name, sizes[name])
        except Exception as error:
            line = {"error": f"{type(error).__name__}: {error}"}
        line["rows_by_a_plain_reader"] = counts[name]
        if line.get("raw_rows") != counts[name]:
            line["why"] = EXPLAINED.get(name, "NOT EXPLAINED")
            wrong += [name] if name not in EXPLAINED or "error" in line else []
        result["datasets"][name] = line
        families = ", ".join(f"{family} {count:,}" for family, count in line.get("families", {}).items())
        bad = sum(line.get("quarantined", {}).values())
        print(
            f"{name:24} {counts[name]:>7,} {line.get('raw_rows', 0):>7,} {line.get('records', 0):>7,} {bad:>6,}  "
            f"{line.get('error', families)[:90]}",
            file=sys.stderr,
        )
    shutil.rmtree(work)
    result["totals"] = {
        "rows_by_a_plain_reader": sum(counts.values()),
        "raw_rows": sum(line.get("raw_rows", 0) for line in result["datasets"].values()),
        "records": sum(line.get("records", 0) for line in result["datasets"].values()),
        "quarantined": sum(sum(line.get("quarantined", {}).values()) for line in result["datasets"].values()),
    }
    save("formats", result)
    if wrong:
        sys.exit(f"not as counted, and not explained: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
