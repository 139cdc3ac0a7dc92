"""Start the ranks of a run through torchrun, and bring back one summary or one line of what went wrong."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from curator import log
from curator.errors import CuratorError, UsageError
from curator.extras import require
from curator.train.config import TrainConfig
from curator.train.guard import ERRORS_VARIABLE, PARENT_VARIABLE, hold_lock, watch_parent
from curator.train.inputs import RunFolder, check_inputs, fingerprint, prepare

_RANKS_FILE = "ranks.json"
_STOP_SECONDS = 15.0


def train(
    mixture: str | Path,
    config: TrainConfig | Mapping[str, Any],
    out: str | Path,
    nproc: int = 1,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Train on a mixture folder with `nproc` ranks on this machine; returns the run's summary.

    A finished run is not done again, an interrupted one goes on from its last checkpoint, at any `nproc`. A folder
    that holds another run is refused, naming the first difference, unless `overwrite`. Raises CuratorError.
    """
    if PARENT_VARIABLE in os.environ:
        watch_parent()
    mixture, out = Path(mixture), Path(out)
    if not isinstance(config, TrainConfig):
        config = TrainConfig.from_mapping(config)
    if nproc < 1:
        raise UsageError(f"--nproc is {nproc}, it must be at least 1")
    for module in ("torch", "transformers"):
        if find_spec(module) is None:
            require(module, "train")

    folder = RunFolder(out, fingerprint(*check_inputs(mixture, config), config))
    with hold_lock(out):
        folder.claim(overwrite)
        if summary := folder.summary():
            log.info(f"{out} is complete: nothing to do")
            return summary
        prepare(mixture, config, out)
    _run_ranks(mixture, config, out, nproc)
    summary = folder.summary()
    if summary is None:
        raise CuratorError(f"{out}: training ended without a manifest", hint="run the same command again")
    return summary


def _run_ranks(mixture: Path, config: TrainConfig, out: Path, nproc: int) -> None:
    """Run torchrun as a child to its end. Raises CuratorError with the failure that came first."""
    job = {"mixture": str(mixture), "out": str(out), "config": config.to_json()}
    with tempfile.TemporaryDirectory(prefix="curator-train-") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "curator.train.launch", str(nproc), json.dumps(job)],
            env=_environment(nproc, errors),
            # Ctrl-C reaches this process only, which then ends the others in order.
            start_new_session=True,
        )
        try:
            code = process.wait()
        except BaseException:
            _stop(process)
            _end_line()
            raise
        if code != 0:
            _end_line()
            raise _failure(Path(errors), out, code)


def _end_line() -> None:
    """The ranks' last word on a terminal is a line without an end."""
    if sys.stderr.isatty():
        sys.stderr.write("\n")


def _environment(nproc: int, errors: str) -> dict[str, str]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    defaults = {"OMP_NUM_THREADS": str(max(cores // nproc, 1)), "TOKENIZERS_PARALLELISM": "true"}
    if sys.platform == "linux":
        # Ranks of one machine talk over loopback; a host name that does not resolve would stop them.
        defaults["GLOO_SOCKET_IFNAME"] = "lo"
    return {**defaults, **os.environ, ERRORS_VARIABLE: errors, PARENT_VARIABLE: str(os.getpid())}


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End torchrun, which ends its ranks; by force if it takes too long (ranks then notice by themselves)."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _failure(errors: Path, out: Path, code: int) -> CuratorError:
    """The failure behind all others: a killed rank, else the first rank that said something."""
    ranks = json.loads((errors / _RANKS_FILE).read_bytes()) if (errors / _RANKS_FILE).exists() else []
    for rank in ranks:
        if rank["exit_code"] < 0 and rank["exit_code"] != -signal.SIGTERM:
            name = signal.Signals(-rank["exit_code"]).name
            hint = "the same command goes on from the last checkpoint"
            if name == "SIGKILL":
                hint = f"out of memory is the usual reason; lower micro_batch_packs or max_tokens; {hint}"
            return CuratorError(f"rank {rank['rank']} was killed by {name}", hint=hint)
    reports = [(path, json.loads(path.read_bytes())) for path in errors.glob("rank-*.json")]
    if not reports:
        return CuratorError(f"training failed: torchrun ended with exit code {code}", hint="its own words stand above")
    path, report = min(reports, key=lambda item: (not item[1]["expected"], item[1]["time"]))
    if report["expected"]:
        return CuratorError(report["message"], hint=report["hint"])
    kept = out / "errors" / f"{path.stem}.txt"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(report["traceback"])
    return CuratorError(f"{path.stem.replace('-', ' ')} failed: {report['message']}", hint=f"traceback in {kept}")


def main() -> None:
    """The child: torchrun, with the failures of its ranks written down instead of printed."""
    import logging

    watch_parent()
    os.environ[PARENT_VARIABLE] = str(os.getpid())
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    # Its loggers have levels of their own; what matters of an end is in the reports of the ranks.
    logging.disable(logging.CRITICAL)
    nproc, job = sys.argv[1:]
    options = ["--standalone", "--local-addr=127.0.0.1", f"--nproc-per-node={nproc}", "-m", "curator.train.loop", job]
    try:
        run(parse_args(options))
    except ChildFailedError as error:
        ordered = sorted(error.failures.items(), key=lambda item: item[1].timestamp)
        ranks = [{"rank": rank, "exit_code": failure.exitcode} for rank, failure in ordered]
        (Path(os.environ[ERRORS_VARIABLE]) / _RANKS_FILE).write_text(json.dumps(ranks))
        sys.exit(1)
    except SignalException:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    main()
