"""The hub on loopback: datasets as sources, pinned to a commit; exported folders pushed and read back."""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.hub import Hub, hub_server, sha

from curator.errors import CuratorError, UsageError
from curator.io import remote
from curator.io.build import SourceSettings
from curator.io.dataset import Dataset
from curator.io.hub import split_url
from curator.io.raw import expand
from curator.pipeline.ingest import ingest
from curator.pipeline.passes import Options
from curator.pipeline.publish import publish

pytest.importorskip("huggingface_hub")
# The library's own way of sending a file.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content:DeprecationWarning")

ONE = Options(workers=1)
REPOSITORY = "someone/chats"


def rows(count: int, word: str = "row") -> bytes:
    lines = [json.dumps({"instruction": f"{word} {number}?", "output": f"é {number}"}) for number in range(count)]
    return "".join(line + "\n" for line in lines).encode()


FILES = {
    "README.md": b"---\nlicense: mit\n---\nA dataset.\n",
    ".gitattributes": b"*.gz filter=lfs\n",
    "train.jsonl": rows(20),
    "more/a.jsonl.gz": gzip.compress(rows(30, "packed"), mtime=0),
    "more/b c#.jsonl": rows(2, "odd"),
    "more/deep/d.jsonl": rows(1, "deep"),
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    for name in list(os.environ):
        if name.startswith("HF_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(remote, "FIRST_WAIT_SECONDS", 0.01)
    # The newer way of storing files is a service of its own; large files go the older way here.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_PROGRESS_BARS", True)
    with hub_server() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        server.commit(REPOSITORY, dict(FILES))
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        (tmp_path / "raw" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "raw" / name).write_bytes(data)
    return tmp_path / "raw"


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "timing.json"
    }


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("hf://datasets/o/n", ("o/n", None, "")),
        ("hf://datasets/o/n/", ("o/n", None, "")),
        ("hf://datasets/o/n@v1.0/a/*.jsonl", ("o/n", "v1.0", "a/*.jsonl")),
        ("hf://datasets/o/n@refs/convert/parquet/a.parquet", ("o/n", "refs/convert/parquet", "a.parquet")),
        ("hf://datasets/o/n@refs%2Fpr%2F3/a", ("o/n", "refs/pr/3", "a")),
    ],
)
def test_url_parts(url: str, parts: tuple[str, str | None, str]) -> None:
    assert split_url(url) == parts


@pytest.mark.parametrize("name", ["", "more", "*.jsonl", "more/**/*.jsonl*", "train.jsonl", "more/b c#.jsonl"])
def test_the_hub_gives_the_same_bytes_as_a_folder(hub: Hub, folder: Path, tmp_path: Path, name: str) -> None:
    ingest([str(folder / name)], SourceSettings("x"), tmp_path / "local", ONE)
    ingest([f"hf://datasets/{REPOSITORY}/{name}"], SourceSettings("x"), tmp_path / "remote", ONE)
    assert contents(tmp_path / "remote") == contents(tmp_path / "local")


def test_a_revision_is_pinned_when_it_is_found(hub: Hub, tmp_path: Path) -> None:
    first = sha(0)
    hub.commit(REPOSITORY, {"train.jsonl": rows(5, "newer")})
    found, _ = expand([f"hf://datasets/{REPOSITORY}@{first}/train.jsonl"])
    assert found == [(f"hf://datasets/{REPOSITORY}@{first}/train.jsonl", "train.jsonl")]
    ingest([f"hf://datasets/{REPOSITORY}@{first}/train.jsonl"], SourceSettings("x"), tmp_path / "old", ONE)
    ingest([f"hf://datasets/{REPOSITORY}/train.jsonl"], SourceSettings("x"), tmp_path / "new", ONE)
    assert [Dataset.open(tmp_path / name).num_rows for name in ("old", "new")] == [20, 5]
    assert sha(1) in json.loads((tmp_path / "new/timing.json").read_bytes())["inputs"][0]


