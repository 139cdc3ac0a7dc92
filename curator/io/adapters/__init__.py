"""Raw rows to records: one adapter a file, chosen row by row from the names of the fields."""

from curator.io.adapters import alpaca, bfcl, oasst, openai, pairs, preference, sharegpt, transcripts
from curator.io.adapters.base import Adapter

ADAPTERS: dict[str, Adapter] = {
    adapter.name: adapter
    for adapter in (
        openai.ADAPTER,
        sharegpt.ADAPTER,
        preference.ADAPTER,
        oasst.TREES,
        oasst.TABLES,
        bfcl.ADAPTER,
        alpaca.ADAPTER,
        pairs.ADAPTER,
        transcripts.ADAPTER,
    )
}
"""By name, in the order in which they are asked; the first that takes the fields has the row. Transcripts come last:
many alpaca files carry the rendered prompt in `text` beside the fields."""
