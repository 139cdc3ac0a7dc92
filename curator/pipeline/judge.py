"""Whether a source is sound enough to go on with: too many bad rows, rows of unclear format, or none at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from curator.errors import CuratorError
from curator.io.adapters import UNCLEAR
from curator.io.build import SourceSettings
from curator.io.dataset import Shard
from curator.io.gate import Gate, wide_enough
from curator.io.manifest import Ledger, TaskResult, total_ledger
from curator.schema.record import QUARANTINE_SCHEMA

_SHOWN_REASONS = 4


@dataclass
class FirstBad:
    """The first bad row of a source, and the first of unclear format, as rows of the quarantine."""

    row: dict[str, Any] | None = None
    unclear: dict[str, Any] | None = None

    def look(self, bad: pa.RecordBatch) -> None:
        """Quarantined rows in order."""
        if self.row is None and bad.num_rows:
            self.row = bad.slice(0, 1).to_pylist()[0]
        if self.unclear is None:
            found = pc.indices_nonzero(pc.starts_with(bad.column("reason"), f"{UNCLEAR}:"))
            if len(found):
                self.unclear = bad.slice(found[0].as_py(), 1).to_pylist()[0]


def judge_tasks(results: Sequence[TaskResult], source: SourceSettings, out: Path) -> None:
    """Raise CuratorError when what these tasks read is not sound. Their files stay, so that nothing is read twice."""
    ledger = total_ledger(results)
    first = FirstBad()
    for result in results:
        seeks_unclear = first.unclear is None and UNCLEAR in result.ledger.quarantined
        if first.row is None or seeks_unclear:
            for entry in result.quarantine:
                for batch in Shard(out / entry.path, entry.rows, 0).batches(QUARANTINE_SCHEMA):
                    first.look(batch)
    judge(ledger, first, source, f"they are in {out / 'quarantine'} with their bytes")


def judge(ledger: Ledger, first: FirstBad, source: SourceSettings, where: str) -> None:
    """Raise CuratorError when the account is not sound; `where` says where the bad rows are."""
    if not ledger.read and not source.allow_empty:
        raise CuratorError(
            f"source {source.name}: no rows at all",
            hint="--allow-empty (in a recipe allow_empty: true) takes it for empty",
        )
    bad = sum(ledger.quarantined.values())
    if not bad:
        return
    gate = Gate.parse(source.max_quarantine)
    unclear = ledger.quarantined.get(UNCLEAR, 0)
    if first.unclear is not None and (unclear == ledger.read or not gate.allows_unclear(unclear, ledger.read)):
        raise CuratorError(
            f"source {source.name}: {unclear:,} of {ledger.read:,} rows can be read in two ways; "
            f"{_place(first.unclear)} as {first.unclear['reason'].removeprefix(f'{UNCLEAR}: ')}",
            hint=f"--adapter NAME decides, or --map; {_beginning(first.unclear)}",
        )
    assert first.row is not None
    if not ledger.kept:
        raise CuratorError(
            f"source {source.name}: none of {ledger.read:,} rows could be read; {_place(first.row)}: "
            f"{first.row['reason']}",
            hint=f"{_beginning(first.row)}",
        )
    if not gate.allows(bad, ledger.read):
        raise CuratorError(
            f"source {source.name}: {bad:,} of {ledger.read:,} rows are quarantined, more than {gate}: "
            f"{_commonest(ledger)}; the first is {_place(first.row)}: {first.row['reason']}",
            hint=f"{where}; --max-quarantine {wide_enough(bad, ledger.read)} (in a recipe max_quarantine) "
            "goes on without them",
        )


def _place(row: dict[str, Any]) -> str:
    return f"row {row['row']} of {row['file']}"


def _beginning(row: dict[str, Any]) -> str:
    return f"the row begins: {row['raw'][:200].decode(errors='replace')}"


def _commonest(ledger: Ledger) -> str:
    reasons = sorted(ledger.quarantined.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{reason} {count:,}" for reason, count in reasons[:_SHOWN_REASONS])
    return shown + (", ..." if len(reasons) > _SHOWN_REASONS else "")