def test_a_cut_body_is_fetched_on(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.hf_file_system.http_backoff", _without_retries)
    hub.cut += ["train.jsonl"] * 2
    ingest([f"hf://datasets/{REPOSITORY}/train.jsonl"], SourceSettings("x"), tmp_path / "x", ONE)
    assert hub.cut == [] and Dataset.open(tmp_path / "x").num_rows == 20


def _without_retries(method: str, url: str, **options: object) -> object:
    from huggingface_hub.utils import get_session

    return get_session().request(method, url, **options)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("hf://datasets/someone/nothing/a.jsonl", "no such dataset, or it is private"),
        (f"hf://datasets/{REPOSITORY}@v9/a.jsonl", "no such revision"),
        (f"hf://datasets/{REPOSITORY}/nothing.jsonl", "no such object"),
        (f"hf://datasets/{REPOSITORY}/*.parquet", "no file matches"),
    ],
)
def test_what_is_not_there_is_said(hub: Hub, url: str, words: str) -> None:
    with pytest.raises(CuratorError, match=words) as caught:
        expand([url])
    assert caught.value.hint and "\n" not in caught.value.message


# --- pushing ------------------------------------------------------------------------------------------------------


@pytest.fixture
def records(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_bytes(rows(40))
    ingest([str(tmp_path / "rows.jsonl")], SourceSettings("x", license="mit"), tmp_path / "d", ONE)
    return tmp_path / "d"


def test_what_is_pushed_is_what_was_exported(
    hub: Hub, records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "good")
    hub.commit("someone/new", {"data/old-00000.parquet": b"old", "NOTES.md": b"mine"})
    written = publish(str(records), tmp_path / "hf", False, "someone/new")
    assert written.url == f"{hub.endpoint}/datasets/someone/new"
    local = contents(tmp_path / "hf")
    assert hub.head("someone/new") == {**local, "NOTES.md": b"mine"}
    # Once more: nothing changed, nothing is committed.
    commits = len(hub.repositories["someone/new"])
    publish(str(records), tmp_path / "hf", True, "someone/new")
    assert hub.head("someone/new") == {**local, "NOTES.md": b"mine"}
    assert len(hub.repositories["someone/new"]) == commits

    ingest(["hf://datasets/someone/new/data"], SourceSettings("y"), tmp_path / "back", ONE)
    assert Dataset.open(tmp_path / "back").num_rows == 40


def test_a_new_repository_is_private(hub: Hub, records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "good")
    publish(str(records), tmp_path / "hf", False, "org/fresh")
    assert "org/fresh" in hub.private and "README.md" in hub.head("org/fresh")


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (None, "needs a token"),
        ("nobody", "token is not accepted"),
        ("reader", "may not write"),
    ],
)
def test_a_push_that_may_not_be_is_refused(
    hub: Hub, records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str | None, words: str
) -> None:
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(CuratorError, match=words) as caught:
        publish(str(records), tmp_path / "hf", False, "someone/new")
    assert caught.value.hint and "HF_TOKEN" in caught.value.hint
    assert "someone/new" not in hub.repositories
    assert (tmp_path / "hf").exists() is (token is not None)


def test_records_without_a_licence_are_not_pushed_unless_told(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "good")
    (tmp_path / "rows.jsonl").write_bytes(rows(4))
    ingest([str(tmp_path / "rows.jsonl")], SourceSettings("x"), tmp_path / "d", ONE)
    with pytest.raises(CuratorError, match="4 of 4 records have no known licence"):
        publish(str(tmp_path / "d"), tmp_path / "hf", False, "someone/new")
    assert not (tmp_path / "hf").exists()
    publish(str(tmp_path / "d"), tmp_path / "hf", False, "someone/new", any_license=True)
    assert b"license: unknown" in hub.head("someone/new")["README.md"]


def test_a_name_without_an_owner_is_refused(records: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names no dataset"):
        publish(str(records), tmp_path / "hf", False, "new")
