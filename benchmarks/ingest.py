"""Claim: raw JSON lines to records in zstd Parquet, on one core, against datasets, polars and DuckDB.

Two inputs of real rows with a word of each row changed: alpaca_en in its own form (short rows), and the tool-calling
chats of llamafactory_demo as OpenAI messages with tool calls, ids and tool schemas. curator writes its full record (id,
content hash, provenance, 14 columns), quarantine, ledger and digests, and syncs every file. The peers write the turns
alone: the same mapping, the same codec and level, one thread, processes of their own. All processes whole, imports
included, kernels compiled before (`cold` is the first run with an empty cache).

Accuracy beside speed: nine rows that readers are known to lose or change go through every tool, and what comes out is
compared with the raw text.

    CURATOR_REAL_DATA=... python benchmarks/ingest.py [--megabytes 400] [--large-gigabytes 10] [--work DIR]
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common import conditions, measure, real_data, save

REPEATS = 3


# --- inputs -------------------------------------------------------------------------------------------------------


def alpaca_rows(data: Path) -> Iterator[dict[str, Any]]:
    import gzip

    files = sorted((data / "alpaca_en").glob("*.json.gz"))
    rows = [row for file in files for row in json.loads(gzip.decompress(file.read_bytes()))]
    chance = random.Random(1)
    number = 0
    while True:
        row = dict(rows[number % len(rows)])
        words = row["output"].split(" ")
        words[chance.randrange(len(words))] = str(number)
        row["output"] = " ".join(words)
        number += 1
        yield row


def chat_rows(data: Path) -> Iterator[dict[str, Any]]:
    rows = json.loads((data / "llamafactory_demo/glaive_toolcall_en_demo.json").read_bytes())
    roles = {"human": "user", "gpt": "assistant"}
    chance = random.Random(2)
    number = 0
    while True:
        row = rows[number % len(rows)]
        messages: list[dict[str, Any]] = []
        calls = 0
        for turn in row["conversations"]:
            kind, text = turn["from"], turn["value"]
            if kind in roles:
                words = text.split(" ")
                words[chance.randrange(len(words))] = str(number)
                messages.append({"role": roles[kind], "content": " ".join(words)})
            elif kind == "function_call":
                calls += 1
                call = json.loads(text)
                function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
                called = {"id": f"call_{number}_{calls}", "type": "function", "function": function}
                messages.append({"role": "assistant", "content": None, "tool_calls": [called]})
            else:
                messages.append({"role": "tool", "tool_call_id": f"call_{number}_{calls}", "content": text})
        yield {"id": f"glaive-{number}", "messages": messages, "tools": json.loads(row["tools"] or "[]")}
        number += 1


def write_rows(rows: Iterator[dict[str, Any]], path: Path, size: int) -> int:
    """Write at least `size` bytes of rows; how many."""
    written = count = 0
    with path.open("w") as file:
        while written < size:
            written += file.write(json.dumps(next(rows), ensure_ascii=False) + "\n")
            count += 1
    return count


def repeated(path: Path, out: Path, gigabytes: float) -> Path:
    """A file of so many gigabytes, of whole copies of another."""
    with out.open("wb") as file:
        while file.tell() < gigabytes * 1e9:
            with path.open("rb") as source:
                shutil.copyfileobj(source, file, 1 << 24)
    return out


# --- the tools, each in a process of its own -----------------------------------------------------------------------


def one_core() -> None:
    """This process on one core, with one thread in every library."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "ARROW_IO_THREADS"):
        os.environ[name] = "1"


def curator(path: Path, out: Path, workers: int = 1) -> int:
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # as the command line does
    from curator.io.build import SourceSettings
    from curator.pipeline.ingest import ingest
    from curator.pipeline.passes import Options

    return ingest([str(path)], SourceSettings("bench"), out, Options(workers=workers)).ledger.kept


