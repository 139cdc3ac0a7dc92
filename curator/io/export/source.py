"""The form each record came in, for every family that can be restored."""

from curator.io.export.base import Target

TARGET = Target("source", "the form that each record came in", None, None)
