"""The account of a run: which records each step saw, a function of the pack table that can be asked at any time."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curator.train.config import TrainConfig
from curator.train.inputs import Inputs

STEPS_PER_FILE = 100

LEDGER_SCHEMA = pa.schema(
    [
        ("step", pa.int32()),
        ("pack", pa.int64()),
        ("row", pa.int64()),
        ("id", pa.string()),
        ("epoch", pa.int32()),
        ("slice", pa.string()),
        ("tokens", pa.int32()),
        ("supervised_tokens", pa.int32()),
    ]
)
"""`pack` counts through the run; `epoch` counts how often the record came before, over all passes of the order."""


class Ledger:
    """Lists the records of any step, and writes them in files of `STEPS_PER_FILE` steps."""

    def __init__(self, out: Path, inputs: Inputs, config: TrainConfig) -> None:
        self._folder = out / "ledger"
        self._packs, self._tokens, self._slices = inputs.packs, inputs.tokens, inputs.order.slices
        self._config = config
        self._num_steps = config.num_steps(self._packs.num_packs)
        self._epochs_a_pass = int(self._packs.table.column("epoch").to_numpy().max(initial=-1)) + 1

    def pack_range(self, step: int) -> tuple[int, int]:
        """Packs [first, stop) of the step numbered from 1, counted through the run."""
        first = (step - 1) * self._config.packs_per_step
        return first, min(first + self._config.packs_per_step, self._config.num_packs_seen(self._packs.num_packs))

    def records(self, step: int) -> pa.Table:
        """The records of a step, before, during or after the run."""
        return pa.concat_tables([LEDGER_SCHEMA.empty_table(), *self._pass_tables(step)])

    def record_ids(self, step: int) -> list[str]:
        return self.records(step).column("id").to_pylist()

    def write_until(self, step: int) -> None:
        """Write the files that end at `step`; on the last step, also the file that is not full."""
        if step % STEPS_PER_FILE == 0 or step == self._num_steps:
            first = (step - 1) // STEPS_PER_FILE * STEPS_PER_FILE + 1
            table = pa.concat_tables([self.records(number) for number in range(first, step + 1)])
            self._folder.mkdir(exist_ok=True)
            path = self._folder / f"steps-{first:06d}-{step:06d}.parquet"
            temporary = path.with_name(f".tmp-{path.name}")
            pq.write_table(table.combine_chunks(), temporary, compression="zstd")
            temporary.rename(path)

    def _pass_tables(self, step: int) -> Iterator[pa.Table]:
        """The records of a step, cut where the order begins again."""
        first, stop = self.pack_range(step)
        while first < stop:
            number, place = divmod(first, self._packs.num_packs)
            count = min(stop - first, self._packs.num_packs - place)
            entries = self._packs.entries(place, place + count)
            columns = {
                "step": np.full(len(entries.row), step),
                "pack": entries.pack.astype(np.int64) + number * self._packs.num_packs,
                "row": entries.row,
                "id": self._tokens.record_ids(entries.row),
                "epoch": entries.epoch + number * self._epochs_a_pass,
                "slice": [self._slices[index] for index in entries.slice.tolist()],
                "tokens": entries.tokens,
                "supervised_tokens": self._tokens.supervised[entries.row],
            }
            yield pa.table({field.name: pa.array(columns[field.name], field.type) for field in LEDGER_SCHEMA})
            first += count


def read_ledger(out: Path) -> pa.Table:
    """The ledger of a run, in the order of its steps."""
    paths = sorted((out / "ledger").glob("*.parquet"))
    return pa.concat_tables([LEDGER_SCHEMA.empty_table(), *(pq.read_table(path) for path in paths)])
