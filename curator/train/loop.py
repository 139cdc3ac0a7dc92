"""The training story, as one rank lives it. `python -m torch.distributed.run ... -m curator.train.loop JOB` runs it."""

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from curator import __version__
from curator.errors import CuratorError
from curator.io.manifest import digest_file, write_atomic
from curator.train.checkpoint import (
    Progress,
    find_checkpoints,
    full_model_state,
    load_checkpoint,
    remove_old_checkpoints,
    save_checkpoint,
)
from curator.train.config import TrainConfig
from curator.train.evaluate import EvalResult, Evaluator
from curator.train.guard import hold_lock, report_failures, watch_parent
from curator.train.inputs import Inputs, open_inputs, prepare
from curator.train.ledger import Ledger
from curator.train.loader import TRAIN, MicroBatch, PackLoader
from curator.train.loss import LossSums, StepSums
from curator.train.model import SupervisedModel, build_model, export_model
from curator.train.monitor import Monitor, StepMetrics, read_metrics
from curator.train.optim import build_optimizer, clip_gradients, set_learning_rate
from curator.train.parallel import World, join_world, shard_model, sum_over_ranks


class NonFiniteError(CuratorError):
    """A step's loss or gradient is not a number; the weights are still those before the step."""


def train_rank(mixture: Path, config: TrainConfig, out: Path) -> None:
    """Rank 0 holds the folder and prepares it; the others wait in `join_world`. Then all train."""
    if int(os.environ["RANK"]) != 0:
        train(mixture, config, out, join_world())
        return
    with hold_lock(out):
        prepare(mixture, config, out)
        train(mixture, config, out, join_world())


def train(mixture: Path, config: TrainConfig, out: Path, world: World) -> None:
    """Train from the last checkpoint, or from the start, to the exported model."""
    inputs = open_inputs(mixture, config, out)
    model = build_model(Path(config.model), config, inputs.chat.num_ids)
    model = shard_model(model, world, config)
    optimizer = build_optimizer(model, config)
    loader = PackLoader(inputs.tokens, inputs.packs, inputs.chat.pad_id)
    evaluator = Evaluator(inputs, config)
    ledger = Ledger(out, inputs, config)
    num_steps = config.num_steps(inputs.packs.num_packs)

    progress = resume(out, inputs, model, optimizer)
    monitor = Monitor(out, progress.step, num_steps) if world.is_first else None
    started = time.monotonic()
    for step in range(progress.step + 1, num_steps + 1):
        is_last = step == num_steps
        step_started = time.monotonic()
        first, stop = ledger.pack_range(step)
        batches = list(
            loader.micro_batches(first, stop, config.packs_per_step, world.rank, world.size, config.micro_batch_packs)
        )
        rate = config.learning_rate_at(step, num_steps)
        sums, grad_norm = train_step(model, optimizer, batches, rate, len(inputs.order.slices), config, world)
        if not (math.isfinite(sums.mean()) and math.isfinite(grad_norm)):
            raise non_finite_error(step, sums.mean(), grad_norm, ledger.record_ids(step))
        apply_step(optimizer)
        seconds = time.monotonic() - step_started

        held_out = None
        if evaluator.num_records and (is_last or is_due(step, config.eval_every)):
            held_out = evaluator.run(model, world, config.micro_batch_packs)
        if monitor:
            if held_out:
                evaluator.write(out / "eval.json", held_out, step)
            monitor.end_step(step_metrics(step, sums, grad_norm, rate, inputs.order.slices, held_out), seconds)
            ledger.write_until(step)
        if is_last or is_due(step, config.save_every):
            progress = Progress(step, stop, inputs.run_digest)
            save_checkpoint(out / "checkpoints", progress, model, optimizer)
            if world.is_first:
                remove_old_checkpoints(out / "checkpoints", inputs.run_digest, config.keep_checkpoints)

    state = full_model_state(model)
    if monitor:
        export_model(model, state, config, Path(config.model), out / "model", inputs.chat.token_id("eos_token"))
        finish(out, inputs, config, time.monotonic() - started, world)
    dist.barrier()


def train_step(
    model: SupervisedModel,
    optimizer: torch.optim.Optimizer,
    batches: list[MicroBatch],
    rate: float,
    num_slices: int,
    config: TrainConfig,
    world: World,
) -> tuple[StepSums, float]:
    """Gradients of one step over this rank's micro-batches, clipped, not yet applied. Also the norm before clipping."""
    step_weight = sum_over_ranks(sum(float(batch.weights.sum(dtype="float64")) for batch in batches), world)
    sums = LossSums(num_slices, world.device)
    for batch in batches:
        arrays = (batch.ids, batch.positions, batch.chosen, batch.labels, batch.weights, batch.groups)
        ids, positions, chosen, labels, weights, groups = (torch.from_numpy(a).to(world.device) for a in arrays)
        losses = model(ids, positions, chosen, labels)
        # Divided by the weight of the whole step: accumulation, packing and world size do not change the gradient.
        ((losses * weights).sum() / step_weight).backward()
        sums.add(losses, weights, groups, batch.num_tokens, batch.num_supervised, batch.num_places)
    set_learning_rate(optimizer, rate)
    return sums.reduce(), clip_gradients(model, config.max_grad_norm)


