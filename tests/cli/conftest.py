"""A workplace in which the examples of the help texts have been run, and a small dataset in several shards."""

import re
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from cli_helpers import SLOW, Done, commands, curator, curator_line, examples

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sample_data and recipes, as a clone has them; recipes do not train."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "sample_data").symlink_to(ROOT / "sample_data")
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    quickstart = folder / "recipes/quickstart.yaml"
    quickstart.write_text(re.sub(r"^train:\n(?: .*\n)+", "", quickstart.read_text(), flags=re.MULTILINE))
    short = folder / "recipes/train.yaml"
    short.write_text(re.sub(r"^steps: \d+$", "steps: 2", short.read_text(), flags=re.MULTILINE))
    return folder


@pytest.fixture(scope="session")
def example_runs(workplace: Path) -> dict[str, Done]:
    """What each command's example did, pasted one after the other."""
    with chdir(workplace):
        return {
            name: curator_line(line) for name, command in commands() if name not in SLOW for line in examples(command)
        }


@pytest.fixture
def at_work(workplace: Path, example_runs: dict[str, Done]) -> Iterator[Path]:
    """The workplace as working directory, with what the examples left there: d/tutor to d/mix, work/quickstart."""
    with chdir(workplace):
        yield workplace


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `raw.jsonl` (60 rows), and `d`, the same in several shards."""
    folder = tmp_path_factory.mktemp("small")
    rows = [
        f'{{"instruction": "Say {index} in words.", "input": "", "output": "{"word " * (index % 7 + 1)}{index}"}}'
        for index in range(60)
    ]
    (folder / "raw.jsonl").write_text("\n".join(rows) + "\n")
    done = curator("ingest", folder / "raw.jsonl", "--shard-bytes", 1300, "--out", folder / "d")
    assert done.code == 0, done.err
    assert len(list((folder / "d/data").iterdir())) > 3
    return folder
