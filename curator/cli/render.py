"""What commands print: a small table for a person, one JSON object for a program."""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curator.pipeline.classifier import Trained
    from curator.pipeline.passes import Outcome
    from curator.pipeline.run import RunResult


def print_json(value: Any, to_stderr: bool = False) -> None:
    print(json.dumps(value, ensure_ascii=False), file=sys.stderr if to_stderr else sys.stdout)


def print_table(header: Sequence[str], rows: Sequence[Sequence[Any]], to_stderr: bool = False) -> None:
    """Plain columns, numbers to the right; readable without colour and in a narrow terminal."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(header, *cells, strict=True)]
    numeric = [
        bool(rows) and all(isinstance(row[i], int | float) or row[i] is None for row in rows)
        for i in range(len(header))
    ]
    out = sys.stderr if to_stderr else sys.stdout
    for line in [list(header), ["-" * width for width in widths], *cells]:
        texts = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        print("  ".join(texts).rstrip(), file=out)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}"
    return str(value)


def print_outcome(outcome: "Outcome", as_json: bool) -> None:
    """The account of one pass. In a pipe stdout carries records, so this goes to stderr."""
    in_pipe = str(outcome.out) == "-"
    if as_json:
        print_json(outcome.to_json(), to_stderr=in_pipe)
        return
    ledger = outcome.ledger
    rows: list[tuple[str, Any]] = [("read", ledger.read), ("kept", ledger.kept)]
    rows += [(f"dropped  {rule}", count) for rule, count in sorted(ledger.dropped.items())]
    rows += [(f"quarantined  {reason}", count) for reason, count in sorted(ledger.quarantined.items())]
    print_table((" + ".join(outcome.steps), "rows"), rows, to_stderr=in_pipe)
    if detected := outcome.notes.get("detected"):
        for line in _by_group(detected):
            print(line, file=sys.stderr if in_pipe else sys.stdout)
    if not in_pipe:
        done = "was complete, nothing to do" if outcome.reused else f"written in {outcome.seconds:.1f} s"
        print(f"{outcome.out} ({done})")
        if ledger.quarantined:
            print(f"bad rows with their bytes: curator show {outcome.out} --part quarantine")


_GROUPS = ("read as", "rows as", "turn issue", "control token", "repaired")


def _by_group(detected: dict[str, int]) -> list[str]:
    """Counts in one line a group, the commonest first: `rows as  alpaca 52,002, pairs 3`."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for name, count in detected.items():
        group = next((group for group in _GROUPS if name.startswith(f"{group} ")), "also")
        groups.setdefault(group, []).append((name.removeprefix(f"{group} "), count))
    width = max(map(len, groups))
    return [
        f"{group:{width}}  "
        + ", ".join(f"{name} {count:,}" for name, count in sorted(found, key=lambda item: -item[1]))
        for group in (*_GROUPS, "also")
        if (found := groups.get(group))
    ]


def print_training(trained: "Trained") -> None:
    """The figures of a classifier, each from rows that the judging model had not seen."""
    from curator.pipeline.classifier_card import CLASS_HEADER, class_rows, summary_rows

    card = trained.card
    print_table(CLASS_HEADER, class_rows(card["classes"]))
    print()
    print_table((f"{card['folds']}-fold cross-validation", ""), summary_rows(card))
    done = "was complete, nothing to do" if trained.reused else "written"
    print(f"{trained.out} ({done}); the card for people: {trained.out / 'README.md'}")


def print_mixture(mixture: dict[str, Any]) -> None:
    """Asked and realised shares of a mixture, its phases, and what is held out."""
    shares, unit = mixture["shares"], mixture["unit"]
    rows = [
        (
            share["slice"],
            f"{share['asked']:.2%}",
            f"{share['realised']:.2%}",
            share["rows"],
            share["records"],
            share["epochs"],
            share["supervised_tokens"],
        )
        for share in shares
    ]
    header = ("slice", "asked", "realised", "draws", "records", "epochs", "supervised tokens")
    print(f"shares in {unit.replace('_', ' ')}, by {' and '.join(mixture['slice_fields'])}:")
    print_table(header, rows)
    if len(mixture["phases"]) > 1:
        phases = (f"{phase['name']} {phase['first']:,} to {phase['last'] - 1:,}" for phase in mixture["phases"])
        print(f"positions of the phases: {', '.join(phases)}")
    records = mixture["records"]
    print(f"{records['train']:,} records to train on, {records['validation']:,} held out for validation")


def print_run(result: "RunResult") -> None:
    """The one table at the end of a recipe."""
    ledger = result.ledger()
    rows: list[tuple[str, Any]] = [("rows read", ledger.read)]
    rows += [(f"  {name}", outcome.ledger.read) for name, outcome in result.sources.items()]
    rows += [(f"quarantined  {reason}", count) for reason, count in sorted(ledger.quarantined.items())]
    rows += [(f"dropped  {rule}", count) for rule, count in sorted(ledger.dropped.items())]
    rows.append(("kept", ledger.kept))
    rows += _train_rows(result.train)
    print_table((result.name, ""), [(name, value if isinstance(value, str) else _cell(value)) for name, value in rows])
    print()
    places = [(name, str(outcome.out), outcome.reused) for name, outcome in result.sources.items()]
    places += [(" + ".join(outcome.steps), str(outcome.out), outcome.reused) for outcome in result.passes]
    print_table(("step", "folder", "was done already"), places)
    if (mixture := result.out / "mix" / "mixture.json").exists() and result.passes[-1].steps == ["mix"]:
        print()
        print_mixture(json.loads(mixture.read_bytes()))
        print()
    if result.train is not None:
        print(f"run: {result.train['out']}\nmodel: {result.train['model']}")
    print(f"{result.seconds:.1f} s")


def print_train(train: dict[str, Any]) -> None:
    """The summary of a run."""
    rows = [(name, value if isinstance(value, str) else _cell(value)) for name, value in _train_rows(train)]
    print_table(("train", ""), rows)
    print(f"run: {train['out']}\nmodel: {train['model']}")


def _train_rows(train: dict[str, Any] | None) -> list[tuple[str, Any]]:
    if train is None:
        return []
    return [
        ("supervised tokens trained on", train["supervised_tokens"]),
        ("steps", train["steps"]),
        *([("passes over the mixture", f"{train['passes']:.2f}")] if "passes" in train else []),
        ("loss, first step", f"{train['loss_first']:.4f}"),
        ("loss, last step", f"{train['loss_last']:.4f}"),
        *([("validation loss", f"{train['validation_loss']:.4f}")] if train.get("validation_loss") is not None else []),
        *((f"not trained on  {reason}", count) for reason, count in sorted(train.get("dropped", {}).items())),
    ]