def with_datasets(path: Path, out: Path) -> int:
    import datasets
    import pyarrow.parquet as pq

    datasets.disable_progress_bars()
    rows = datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=str(out / "cache"))

    def alpaca(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        messages = []
        for instruction, given, output in zip(*(batch[n] for n in ("instruction", "input", "output")), strict=True):
            prompt = f"{instruction}\n\n{given}" if given else instruction
            messages.append([{"role": "user", "content": prompt}, {"role": "assistant", "content": output}])
        return {"messages": messages}

    def chat(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        messages = [
            [
                {name: turn.get(name) for name in ("role", "content", "tool_call_id")}
                | {"tool_calls": json.dumps(turn["tool_calls"]) if turn.get("tool_calls") else None}
                for turn in turns
            ]
            for turns in batch["messages"]
        ]
        return {"messages": messages, "tools": [json.dumps(tools) for tools in batch["tools"]]}

    if "instruction" in rows.column_names:
        rows = rows.map(alpaca, batched=True, remove_columns=rows.column_names)
    else:
        rows = rows.map(chat, batched=True, remove_columns=["tools"])
    # Its own to_parquet does not let the codec be chosen, and spends more.
    batches = rows.with_format("arrow").iter(8192)
    first = next(batches)
    with pq.ParquetWriter(out / "out.parquet", first.schema, compression="zstd", compression_level=1) as writer:
        writer.write_table(first)
        for batch in batches:
            writer.write_table(batch)
    return rows.num_rows


def with_polars(path: Path, out: Path) -> int:
    import polars as pl

    text = pl.String
    if "alpaca" in path.name:
        schema: Any = {"instruction": text, "input": text, "output": text}
        prompt = (
            pl.when(pl.col("input") == "")
            .then(pl.col("instruction"))
            .otherwise(pl.concat_str("instruction", "input", separator="\n\n"))
        )
        user = pl.struct(role=pl.lit("user"), content=prompt)
        assistant = pl.struct(role=pl.lit("assistant"), content=pl.col("output"))
        frame = pl.scan_ndjson(path, schema=schema).select(messages=pl.concat_list(user, assistant))
    else:
        # Tool schemas differ from row to row, which no struct holds: polars keeps them as text only where it is told
        # that they are text. The calls are structs here, so the schema is named in full.
        function = pl.Struct({"name": text, "arguments": text})
        call = pl.Struct({"id": text, "type": text, "function": function})
        turn = pl.Struct({"role": text, "content": text, "tool_calls": pl.List(call), "tool_call_id": text})
        schema = {"id": text, "messages": pl.List(turn), "tools": text}
        frame = pl.scan_ndjson(path, schema=schema)
    frame.sink_parquet(out / "out.parquet", compression="zstd", compression_level=1)
    return pl.scan_parquet(out / "out.parquet").select(pl.len()).collect().item()


def with_duckdb(path: Path, out: Path) -> int:
    import duckdb

    connection = duckdb.connect()
    connection.execute("set threads = 1")
    if "alpaca" in path.name:
        columns = "{instruction: 'VARCHAR', input: 'VARCHAR', output: 'VARCHAR'}"
        select = (
            "select [{role: 'user', content: if(input = '', instruction, instruction || '\n\n' || input)}, "
            "{role: 'assistant', content: output}] as messages"
        )
    else:
        call = "STRUCT(id VARCHAR, type VARCHAR, function STRUCT(name VARCHAR, arguments VARCHAR))"
        turn = f"STRUCT(role VARCHAR, content VARCHAR, tool_calls {call}[], tool_call_id VARCHAR)"
        columns = f"{{id: 'VARCHAR', messages: '{turn}[]', tools: 'JSON'}}"
        select = "select id, messages, tools"
    read = f"read_json('{path}', format = 'newline_delimited', columns = {columns}, maximum_object_size = 67108864)"
    target = f"'{out}/out.parquet' (format parquet, compression zstd, compression_level 1)"
    connection.execute(f"copy ({select} from {read}) to {target}")
    return connection.execute(f"select count(*) from '{out}/out.parquet'").fetchone()[0]


TOOLS: dict[str, Callable[[Path, Path], int]] = {
    "curator": curator,
    "datasets": with_datasets,
    "polars": with_polars,
    "duckdb": with_duckdb,
}


# --- what is lost -------------------------------------------------------------------------------------------------

HARD_ROWS = {
    "a key twice": '{"instruction":"first","instruction":"second","input":"","output":"x"}',
    "an integer of 30 digits": '{"instruction":"a","input":"","output":"x","n":123456789012345678901234567890}',
    "1e400": '{"instruction":"a","input":"","output":"x","n":1e400}',
    "a key that only the last row has": '{"instruction":"a","input":"","output":"x","late":"kept?"}',
    "a type that changes": '{"instruction":"a","input":"","output":"x","n":"text"}',
    "a broken line": '{"instruction":"a","input":"","output":',
    "an answer that is a number": '{"instruction":"a","input":"","output":3}',
    "null, absent, empty apart": '{"instruction":"a","input":null,"output":"x","m":[],"k":{}}',
    "half a surrogate pair": '{"instruction":"a","input":"","output":"\\ud83d"}',
}


def losses(tool: str, folder: Path) -> str:
    """What happens to 1,000 plain rows with the hard ones at their end: rows out, or how the tool stops."""
    path = folder / "alpaca_hard.jsonl"
    plain = ['{"instruction":"a","input":"","output":"x","n":1}'] * 1000
    path.write_text("\n".join([*plain, *HARD_ROWS.values()]) + "\n")
    out = folder / f"hard-{tool}"
    out.mkdir()
    done = subprocess.run(
        [sys.executable, __file__, "--one", tool, str(path), str(out)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return "stops: " + done.stderr.strip().splitlines()[-1].replace(f"{folder}/", "")[:160]
    rows = json.loads(done.stdout.strip().splitlines()[-1])["rows"]
    if tool != "curator":
        return f"{rows:,} rows of 1,009, no word about the rest"
    import pyarrow.parquet as pq

    bad = [
        row["reason"] for file in (out / "d/quarantine").glob("*.parquet") for row in pq.read_table(file).to_pylist()
    ]
    return f"{rows:,} records, {len(bad)} quarantined with place, bytes and reason: " + "; ".join(sorted(bad))


# --- where the time goes ------------------------------------------------------------------------------------------


def parts(path: Path, out: Path) -> dict[str, float]:
    """Seconds of one ingest in this process by part: read and split, parse, map, hash, write; the rest apart."""
    from curator.io import columns, dataset
    from curator.io.raw.lines import Lines
    from curator.pipeline import ingest as module

    seconds: dict[str, float] = {}

    def timed(owner: Any, name: str, part: str) -> None:
        inner = getattr(owner, name)

        def wrapper(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return inner(*arguments, **named)
            finally:
                seconds[part] = seconds.get(part, 0) + time.perf_counter() - started

        setattr(owner, name, wrapper)

    timed(columns.Tokens, "scan", "parse")
    timed(columns.Program, "run", "map")
    timed(columns, "hash_contents", "hash")
    timed(columns, "digest_ids", "hash")
    timed(dataset.ShardWriter, "write", "write")
    timed(dataset.ShardWriter, "close", "write")
    timed(Lines, "_trimmed", "split")
    timed(module, "raw_file", "digest of the input")
    started = time.perf_counter()
    curator(path, out)
    seconds["all"] = time.perf_counter() - started
    seconds["rest"] = seconds["all"] - sum(value for part, value in seconds.items() if part != "all")
    return {part: round(value, 3) for part, value in seconds.items()}


def zstd_wall(path: Path) -> float:
    """MB/s at which this machine writes the input's own bytes as one text column of zstd Parquet, on one core."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    lines = pa.array(path.read_bytes().split(b"\n"), pa.binary()).cast(pa.string())
    started = time.perf_counter()
    with tempfile.NamedTemporaryFile() as file:
        table = pa.table({"text": lines})
        pq.write_table(
            table, file.name, compression="zstd", compression_level=1, use_dictionary=False, row_group_size=8192
        )
    return path.stat().st_size / (time.perf_counter() - started) / 1e6


def run_one(arguments: list[str]) -> None:
    tool, path, out = arguments[0], Path(arguments[1]), Path(arguments[2])
    if tool == "two":
        print(json.dumps({"rows": curator(path, out / "d", workers=2)}))
        return
    one_core()
    if tool == "parts":
        curator(path, out / "warm")
        print(json.dumps(parts(path, out / "d")))
    elif tool == "wall":
        print(json.dumps({"rows": 0, "mb_per_second": round(zstd_wall(path), 1)}))
    else:
        print(json.dumps({"rows": TOOLS[tool](path, out / "d" if tool == "curator" else out)}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument(
        "--large-gigabytes", type=float, default=0, help="only ingest a file of this size, with two workers"
    )
    parser.add_argument("--work", type=Path)
    parser.add_argument("--one", nargs=3)
    given = parser.parse_args()
    if given.one:
        run_one(given.one)
        return
    data = real_data()
    work = given.work or Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {
        "claim": __doc__.splitlines()[0],
        **conditions(["pyarrow", "polars", "duckdb", "datasets"]),
    }

    def run(tool: str, path: Path, repeats: int = REPEATS) -> dict[str, Any]:
        measured = []
        for _ in range(repeats):
            out = Path(tempfile.mkdtemp(dir=work))
            measured.append(measure([sys.executable, __file__, "--one", tool, str(path), str(out)], 1))
            shutil.rmtree(out)
        measured.sort(key=lambda one: one["seconds"])
        middle = measured[len(measured) // 2]
        return {**middle, "all_seconds": [one["seconds"] for one in measured]}

    if given.large_gigabytes:
        write_rows(alpaca_rows(data), work / "alpaca.jsonl", given.megabytes * 1_000_000)
        path = repeated(work / "alpaca.jsonl", work / "large.jsonl", given.large_gigabytes)
        save("ingest_large", {**result, "gigabytes": given.large_gigabytes, **run("two", path, 1)})
        path.unlink()
        return
    for name, rows in (("alpaca", alpaca_rows(data)), ("chats", chat_rows(data))):
        path = work / f"{name}.jsonl"
        count = write_rows(rows, path, given.megabytes * 1_000_000)
        size = path.stat().st_size / 1e6
        section: dict[str, Any] = {"rows": count, "megabytes": round(size, 1)}
        section["write_wall"] = run("wall", path, 3)
        for tool in TOOLS:
            section[tool] = run(tool, path)
            section[tool]["mb_per_second"] = round(size / section[tool]["seconds"], 1)
            assert section[tool]["rows"] == count, (tool, section[tool], count)
        section["ratio"] = {
            tool: round(section[tool]["seconds"] / section["curator"]["seconds"], 2)
            for tool in TOOLS
            if tool != "curator"
        }
        section["parts"] = run("parts", path, 1)
        result[name] = section
    with tempfile.TemporaryDirectory(dir=work) as folder:
        result["hard_rows"] = {tool: losses(tool, Path(tempfile.mkdtemp(dir=folder))) for tool in TOOLS}
    # Starting costs the same for any size: how two workers do is seen on a file that takes much longer.
    path = repeated(work / "alpaca.jsonl", work / "scale.jsonl", 1.6)
    result["scale"] = {"gigabytes": 1.6, "one": run("curator", path, 2), "two": run("two", path, 2)}
    result["scale"]["ratio"] = round(result["scale"]["one"]["seconds"] / result["scale"]["two"]["seconds"], 2)
    path.unlink()
    save("ingest", result)


if __name__ == "__main__":
    main()
