"""Claim: near-duplicates among a million texts in seconds on two cores, against datasketch, rensa and datatrove.

Two measures. Stage: texts in memory to decisions (signatures, bands, buckets, true Jaccard, who stays), kernels warm,
two threads; peers get Python lists of the same texts: datasketch signs in two processes and queries its LSH, rensa
signs a matrix on two Rayon threads and flags duplicates with its native LSH (shingling in Python, as its API wants it),
datatrove runs its signature stage only. Whole process: a records folder to one without duplicates, import included,
with manifest, rejects and digests, kernels loaded from their cache (and once cold, compiled); peers read the same
Parquet, decide on the same text, and write the kept rows with zstd as we do. 3-word shingles, 128 places, threshold
0.8, bands of (21, 6). Only rensa_deduplicator keeps one row of each group and compares signatures; rensa and rensa_rho
flag every row that shares a band, the first one too.

Accuracy: all pairs of 20,000 real texts by true Jaccard (sparse matrix product), how many of them share a band, by
similarity. Precision is 1 by construction: every drop is verified.

    CURATOR_REAL_DATA=... python benchmarks/near_dedup.py --peers PYTHON_WITH_datasketch_rensa_datatrove_scipy

datasketch and datatrove get --slow-rows of the generated prompts; their ratios take them as linear.

Inputs are real alpaca_en and t0_p3 texts; the million are alpaca texts with half of their words replaced, a twentieth
exact copies and a quarter with one word in fifty replaced. They are made once in --work.
"""

import argparse
import gzip
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import ROOT, conditions, measure, real_data, save

CURATOR = str(Path(sys.executable).parent / "curator")
SIZE, NUM_PERM, THRESHOLD, BANDS, ROWS = 3, 128, 0.8, 21, 6


# --- inputs -------------------------------------------------------------------------------------------------------


def alpaca(data: Path, field: str) -> list[str]:
    files = sorted((data / "alpaca_en").glob("*.json.gz"))
    rows = (row for path in files for row in json.loads(gzip.decompress(path.read_bytes())))
    return [row[field] for row in rows if row[field]]


def p3(data: Path, field: str) -> list[str]:
    lines = (line for path in sorted((data / "t0_p3").glob("*.jsonl")) for line in path.read_bytes().splitlines())
    return [row[field] for row in map(json.loads, lines)]


