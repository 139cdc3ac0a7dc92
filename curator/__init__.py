"""Turn piles of instruction data into the mixture that makes a model good, and train on it."""

__version__ = "0.1.0"
