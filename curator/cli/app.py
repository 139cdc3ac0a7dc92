"""The door: commands are put together here, and errors become one line and an exit code."""

import os
import signal
import sys
from typing import Annotated, Any

import typer

from curator import __version__, log
from curator.cli import (
    check,
    classify,
    concat,
    dedup,
    export,
    filter,
    ingest,
    mix,
    order,
    run,
    sample,
    show,
    stats,
    tag,
    train,
    why,
)
from curator.errors import CuratorError, UsageError

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Turn piles of instruction data into the mixture that makes a model good, and train on it.",
)
for module, name in (
    (ingest, None),
    (tag, "tag"),
    (classify, "classify"),
    (dedup, "dedup"),
    (filter, "filter"),
    (mix, None),
    (order, None),
    (train, None),
    (run, None),
    (show, None),
    (why, None),
    (stats, None),
    (check, None),
    (export, None),
    (concat, None),
    (sample, None),
):
    app.add_typer(module.app, name=name)


# Typer brings its own copy of click or uses the installed one; its public errors lead to the base class of either.
_CommandLineError: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"curator {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line and exit: 0 ok, 1 failure, 2 usage, 3 partial, 130 interrupted."""
    # A polite kill and a closed terminal are Ctrl-C: workers end, whole shards stay.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    # Arrow's own allocator gives memory back to the system after each batch and asks for it again, page by page.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    sys.exit(run_app(sys.argv[1:]))


def run_app(arguments: list[str]) -> int:
    """The exit code of one command line; errors are printed here and nowhere else."""
    try:
        result = app(arguments, prog_name="curator", standalone_mode=False)
        sys.stdout.flush()
        if result == 130:  # typer's own answer to Ctrl-C
            return _interrupted()
        return result if isinstance(result, int) else 0
    except CuratorError as error:
        return _fail(error)
    except (typer.Abort, KeyboardInterrupt):
        return _interrupted()
    except _CommandLineError as error:
        # Without arguments the message is the help itself.
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            return error.exit_code
        context = getattr(error, "ctx", None)
        text = error.format_message().rstrip(".")
        help_command = f"{context.command_path if context else 'curator'} --help"
        return _fail(UsageError(text[:1].lower() + text[1:], hint=help_command))
    except BrokenPipeError:
        # The reader has gone (head, less); nothing more to say, and Python must not say it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        from curator.engine.local import disk_error

        return _fail(disk_error(error))


def _fail(error: CuratorError) -> int:
    # Both may quote the data.
    print(f"error: {log.printable(error.message)}", file=sys.stderr)
    if error.hint:
        print(f"hint: {log.printable(error.hint)}", file=sys.stderr)
    return error.exit_code


def _interrupted() -> int:
    print("interrupted: what was finished is kept; the same command goes on from there", file=sys.stderr)
    return 130


if __name__ == "__main__":
    main()
