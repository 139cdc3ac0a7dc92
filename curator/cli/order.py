"""curator order"""

from typing import Annotated

import typer

from curator.cli.options import Folder, Json

app = typer.Typer()


@app.command("order")
def order_command(
    folder: Folder,
    at: Annotated[int, typer.Option(help="First position, from 0.")] = 0,
    show: Annotated[int, typer.Option(help="How many positions.")] = 20,
    json: Json = False,
) -> None:
    """List the records at any position of a mixture's order.

    Example: curator order d/mix --at 100 --show 5
    """
    from curator.cli.render import print_json, print_table
    from curator.pipeline.inspect.order import order_lines

    lines = order_lines(folder, at, show)
    if json:
        print_json(lines)
    else:
        header = ("position", "phase", "slice", "epoch", "id", "prompt")
        print_table(header, [tuple(line[name] for name in header) for line in lines])
