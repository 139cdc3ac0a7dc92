"""Law 7, hard text goes everywhere, and what Arrow cannot hold is quarantined with its bytes."""
