"""Raw rows to records: one adapter a file, chosen row by row from the names of the fields."""

from curator.io.adapters import alpaca, openai, pairs, preference, sharegpt, transcripts
from curator.io.adapters.base import Adapter

ADAPTERS: dict[str, Adapter] = {
    module.ADAPTER.name: module.ADAPTER for module in (openai, sharegpt, preference, alpaca, pairs, transcripts)
}
"""By name, in the order in which they are asked; the first that takes the fields has the row. Transcripts come last:
many alpaca files carry the rendered prompt in `text` beside the fields."""
