"""What goes wrong and whose turn it is: one line for the person, and the next step."""


class CuratorError(Exception):
    """A failure that a person can act on. Shown as one line, with `hint` (the next step) on a second."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[type, tuple[str, str | None]]:
        # Errors cross process borders; the default would lose the hint.
        return type(self), (self.message, self.hint)


class NothingFoundError(CuratorError):
    """A path, folder or pattern leads to no file."""


class UsageError(CuratorError):
    """The command line, recipe or spec is wrong; nothing was started."""

    exit_code = 2


class PartialError(CuratorError):
    """Some shards are done and kept, some failed; the same command goes on from there."""

    exit_code = 3
