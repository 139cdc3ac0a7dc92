"""What a run says while it goes on: metrics.jsonl (exact), timing.jsonl (seconds), and a line for people."""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curator import log
from curator.io.manifest import write_atomic

PLAIN_LINE_SECONDS = 5.0
"""Without a terminal, at most one line in this time."""


@dataclass(frozen=True)
class StepMetrics:
    """One line of metrics.jsonl. It holds nothing that two equal runs could differ in."""

    step: int
    loss: float
    slices: Mapping[str, float]
    """Loss by slice, for the slices in this step."""
    grad_norm: float
    learning_rate: float
    tokens: int
    supervised_tokens: int
    padding: float
    """Share of places that hold no token."""
    validation_loss: float | None = field(default=None)

    def to_json(self) -> dict[str, Any]:
        line = {name: value for name, value in vars(self).items() if value is not None}
        return {**line, "slices": dict(self.slices)}


class Monitor:
    """Writes a line a step; rank 0 holds one. Opening it cuts off the steps after `step`, which are done again."""

    def __init__(self, out: Path, step: int, num_steps: int) -> None:
        self._num_steps = num_steps
        self._metrics, self._timing = out / "metrics.jsonl", out / "timing.jsonl"
        for path in (self._metrics, self._timing):
            _cut_after(path, step)
        self._is_terminal = sys.stderr.isatty()
        self._last_shown = 0.0

    def end_step(self, metrics: StepMetrics, seconds: float) -> None:
        """Write the step's lines and show it; `seconds` is what the step took, without validation."""
        timing = {
            "step": metrics.step,
            "seconds": round(seconds, 4),
            "tokens_per_second": round(metrics.tokens / seconds, 1),
            "supervised_tokens_per_second": round(metrics.supervised_tokens / seconds, 1),
        }
        for path, line in ((self._metrics, metrics.to_json()), (self._timing, timing)):
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
        self._show(metrics, timing)

    def _show(self, metrics: StepMetrics, timing: Mapping[str, Any]) -> None:
        is_last = metrics.step == self._num_steps
        now = time.monotonic()
        if not self._is_terminal and not is_last and now - self._last_shown < PLAIN_LINE_SECONDS:
            return
        self._last_shown = now
        text = (
            f"step {metrics.step} of {self._num_steps}  loss {metrics.loss:.4f}  grad norm {metrics.grad_norm:.3f}  "
            f"rate {metrics.learning_rate:.2e}  {timing['tokens_per_second']:,.0f} tokens/s"
        )
        if metrics.validation_loss is not None:
            text += f"  validation {metrics.validation_loss:.4f}"
        if self._is_terminal and not is_last:
            # Back to the start of the line, and clear what a longer line left behind.
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()
        else:
            log.info(f"\r{text}\x1b[K" if self._is_terminal else text)


def read_metrics(out: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl."""
    path = out / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _cut_after(path: Path, step: int) -> None:
    """Take away the lines of later steps, and a last line cut short by a kill."""
    kept = []
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
        if line.endswith(b"\n") and json.loads(line)["step"] <= step:
            kept.append(line)
    write_atomic(path, b"".join(kept))