def apply_step(optimizer: torch.optim.Optimizer) -> None:
    optimizer.step()
    optimizer.zero_grad()


def is_due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0


def resume(out: Path, inputs: Inputs, model: SupervisedModel, optimizer: torch.optim.Optimizer) -> Progress:
    """Load the newest complete checkpoint of this run, if there is one."""
    complete = find_checkpoints(out / "checkpoints", inputs.run_digest)
    if not complete:
        return Progress(0, 0, inputs.run_digest)
    load_checkpoint(out / "checkpoints", complete[-1], model, optimizer)
    return complete[-1]


def non_finite_error(step: int, loss: float, grad_norm: float, ids: list[str]) -> NonFiniteError:
    shown = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
    return NonFiniteError(
        f"step {step}: loss {loss} and gradient norm {grad_norm}; the step was not taken. Its records: {shown}",
        hint="look at these records, or lower learning_rate; the same command goes on from the last checkpoint",
    )


def step_metrics(
    step: int, sums: StepSums, grad_norm: float, rate: float, slices: list[str], held_out: EvalResult | None
) -> StepMetrics:
    return StepMetrics(
        step=step,
        loss=sums.mean(),
        slices={slices[index]: loss for index, loss in sums.means().items()},
        grad_norm=grad_norm,
        learning_rate=rate,
        tokens=sums.num_tokens,
        supervised_tokens=sums.num_supervised,
        padding=1 - sums.num_tokens / sums.num_places,
        validation_loss=held_out.mean() if held_out else None,
    )


# --- what a finished run leaves ------------------------------------------------------------------------------------


def finish(out: Path, inputs: Inputs, config: TrainConfig, seconds: float, world: World) -> None:
    """Write timing.json, and the manifest last: with it the run is complete."""
    timing = {
        "seconds": round(seconds, 3),
        "ranks": world.size,
        "device": world.device.type,
        "torch": torch.__version__,
    }
    write_atomic(out / "timing.json", json.dumps(timing, indent=1).encode() + b"\n")
    shutil.rmtree(out / "errors", ignore_errors=True)
    manifest = {
        "format": "curator.run",
        "schema_version": 1,
        "version": __version__,
        "train": config.to_json(),
        "digests": inputs.digests,
        "run": inputs.run_digest,
        "summary": summarise(out, inputs, config),
        "places": {"model": "model", "metrics": "metrics.jsonl", "ledger": "ledger", "checkpoints": "checkpoints"},
        "files": _files(out),
    }
    write_atomic(out / "manifest.json", json.dumps(manifest, indent=1, ensure_ascii=False).encode() + b"\n")


def summarise(out: Path, inputs: Inputs, config: TrainConfig) -> dict[str, Any]:
    """What a person wants to know of a run, from its own files."""
    metrics = read_metrics(out)
    positions, packed = inputs.order.num_positions, inputs.packs.table.num_rows
    return {
        "steps": len(metrics),
        "packs": inputs.packs.num_packs,
        "passes": round(config.num_packs_seen(inputs.packs.num_packs) / inputs.packs.num_packs, 4),
        "loss_first": metrics[0]["loss"],
        "loss_last": metrics[-1]["loss"],
        "validation_loss": metrics[-1].get("validation_loss"),
        "tokens": sum(line["tokens"] for line in metrics),
        "supervised_tokens": sum(line["supervised_tokens"] for line in metrics),
        "padding": 1 - int(inputs.packs.table.column("tokens").to_numpy().sum()) / _pack_places(inputs, config),
        "positions": positions,
        "positions_packed": packed,
        "dropped": inputs.tokens.dropped(TRAIN),
        "truncated": inputs.tokens.num_truncated,
    }


def _pack_places(inputs: Inputs, config: TrainConfig) -> int:
    return inputs.packs.num_packs * config.max_tokens


def _files(out: Path) -> list[Mapping[str, Any]]:
    """The files that a run is made of; checkpoints come and go, timing is nobody's promise."""
    skipped = ("timing.json", "timing.jsonl", "manifest.json")
    paths = [path for path in sorted(out.rglob("*")) if path.is_file() and path.name not in skipped]
    own = [path for path in paths if not any(part.startswith(".") for part in path.relative_to(out).parts)]
    return [
        {"path": str(path.relative_to(out)), "bytes": path.stat().st_size, "xxh3": digest_file(path)}
        for path in own
        if path.relative_to(out).parts[0] != "checkpoints"
    ]


def main() -> None:
    """Entry of a rank; the argument is `{"mixture", "out", "config"}` as JSON."""
    watch_parent()
    job = json.loads(sys.argv[1])
    with report_failures():
        train_rank(Path(job["mixture"]), TrainConfig.from_json(job["config"]), Path(job["out"]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
