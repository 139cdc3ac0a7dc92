"""Optional libraries behind one door, with the extra to install in the message."""

import importlib
from types import ModuleType

from curator.errors import CuratorError


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, or say which extra of the distribution brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise CuratorError(
            f"this needs {error.name or module}, which is not installed",
            hint=f"pip install 'sft-curator[{extra}]'",
        ) from None
