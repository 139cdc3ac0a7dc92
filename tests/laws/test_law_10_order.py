"""Law 10, order: the order of records is a function of mixture, seed and phases alone."""
