"""The README's commands run, in order, on sample_data; its recipe parses."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from curator.pipeline.recipe import load_recipe

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    for name in ("sample_data", "recipes"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def test_commands_run_in_order(workplace: Path) -> None:
    script = "set -euo pipefail\n" + "\n".join(blocks("sh"))
    # Steps are what the page shows; fewer of them say as much.
    script = script.replace("--set train.steps=10", "--set train.steps=2 --set train.eval_every=null")
    short = (ROOT / "recipes/train.yaml").read_text().replace("steps: 20", "steps: 3")
    (workplace / "short.yaml").write_text(short)
    script = script.replace("--config recipes/train.yaml", "--config short.yaml")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], cwd=workplace, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    assert (workplace / "d/run/model/model.safetensors").exists()
    assert (workplace / "d/short.arrow").stat().st_size > 0


def test_recipe_on_the_page_is_valid(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    (recipe,) = blocks("yaml")
    path = workplace / "page.yaml"
    path.write_text(recipe)
    loaded = load_recipe(path)
    assert [stage.name for stage in loaded.steps] == ["tag.signals", "tag.tokens", "dedup.exact", "filter.where"]


def test_every_recipe_loads(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    for name in ("quickstart", "real_mix"):
        assert load_recipe(Path(f"recipes/{name}.yaml"), ["root=somewhere"]).name == name