def generated(base: list[str], count: int, at_least: int) -> Iterator[str]:
    """Texts of at least so many words, most of them new, some copies, some changed in a few words."""
    generator = random.Random(1)
    words = [text.split() for text in base]
    vocabulary = sorted({word for text in words for word in text})
    for _ in range(count):
        text = list(generator.choice(words))
        while len(text) < at_least:
            text += generator.choice(words)
        kind = generator.random()
        if kind < 0.7:
            text = [generator.choice(vocabulary) if generator.random() < 0.5 else word for word in text]
        elif kind < 0.95:
            for _ in range(max(1, len(text) // 50)):
                text[generator.randrange(len(text))] = generator.choice(vocabulary)
        yield " ".join(text)


def folder(work: Path, name: str, texts: Iterator[str] | list[str]) -> Path:
    """A records folder with the texts as user turns, made by ingest."""
    out = work / name
    if not (out / "manifest.json").exists():
        raw = work / f"{name}.jsonl"
        with raw.open("w", encoding="utf-8") as file:
            for text in texts:
                turns = [{"role": "user", "content": text}, {"role": "assistant", "content": "Yes."}]
                file.write(json.dumps({"messages": turns}, ensure_ascii=False) + "\n")
        command = [CURATOR, "ingest", str(raw), "--source", "s", "--out", str(out)]
        subprocess.run([*command, "--shard-bytes", str(16 << 20), "--json"], check=True, capture_output=True)
        raw.unlink()
    return out


def texts_of(folder: Path) -> list[str]:
    """For peers: the user turns (one a record here), by pyarrow alone."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    found: list[str] = []
    for path in sorted((folder / "data").glob("*.parquet")):
        columns = ["messages.list.element.role", "messages.list.element.content"]
        turns = pc.list_flatten(pq.ParquetFile(path).read(columns=columns).column("messages"))
        content, role = pc.struct_field(turns, "content"), pc.struct_field(turns, "role")
        found += content.filter(pc.equal(role, "user")).to_pylist()
    return found


def write_kept(folder: Path, out: Path, keep: list[bool]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    start = 0
    for path in sorted((folder / "data").glob("*.parquet")):
        table = pq.ParquetFile(path).read()
        kept = table.filter(pa.array(keep[start : start + len(table)]))
        pq.write_table(kept, out / path.name, compression="zstd", compression_level=1)
        start += len(table)


# --- ours ---------------------------------------------------------------------------------------------------------


def ours_stage(folder: Path) -> None:
    """Decisions from record batches in memory, twice; the second time counts."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np
    import pyarrow as pa

    from curator.io.dataset import Dataset
    from curator.stages.dedup import near

    stage = near.Near(on="prompt", size=SIZE, threshold=THRESHOLD, num_perm=NUM_PERM)
    dataset = Dataset.open(folder)
    batches = list(dataset.batches(stage.reads(dataset.schema)))
    firsts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    seconds: dict[str, float] = {}
    for _ in range(2):
        clock = time.perf_counter()
        seconds = {}

        def lap(name: str) -> None:
            nonlocal clock
            now = time.perf_counter()
            seconds[name] = round(now - clock, 3)  # noqa: B023
            clock = now

        with ThreadPoolExecutor(2) as pool:
            signed = pa.concat_tables(pool.map(near._sign, [stage] * len(batches), batches, firsts[:-1]))
            lap("signatures")
            folded = near._fold(stage, signed)
            columns = [signed.select([name]) for name in stage._key_columns()]
            bucketed = list(pool.map(near._bucket, [stage] * BANDS, columns, [folded] * BANDS))
            asked = near._group(stage, pa.concat_tables(bucketed), folded)
            lap("bands")
            rows = asked.column("row").to_numpy()
            cuts = np.searchsorted(rows, firsts)
            parts = [
                (batch.take(pa.array(rows[start:stop] - first)), asked.slice(start, stop - start))
                for batch, first, start, stop in zip(batches, firsts, cuts[:-1], cuts[1:], strict=False)
            ]
            sets = pa.concat_tables(pool.map(lambda part: near._shingle(stage, *part), parts))
            group = sets.column("group").to_numpy() % 4
            quarters = [sets.filter(pa.array(group == number)) for number in range(4)]
            chosen = pa.concat_tables(pool.map(near._choose, [stage] * 4, quarters)).sort_by("row")
            decided = near._decide(stage, chosen)
            lap("check")
    dropped = decided.column("drop").combine_chunks().is_valid().sum().as_py()
    print(json.dumps({"stage_seconds": round(sum(seconds.values()), 3), "parts": seconds, "dropped": dropped}))


def band_recall(pairs_file: Path) -> None:
    """Which of the exact pairs in a file share a band."""
    import numpy as np
    import pyarrow as pa

    from curator.stages.dedup.near import Near

    given = json.loads(pairs_file.read_text())
    stage = Near(on="prompt", size=SIZE, threshold=THRESHOLD, num_perm=NUM_PERM)
    keys, folds, _ = stage._sign_texts(pa.array(given["texts"]))
    left, right = np.array(given["left"], int), np.array(given["right"], int)
    found = (keys[:, left] == keys[:, right]).any(axis=0) | (folds[left] == folds[right]).all(axis=1)
    similarity = np.array(given["similarity"])
    bins = {}
    for low in np.arange(THRESHOLD, 1.0, 0.02):
        inside = (similarity >= low - 1e-9) & (similarity < low + 0.02 - 1e-9)
        bins[f"{low:.2f}"] = {"pairs": int(inside.sum()), "found": int(found[inside].sum())}
    same = similarity >= 1 - 1e-9
    bins["1.00"] = {"pairs": int(same.sum()), "found": int(found[same].sum())}
    near_edge = (similarity >= THRESHOLD - 1e-9) & (similarity < THRESHOLD + 0.1 - 1e-9)
    print(
        json.dumps(
            {
                "pairs_in_first_tenth": int(near_edge.sum()),
                "recall_in_first_tenth": round(float(found[near_edge].mean()), 5) if near_edge.any() else None,
                "pairs": len(found),
                "recall": round(float(found.mean()), 5) if len(found) else None,
                "bins": bins,
            }
        )
    )


# --- peers --------------------------------------------------------------------------------------------------------


def shingled(text: str) -> list[str]:
    words = text.split()
    return [" ".join(words[place : place + SIZE]) for place in range(max(1, len(words) - SIZE + 1))]


def _datasketch_part(texts: list[str]) -> Any:
    import numpy as np
    from datasketch import MinHash

    sets = ([piece.encode() for piece in set(shingled(text))] for text in texts)
    return np.array([item.hashvalues for item in MinHash.generator(sets, num_perm=NUM_PERM)])


def datasketch_keep(texts: list[str]) -> list[bool]:
    from concurrent.futures import ProcessPoolExecutor

    from datasketch import LeanMinHash, MinHashLSH

    cuts = range(0, len(texts), 20_000)
    with ProcessPoolExecutor(2) as pool:
        parts = list(pool.map(_datasketch_part, [texts[start : start + 20_000] for start in cuts]))
    index = MinHashLSH(threshold=THRESHOLD, num_perm=NUM_PERM, params=(BANDS, ROWS))
    keep = []
    for row in (row for part in parts for row in part):
        lean = LeanMinHash(seed=1, hashvalues=row, scheme="affine32")
        keep.append(not index.query(lean))
        if keep[-1]:
            index.insert(len(keep), lean, check_duplication=False)
    return keep


def rensa_keep(texts: list[str], sketch: str) -> list[bool]:
    from rensa import RMinHash, RMinHashLSH

    build = getattr(RMinHash, f"digest_matrix_from_token_sets{sketch}")
    matrix = build([shingled(text) for text in texts], num_perm=126, seed=42)
    index = RMinHashLSH(threshold=THRESHOLD, num_perm=126, num_bands=BANDS)
    return [not flag for flag in index.query_duplicate_flags_matrix_one_shot(matrix)]


def rensa_readme_keep(texts: list[str]) -> list[bool]:
    from rensa import RMinHashDeduplicator

    dedup = RMinHashDeduplicator(threshold=THRESHOLD, num_perm=126, use_lsh=True, num_bands=BANDS)
    return list(dedup.add_pairs((str(number), shingled(text)) for number, text in enumerate(texts)))


KEEP = {
    "datasketch": datasketch_keep,
    "rensa": lambda texts: rensa_keep(texts, ""),
    "rensa_rho": lambda texts: rensa_keep(texts, "_rho"),
    "rensa_deduplicator": rensa_readme_keep,
}


def peer_stage(name: str, folder: Path) -> None:
    texts = texts_of(folder)
    if name == "datatrove":
        _datatrove(texts)
        return
    started = time.perf_counter()
    keep = KEEP[name](texts)
    print(json.dumps({"stage_seconds": round(time.perf_counter() - started, 2), "dropped": keep.count(False)}))


def _datatrove(texts: list[str]) -> None:
    from datatrove.data import Document
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import MinhashDedupSignature
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.utils.hashing import HashConfig

    config = MinhashConfig(
        n_grams=SIZE, num_buckets=BANDS, hashes_per_bucket=ROWS, hash_config=HashConfig(precision=32)
    )
    with tempfile.TemporaryDirectory() as scratch:

        def documents(data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
            for number in range(rank, len(texts), world_size):
                yield Document(text=texts[number], id=str(number))

        executor = LocalPipelineExecutor(
            [documents, MinhashDedupSignature(f"{scratch}/signatures", config=config)],
            tasks=2,
            workers=2,
            logging_dir=f"{scratch}/logs",
            start_method="fork",
        )
        started = time.perf_counter()
        executor.run()
        print(json.dumps({"stage_seconds": round(time.perf_counter() - started, 2), "texts": len(texts)}))


def peer_whole(name: str, folder: Path, out: Path) -> None:
    keep = KEEP[name](texts_of(folder))
    write_kept(folder, out, keep)
    print(json.dumps({"dropped": keep.count(False)}))


def exact_pairs(texts_file: Path, out: Path) -> None:
    """All pairs at or above the threshold, by a sparse product of text and shingle incidence."""
    import numpy as np
    from scipy.sparse import csr_matrix

    sys.path.insert(0, str(ROOT / "tests"))
    from near_reference import shingles

    texts = json.loads(texts_file.read_text())
    known: dict[Any, int] = {}
    sets = [[known.setdefault(item, len(known)) for item in shingles(text, "words", SIZE)] for text in texts]
    sizes = np.array([len(own) for own in sets])
    ends = np.concatenate([[0], np.cumsum(sizes)])
    places = np.concatenate([np.array(own, np.int64) for own in sets])
    matrix = csr_matrix((np.ones(len(places), np.int32), places, ends), shape=(len(sets), len(known)))
    left, right, similarity = [], [], []
    for start in range(0, len(sets), 500):
        product = (matrix[start : start + 500] @ matrix.T).tocoo()
        one, other, shared = product.row + start, product.col, product.data
        value = shared / (sizes[one] + sizes[other] - shared)
        chosen = (one < other) & (value >= THRESHOLD)
        left += one[chosen].tolist()
        right += other[chosen].tolist()
        similarity += value[chosen].tolist()
    out.write_text(json.dumps({"texts": texts, "left": left, "right": right, "similarity": similarity}))
    print(json.dumps({"pairs": len(left)}))


# --- the comparison -----------------------------------------------------------------------------------------------


def accuracy(texts: list[str], work: Path, peers: str) -> dict[str, Any]:
    (work / "texts.json").write_text(json.dumps(texts))
    script = str(Path(__file__))
    measure([peers, script, "--run", "exact_pairs", str(work / "texts.json"), str(work / "pairs.json")], 1)
    return measure([sys.executable, script, "--run", "band_recall", str(work / "pairs.json")], 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", help="python of an environment with datasketch, rensa, datatrove, scipy, pyarrow")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "near_dedup")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--slow-rows", type=int, default=100_000, help="rows for datasketch and datatrove")
    parser.add_argument("--recall", type=Path, help="the recall.json that an earlier run left in its --work")
    parser.add_argument("--run", nargs="+")
    given = parser.parse_args()
    if given.run:
        name, *rest = given.run
        globals()[name](*(Path(item) if "/" in item else item for item in rest))
        return
    if not given.peers:
        sys.exit("name the peers' python with --peers")
    data, work, script = real_data(), given.work, str(Path(__file__))
    work.mkdir(parents=True, exist_ok=True)
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # as the command line sets it; for all
    os.environ["NUMBA_CACHE_DIR"] = os.environ.get("NUMBA_CACHE_DIR", str(work / "numba"))
    prompts, outputs = alpaca(data, "instruction"), alpaca(data, "output")
    real = random.Random(2).sample(outputs, 36_000) + p3(data, "prompt")
    folders = {
        "real60k": folder(work, "real60k", real[:60_000]),
        "prompts": folder(work, f"prompts{given.rows}", generated(prompts, given.rows, 1)),
        "responses": folder(work, f"responses{given.rows}", generated(outputs, given.rows, 160)),
        "slow": folder(work, f"prompts{given.slow_rows}", generated(prompts, given.slow_rows, 1)),
    }
    versions = json.loads(
        subprocess.run(
            [given.peers, "-c", "import importlib.metadata as m, json; print(json.dumps({n: m.version(n) for n in "
             "('datasketch', 'rensa', 'datatrove', 'numpy', 'pyarrow')}))"],
            capture_output=True, text=True, check=True,
        ).stdout
    )  # fmt: skip
    result: dict[str, Any] = {
        **conditions(["numba", "numpy", "pyarrow"]),
        "peer_versions": versions,
        "rows": given.rows,
        "rows_of_datasketch_and_datatrove": given.slow_rows,
        "shingles": f"{SIZE} words",
        "bands": [BANDS, ROWS],
    }
    if given.recall:
        result["recall"] = json.loads(given.recall.read_text())
    else:
        result["recall"] = {
            "prompts": accuracy(random.Random(3).sample(p3(data, "prompt"), 20_000), work, given.peers),
            "responses": accuracy(random.Random(3).sample(outputs, 20_000), work, given.peers),
        }
        (work / "recall.json").write_text(json.dumps(result["recall"]))
    result["stage"] = {
        "curator": measure([sys.executable, script, "--run", "ours_stage", str(folders["prompts"])], 3),
        **{
            name: measure([given.peers, script, "--run", "peer_stage", name, str(folders[_input_of(name)])], 1)
            for name in (*KEEP, "datatrove")
        },
    }
    whole: dict[str, Any] = {}
    for name in ("real60k", "prompts", "responses"):
        out = work / "out"
        repeats = 3 if name != "responses" else 1
        ours = [CURATOR, "dedup", "near", str(folders[name]), "--on", "prompt", "--out", str(out), "--json"]
        plain = [CURATOR, "concat", str(folders[name]), "--out", str(out), "--json"]
        whole[name] = {"curator": _whole(ours, out, repeats), "read_and_write": _whole(plain, out, repeats)}
        if name == "real60k":
            with tempfile.TemporaryDirectory() as empty:
                whole[name]["curator_cold"] = _whole(["env", f"NUMBA_CACHE_DIR={empty}", *ours], out, 1)
        for peer in KEEP if name != "responses" else ("rensa",):
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            source = folders["slow" if name == "prompts" and _input_of(peer) == "slow" else name]
            whole[name][peer] = measure([given.peers, script, "--run", "peer_whole", peer, str(source), str(out)], 1)
    result["whole_process"] = whole
    result["ratios"] = ratios(result, given.rows / given.slow_rows)
    save("near_dedup", result)


_WATCHED = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
if done.returncode:
    sys.exit(done.stderr)
report = json.loads(done.stdout.splitlines()[-1])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu = round(used.ru_utime + used.ru_stime, 2)
print(json.dumps({"kept": report["kept"], "peak_mib": used.ru_maxrss // 1024, "cpu_seconds": cpu}))
"""


def _whole(command: list[str], out: Path, repeats: int) -> dict[str, Any]:
    """A command into an empty folder each time, with the peak memory of its processes."""
    measured: list[dict[str, Any]] = []
    for _ in range(repeats):
        shutil.rmtree(out, ignore_errors=True)
        measured.append(measure([sys.executable, "-c", _WATCHED, *command], 1))
    measured.sort(key=lambda item: item["seconds"])
    middle = measured[len(measured) // 2]
    return {**middle, "all_seconds": [item["seconds"] for item in measured]}


def _input_of(peer: str) -> str:
    return "slow" if peer in ("datasketch", "datatrove") else "prompts"


def ratios(result: dict[str, Any], scale: float) -> dict[str, float]:
    """How many times slower than curator; of peers with fewer rows, their seconds times `scale` (they are linear)."""
    stage, whole = result["stage"], result["whole_process"]
    ours = stage["curator"]["stage_seconds"]
    found = {}
    for name in (*KEEP, "datatrove"):
        times = scale if _input_of(name) == "slow" else 1
        found[f"stage, {name}"] = stage[name]["stage_seconds"] * times / ours
    for name, measured in whole.items():
        ours = measured["curator"]["seconds"]
        for other in measured.keys() - {"curator", "curator_cold"}:
            times = scale if name == "prompts" and _input_of(other) == "slow" else 1
            if other == "read_and_write":
                found[f"{name}: curator to read and write"] = ours / measured[other]["seconds"]
            else:
                found[f"{name}: whole process, {other}"] = measured[other]["seconds"] * times / ours
    return {name: round(value, 2) for name, value in sorted(found.items())}


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
