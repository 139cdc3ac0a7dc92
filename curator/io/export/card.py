"""The card of a published dataset: a header that the hub reads, and for people what is in it and how it was made."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from curator import __version__
from curator.io.dataset import Dataset
from curator.schema.record import column_array

CARD = "README.md"
_SIZES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
# The hub's own names of licences that data comes under; any other is `other` with its name.
_LICENSE_NAMES = """
apache-2.0 mit openrail cc cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0
cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0
cdla-sharing-1.0 cdla-permissive-1.0 cdla-permissive-2.0 bsd bsd-2-clause bsd-3-clause agpl-3.0 gpl gpl-2.0 gpl-3.0
lgpl lgpl-2.1 lgpl-3.0 mpl-2.0 odc-by odbl pddl unlicense wtfpl gfdl llama2 llama3 llama3.1 llama3.2 llama3.3 gemma
unknown other
"""
_LICENSES = frozenset(_LICENSE_NAMES.split())


@dataclass
class Contents:
    """What the rows hold, counted while they are written."""

    kinds: Sequence[str]
    rows: dict[tuple[str, str], int] = field(default_factory=dict)
    """By kind and split."""
    sources: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By source and licence; the empty text stands for none."""
    languages: Counter[str] = field(default_factory=Counter)
    scored_by: dict[str, set[str]] = field(default_factory=dict)

    def count(self, batch: pa.RecordBatch) -> None:
        def values(path: str) -> Iterable[str]:
            return pc.fill_null(column_array(batch, path), "").to_pylist()

        self.sources.update(zip(values("metadata.source"), values("metadata.license"), strict=True))
        self.languages.update(values("metadata.language"))
        if batch.schema.get_field_index("scores") >= 0:
            for score in batch.schema.field("scores").type:
                by = column_array(batch, f"scores.{score.name}.by").unique().to_pylist()
                self.scored_by.setdefault(score.name, set()).update(name for name in by if name is not None)

    @property
    def licenses(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for (_, license_), rows in self.sources.items():
            counts[license_] += rows
        return dict(sorted(counts.items()))


def licenses_of(dataset: Dataset) -> dict[str, int]:
    """Records by licence; the empty text counts those without one."""
    counts: Counter[str] = Counter()
    for batch in dataset.batches(["metadata.license"]):
        counts.update(pc.fill_null(column_array(batch, "metadata.license"), "").to_pylist())
    return dict(counts)


def card_text(dataset: Dataset, contents: Contents, name: str) -> str:
    """The whole card. It is a function of the records and manifests alone, so the same folder gives the same card."""
    header = yaml.safe_dump(_header(contents, name), sort_keys=False, allow_unicode=True, width=1000)
    parts = [f"---\n{header}---\n\n# {_plain(name)}\n", _contents(contents), _columns(contents), _sources(contents)]
    parts.append(_how_made(dataset))
    return "\n".join(part for part in parts if part)


def _header(contents: Contents, name: str) -> dict[str, Any]:
    header: dict[str, Any] = {"pretty_name": name, **_license(contents.licenses)}
    if languages := _languages(contents.languages):
        header["language"] = languages
    header["size_categories"] = [size_category(sum(contents.rows.values()))]
    header["task_categories"] = ["text-generation"]
    header["tags"] = [*contents.kinds, "curator"]
    header["configs"] = [_config(contents, kind) for kind in contents.kinds]
    return header


def _license(licenses: Mapping[str, int]) -> dict[str, Any]:
    """One licence, `unknown` for none at all, `other` with the names for several or for one the hub does not know."""
    names = [name for name in licenses if name]
    if not names:
        return {"license": "unknown"}
    if len(licenses) == 1 and names[0].lower() in _LICENSES:
        return {"license": names[0].lower()}
    listed = [*names, *(["unknown"] if "" in licenses else [])]
    return {"license": "other", "license_name": "-".join(_slug(name) for name in listed), "licenses": listed}


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-") or "unnamed"


def _languages(counts: Counter[str]) -> list[str]:
    """ISO codes, the most frequent first; what is no such code is left out."""
    codes: Counter[str] = Counter()
    for value, rows in counts.items():
        if found := re.match(r"([a-z]{2,3})(?![a-z])", value.lower()):
            codes[found[1]] += rows
    return [
        code for code, _ in sorted(codes.items(), key=lambda item: (-item[1], item[0])) if code not in ("un", "und")
    ]


def size_category(num_rows: int) -> str:
    """The hub's name for this many rows: `n<1K`, `1K<n<10K`, ..."""
    for place, size in enumerate(_SIZES):
        if num_rows < 1000 * 10**place:
            return f"n<{size}" if place == 0 else f"{_SIZES[place - 1]}<n<{size}"
    return "n>1T"


def _config(contents: Contents, kind: str) -> dict[str, Any]:
    folder = f"data/{kind}" if len(contents.kinds) > 1 else "data"
    files = [{"split": split, "path": f"{folder}/{split}-*.parquet"} for split in ordered_splits(contents.rows, kind)]
    name = kind if len(contents.kinds) > 1 else "default"
    is_default = {"default": True} if kind == contents.kinds[0] and len(contents.kinds) > 1 else {}
    return {"config_name": name, **is_default, "data_files": files}


def ordered_splits(rows: Mapping[tuple[str, str], int], kind: str) -> list[str]:
    """Splits of a kind: train, validation, test, then others by name."""
    first = ("train", "validation", "test")
    splits = [split for of_kind, split in rows if of_kind == kind]
    return sorted(splits, key=lambda split: (first.index(split) if split in first else len(first), split))


# --- the text -----------------------------------------------------------------------------------------------------


def _plain(text: object) -> str:
    """Text that stays text in a Markdown line or table."""
    return re.sub(r"([\\|<>*_`\[\]])", r"\\\1", re.sub(r"\s+", " ", str(text))).strip()


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells = [head, ["---"] * len(head), *([_plain(cell) for cell in row] for row in rows)]
    return "".join("| " + " | ".join(row) + " |\n" for row in cells)


def _contents(contents: Contents) -> str:
    rows = [
        (kind, split, f"{contents.rows[kind, split]:,}")
        for kind in contents.kinds
        for split in ordered_splits(contents.rows, kind)
    ]
    several = len(contents.kinds) > 1
    call = f'load_dataset(PATH, "{contents.kinds[0]}")' if several else "load_dataset(PATH)"
    note = f"\nEvery kind is a config of its own: `{call}`.\n" if several else f"\n`{call}` reads it.\n"
    return "## Contents\n\n" + _table(("kind", "split", "records"), rows) + note


_MEANING = {
    "messages": "the conversation: role, content, and where a record has them reasoning_content, tool_calls, ...",
    "prompt, chosen, rejected": "of a preference: the turns before, and the two continuations",
    "tools, tool_calls, verifier.payload, extra": "JSON text exactly as it came, to be parsed with json.loads",
    "metadata": "source, licence and labels of the record",
    "id": "source, file and row that the record was read from",
}


def _columns(contents: Contents) -> str:
    is_shown = {"messages": any(kind != "preference" for kind in contents.kinds)}
    is_shown["prompt, chosen, rejected"] = "preference" in contents.kinds
    rows = [(name, meaning) for name, meaning in _MEANING.items() if is_shown.get(name, True)]
    text = "## Columns\n\n" + _table(("column", "meaning"), rows)
    if contents.scored_by:
        scores = [(name, ", ".join(sorted(by))) for name, by in sorted(contents.scored_by.items())]
        text += "\nScores, and what they were made by:\n\n" + _table(("score", "by"), scores)
    return text


def _sources(contents: Contents) -> str:
    rows = [
        (source or "(none)", license_ or "unknown", f"{count:,}")
        for (source, license_), count in sorted(contents.sources.items())
    ]
    return "## Sources\n\n" + _table(("source", "licence", "records"), rows)


def _how_made(dataset: Dataset) -> str:
    passes, removed, quarantined = [], Counter[str](), Counter[str]()
    for number, entry in enumerate(dataset.history(), 1):
        ledger = entry["ledger"]
        steps = " + ".join(f"{step['step']} {step.get('version', '')}".strip() for step in entry["steps"])
        settings = "; ".join(_settings(step.get("settings", {})) for step in entry["steps"])
        dropped, bad = sum(ledger["dropped"].values()), sum(ledger["quarantined"].values())
        counts = (f"{number:,}" for number in (ledger["read"], ledger["kept"], dropped, bad))
        passes.append((number, steps, settings, *counts))
        removed.update(ledger["dropped"])
        quarantined.update(ledger["quarantined"])
    text = "## How it was made\n\n" + _table(("", "pass", "settings", "read", "kept", "removed", "quarantined"), passes)
    if removed:
        text += "\nRemoved records by step and rule:\n\n" + _table(
            ("rule", "records"), ((rule, f"{count:,}") for rule, count in sorted(removed.items()))
        )
    if quarantined:
        text += "\nRaw rows that could not be read:\n\n" + _table(
            ("reason", "rows"), ((reason, f"{count:,}") for reason, count in sorted(quarantined.items()))
        )
    digests = ", ".join(f"`{manifest.digest}`" for manifest in dataset.manifests)
    return text + f"\nWritten by curator {__version__} from the folder with digest {digests}.\n"


def _settings(settings: Mapping[str, Any]) -> str:
    """Those that are set, as JSON text."""
    shown = {key: value for key, value in settings.items() if value not in (None, {}, [], "")}
    return json.dumps(shown, ensure_ascii=False) if shown else ""
