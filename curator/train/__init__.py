"""A mixture becomes a checkpoint: tokens, packs, sharded steps, ledger, export. Reads folders, never the pipeline."""
