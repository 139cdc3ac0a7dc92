"""What every benchmark shares: real data, processes of their own, the machine and versions beside the numbers."""

import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def real_data() -> Path:
    """The folder of public sets, or exit with how to name it."""
    folder = os.environ.get("CURATOR_REAL_DATA")
    if not folder:
        sys.exit("set CURATOR_REAL_DATA to the folder that holds the public sets")
    return Path(folder)


def measure(command: list[str], repeats: int) -> dict[str, Any]:
    """Run a command `repeats` times in processes of its own: seconds (median and all), peak memory, its last line of
    JSON. Peak memory is the largest resident set of any one process of the tree."""
    seconds, answer, peak = [], {}, 0
    for _ in range(repeats):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            started = time.perf_counter()
            process = subprocess.Popen(command, stdout=out, stderr=err)
            _, status, used = os.wait4(process.pid, 0)
            seconds.append(time.perf_counter() - started)
            process.returncode = os.waitstatus_to_exitcode(status)
            peak = max(peak, used.ru_maxrss)
            out.seek(0)
            err.seek(0)
            if process.returncode:
                sys.exit(f"{' '.join(command[:4])} failed:\n{err.read().decode()[-2000:]}")
            answer = json.loads(out.read().decode().strip().splitlines()[-1])
    return {
        "seconds": round(statistics.median(seconds), 2),
        "all_seconds": [round(value, 2) for value in seconds],
        "peak_mib": peak // 1024,
        **answer,
    }


def conditions(packages: list[str]) -> dict[str, Any]:
    """Machine, versions and commit."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    return {
        "machine": f"{model}, {len(os.sched_getaffinity(0))} cores",
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "commit": commit.strip(),
    }


def save(name: str, result: dict[str, Any]) -> None:
    """Write a result beside the others and print it."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
