"""curator stats"""

import typer

from curator.cli.options import Folder, Json

app = typer.Typer()


@app.command("stats")
def stats_command(folder: Folder, json: Json = False) -> None:
    """Say what is in a folder: tags with counts, scores with coverage and spread, the last step's account.

    Example: curator stats d/clean
    """
    from curator.cli.render import print_json, print_table
    from curator.io.dataset import Dataset
    from curator.pipeline.inspect.stats import dataset_stats

    stats = dataset_stats(Dataset.open(folder))
    if json:
        print_json(stats)
        return
    print(
        f"{stats['rows']:,} records in {stats['shards']} shards, {stats['bytes']:,} bytes; {' > '.join(stats['steps'])}"
    )
    print()
    tags = [(name, value, count) for name, values in stats["tags"].items() for value, count in values.items()]
    print_table(("tag", "value", "records"), tags)
    if stats["scores"]:
        print()
        columns = ("mean", "min", "p05", "median", "p95", "max")
        rows = [
            (
                name,
                f"{score['coverage']:.1%}" if score["coverage"] is not None else "-",
                *(score.get(key) for key in columns),
            )
            for name, score in stats["scores"].items()
        ]
        print_table(("score", "coverage", *columns), rows)
