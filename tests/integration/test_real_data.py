"""The real mixture, from files to order: what is read is what an independent reader counts."""

import contextlib
import gzip
import io
import json
from pathlib import Path

import pytest
import yaml
from kill_helpers import run

from curator.cli.app import run_app
from curator.io.dataset import Dataset

ROOT = Path(__file__).parents[2]


def count_rows(path: Path) -> int:
    """Elements of a JSON array, or lines that are not blank."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if data.lstrip()[:1] == b"[":
        return len(json.loads(data))
    return sum(1 for line in data.split(b"\n") if line.strip())


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_real_mixture_reads_every_row(real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    recipe = ROOT / "recipes/real_mix.yaml"
    out = io.TextIOWrapper(io.BytesIO())
    line = ["run", str(recipe), "--set", f"root={real_data}", "--set", "train=null", "--out", str(tmp_path), "--json"]
    with contextlib.redirect_stdout(out):
        assert run_app(line) == 0
        out.flush()
    report = json.loads(out.buffer.getvalue())

    expected = {}
    for source in yaml.safe_load(recipe.read_text())["sources"]:
        paths = [source["path"]] if isinstance(source["path"], str) else source["path"]
        expected[source["name"]] = sum(count_rows(file) for path in paths for file in real_data.glob(path))
    assert {name: entry["read"] for name, entry in report["sources"].items()} == expected
    assert report["read"] == sum(expected.values()) > 50_000
    assert report["read"] == report["kept"] + sum(report["dropped"].values()) + report["quarantined"]
    for name in expected:
        ids = [
            id_
            for batch in Dataset.open(tmp_path / "sources" / name).batches(["id"])
            for id_ in batch["id"].to_pylist()
        ]
        assert len(set(ids)) == len(ids) == report["sources"][name]["kept"]
    run("check", tmp_path)
    mixture = json.loads((tmp_path / "mix/mixture.json").read_bytes())
    for share in mixture["shares"]:
        assert share["realised"] == pytest.approx(share["asked"], abs=0.01), share["slice"]
