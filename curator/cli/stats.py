"""curator stats"""

import typer

from curator.cli.options import Input, Json

app = typer.Typer()


@app.command("stats")
def stats_command(folder: Input, json: Json = False) -> None:
    """Say what is in a folder: tags with counts, scores with coverage and spread, the last step's account.

    Example: curator stats d/clean
    """
    from curator.cli.render import print_json, print_table
    from curator.io.dataset import Dataset
    from curator.pipeline.inspect.stats import dataset_stats
    from curator.pipeline.pipes import as_folders

    with as_folders([folder]) as folders:
        stats = dataset_stats(Dataset.open(*folders))
    if json:
        print_json(stats)
        return
    steps = " > ".join(_once(stats["steps"]))
    print(f"{stats['rows']:,} records, {stats['shards']} shards, {stats['bytes']:,} bytes; {steps}")
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
                f"{score['mean']:.1%}" if score["is_flag"] and "mean" in score else score.get("mean"),
                *(score.get(key) for key in columns[1:]),
            )
            for name, score in stats["scores"].items()
        ]
        print_table(("score", "coverage", *columns), rows)


def _once(steps: list[str]) -> list[str]:
    """Steps in order, neighbours that are equal (one ingest a source) as one with their number."""
    runs: list[tuple[str, int]] = []
    for step in steps:
        if runs and runs[-1][0] == step:
            runs[-1] = (step, runs[-1][1] + 1)
        else:
            runs.append((step, 1))
    return [step if count == 1 else f"{step} ({count} times)" for step, count in runs]
