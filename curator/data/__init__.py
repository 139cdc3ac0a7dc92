"""The small models that ship, each in a folder with its card."""
