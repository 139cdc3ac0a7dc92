"""Raw rows to records: one adapter a file, chosen row by row from the names of the fields."""

from curator.io.adapters import alpaca, openai, pairs, preference, sharegpt, transcripts
from curator.io.adapters.base import Adapter

ADAPTERS: dict[str, Adapter] = {
    module.ADAPTER.name: module.ADAPTER for module in (openai, sharegpt, preference, transcripts, alpaca, pairs)
}
"""By name, in the order in which they are asked; the first that takes the fields has the row."""
