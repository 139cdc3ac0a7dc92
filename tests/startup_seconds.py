"""Prints what a command costs before it works: imports, the kernels' compilation cold and from cache."""

import os
import subprocess
import sys
import tempfile
import time

CASES = {
    "curator --help": [sys.executable, "-m", "curator.cli.app", "--help"],
    "import curator.pipeline.run": [sys.executable, "-c", "import curator.pipeline.run"],
    "import curator.train.loop": [sys.executable, "-c", "import curator.train.loop"],
}
WARM = [sys.executable, "-c", "from curator.kernels.warm import warm; warm()"]


def seconds(command: list[str], **environment: str) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment})
    return time.perf_counter() - started


def main() -> None:
    for name, command in CASES.items():
        print(f"{name}: {seconds(command):.2f} s")
    with tempfile.TemporaryDirectory() as cache:
        print(f"kernels, cold: {seconds(WARM, NUMBA_CACHE_DIR=cache):.2f} s")
        print(f"kernels, from cache: {seconds(WARM, NUMBA_CACHE_DIR=cache):.2f} s")


if __name__ == "__main__":
    main()
