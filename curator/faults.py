"""Named points at which a test may kill the process, to prove that any interruption can be resumed."""

import os
import signal

_passes: dict[str, int] = {}


def fault_point(name: str) -> None:
    """Kill this process when `CURATOR_FAULT` is `name`, or `name:N` at the N-th passing (from 1)."""
    wanted = os.environ.get("CURATOR_FAULT")
    if wanted is None:
        return
    wanted_name, _, nth = wanted.partition(":")
    if wanted_name != name:
        return
    _passes[name] = _passes.get(name, 0) + 1
    if _passes[name] == int(nth or 1):
        os.kill(os.getpid(), signal.SIGKILL)
