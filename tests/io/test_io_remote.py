"""Files on stores: the same rows, ids and bytes as from a local folder; failures that pass, and those that do not."""

import gzip
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.buckets import Bucket, gcs_server, harming_process, harming_proxy, request, s3_server

from curator.errors import CuratorError, UsageError
from curator.io import remote, stores
from curator.io.build import SourceSettings
from curator.io.dataset import Dataset
from curator.io.raw import expand
from curator.pipeline.ingest import ingest
from curator.pipeline.passes import Options
from curator.pipeline.pipes import ingest_to_stream
from curator.pipeline.recipe import Recipe, Source
from curator.pipeline.run import check_recipe, run_recipe, what_would_run

ONE = Options(workers=1)


def rows(count: int, word: str = "row") -> bytes:
    lines = [json.dumps({"instruction": f"{word} {number}?", "output": f"é {number}"}) for number in range(count)]
    return "".join(line + "\n" for line in lines).encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Raw files as they lie about: nested, packed, hidden, with a licence text and odd names."""
    root = tmp_path_factory.mktemp("raw")
    for name, data in {
        "a.jsonl": rows(50),
        "b.jsonl.gz": gzip.compress(rows(40, "packed"), mtime=0),
        "deep/c 100% #1.jsonl": rows(3, "odd"),
        "deep/deeper/d.json": json.dumps([{"prompt": "p", "completion": "c"}]).encode(),
        "deep/e.txt": rows(2, "text named"),
        "LICENSE": b"Free to use.\n",
        ".hidden.jsonl": rows(1),
        "_state/f.jsonl": rows(1),
        "empty.jsonl": b"",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def gs() -> Iterator[str]:
    with gcs_server() as endpoint:
        yield endpoint


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Only what a test says; no look for credentials leaves this machine."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GS_", "GOOGLE_", "STORAGE_", "HF_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setattr(remote, "FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(stores, "GCS_RETRY_SECONDS", 1)
    monkeypatch.setattr(stores, "S3_ATTEMPTS", 1)
    return monkeypatch


# The proxy lives in this process, and Google's client in Arrow holds up other threads in some calls.
through_proxy = pytest.mark.parametrize("bucket", ["s3"], indirect=True)

_names = (f"bucket-{number}" for number in itertools.count())


@pytest.fixture(params=["s3", "gs"])
def bucket(request: pytest.FixtureRequest, environment: pytest.MonkeyPatch, folder: Path) -> Bucket:
    """A new bucket on each kind of server, holding the folder under `data/`."""
    bucket = Bucket(request.param, request.getfixturevalue(request.param), next(_names))
    use(environment, bucket, bucket.endpoint)
    bucket.put_folder(folder, "data/")
    return bucket


def use(environment: pytest.MonkeyPatch, bucket: Bucket, endpoint: str) -> None:
    environment.setenv("AWS_ENDPOINT_URL" if bucket.scheme == "s3" else "STORAGE_EMULATOR_HOST", endpoint)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "timing.json"
    }


# --- finding ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        [""],
        ["deep"],
        ["deep/"],
        ["*.jsonl"],
        ["**/*.jsonl*"],
        ["deep/*/*.json"],
        ["d*/**"],
        ["[ab].*"],
        ["a.jsonl"],
        ["a.jsonl", "deep/deeper/d.json"],
        ["deep/deeper/d.json", "deep/e.txt"],
        ["deep/c 100% #1.jsonl"],
        [".hidden.jsonl"],
        [".*"],
    ],
)
def test_finds_what_a_local_folder_has(bucket: Bucket, folder: Path, names: list[str]) -> None:
    def relative(places: list[str]) -> object:
        try:
            return [name for _, name in expand(places)[0]]
        except CuratorError as error:
            return type(error)

    assert relative([bucket.url(f"data/{name}") for name in names]) == relative([str(folder / name) for name in names])


@pytest.mark.parametrize(
    ("path", "glob", "matches"),
    [
        ("a/b.jsonl", "*/*.jsonl", True),
        ("a/b.jsonl", "*.jsonl", False),
        ("b.jsonl", "**/*.jsonl", True),
        ("a/c/b.jsonl", "**/*.jsonl", True),
        ("a/.c/b.jsonl", "**/*.jsonl", False),
        (".a.jsonl", "*.jsonl", False),
        (".a.jsonl", ".*.jsonl", True),
        ("a/b", "a/**", True),
        ("a", "a/**/b", False),
        ("x[1].json", "x[[]1].json", True),
        ("a/b/c", "a/**/b/**/c", True),
    ],
)
def test_glob_is_that_of_python(path: str, glob: str, matches: bool, tmp_path: Path) -> None:
    import glob as python

    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).touch()
    assert (str(tmp_path / path) in python.glob(f"{tmp_path}/{glob}", recursive=True)) is matches
    assert remote.matches_glob(path.split("/"), glob.split("/")) is matches


@pytest.mark.parametrize(
    ("url", "error", "words"),
    [
        ("https://example.org/a.jsonl", UsageError, "plain web addresses"),
        ("ftp://example.org/a.jsonl", UsageError, "ftp:// is not read"),
        ("s3:///a.jsonl", UsageError, "names no bucket"),
        ("hf://someone/model/a.jsonl", UsageError, "names no dataset"),
    ],
)
def test_other_addresses_are_refused(url: str, error: type[CuratorError], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        expand([url])
    assert caught.value.hint and "s3://" in caught.value.hint or "hf://datasets/" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("data/nothing.jsonl", "no such object"),
        ("data/*.parquet", "no file matches"),
        ("nowhere/", "no such object"),
    ],
)
def test_what_is_not_there_is_said(bucket: Bucket, key: str, words: str) -> None:
    with pytest.raises(CuratorError, match=words) as caught:
        expand([bucket.url(key)])
    assert bucket.url("") in caught.value.message and caught.value.hint


def test_a_bucket_that_does_not_exist_is_named(bucket: Bucket) -> None:
    with pytest.raises(CuratorError, match="nowhere") as caught:
        expand([f"{bucket.scheme}://nowhere/*.jsonl"])
    assert bucket.endpoint in str(caught.value.hint)


# --- ingesting ----------------------------------------------------------------------------------------------------


def test_a_store_gives_the_same_bytes_as_a_folder(bucket: Bucket, folder: Path, tmp_path: Path) -> None:
    source = SourceSettings("x", shard_bytes=1024)
    ingest([str(folder)], source, tmp_path / "local", ONE)
    ingest([bucket.url("data")], source, tmp_path / "remote", ONE)
    assert contents(tmp_path / "remote") == contents(tmp_path / "local")
    ids = [id_ for batch in Dataset.open(tmp_path / "remote").batches(["id"]) for id_ in batch["id"].to_pylist()]
    assert "x/deep/c 100% #1.jsonl#2" in ids and len(ids) == 96
    assert sorted(path.name for path in tmp_path.iterdir()) == ["local", "remote"]

    inputs = json.loads((tmp_path / "remote/timing.json").read_bytes())
    assert bucket.url("data/a.jsonl") in inputs["inputs"]


@through_proxy
def test_what_is_known_is_not_fetched_again(bucket: Bucket, tmp_path: Path, environment: pytest.MonkeyPatch) -> None:
    gets = []

    def count(method: str, path: str, body: bytes) -> None:
        if method == "GET" and rows(1)[:20] in body:
            gets.append(path)

    with harming_proxy(bucket.endpoint, count) as endpoint:
        use(environment, bucket, endpoint)
        source = SourceSettings("x")
        assert not ingest([bucket.url("data/a.jsonl")], source, tmp_path / "x", ONE).reused
        assert len(gets) == 1
        assert ingest([bucket.url("data/a.jsonl")], source, tmp_path / "x", ONE).reused
        assert len(gets) == 1
        # Other settings need the bytes; a changed object is another input.
        with pytest.raises(CuratorError, match="made with other inputs"):
            ingest([bucket.url("data/a.jsonl")], SourceSettings("y"), tmp_path / "x", ONE)
        assert len(gets) == 1
        ingest([bucket.url("data/a.jsonl")], SourceSettings("y"), tmp_path / "x", Options(workers=1, overwrite=True))
        assert len(gets) == 2
        bucket.put("data/a.jsonl", rows(51))
        outcome = ingest([bucket.url("data/a.jsonl")], SourceSettings("y"), tmp_path / "x", ONE)
        assert outcome.notes["files"]["changed"] == {"a.jsonl": "a.jsonl@2"}
        assert len(gets) == 3


@pytest.mark.parametrize("action", ["reset", "cut"])
def test_a_broken_body_is_fetched_on(
    bucket: Bucket, action: str, folder: Path, tmp_path: Path, environment: pytest.MonkeyPatch
) -> None:
    """The first answers with data are harmed; the rest of each file comes from where it broke off."""
    environment.setattr("curator.io.stores.BLOCK_BYTES", 1000)
    ingest([str(folder / "a.jsonl")], SourceSettings("x"), tmp_path / "local", ONE)
    with harming_process(bucket.endpoint, action, 2) as endpoint:
        use(environment, bucket, endpoint)
        ingest([bucket.url("data/a.jsonl")], SourceSettings("x"), tmp_path / "remote", ONE)
    assert contents(tmp_path / "remote") == contents(tmp_path / "local")


@through_proxy
def test_a_store_that_keeps_failing_is_given_up(
    bucket: Bucket, tmp_path: Path, environment: pytest.MonkeyPatch
) -> None:
    environment.setattr(remote, "TRIES", 2)

    def harm(method: str, path: str, body: bytes) -> str | None:
        return "cut" if method == "GET" and b'"instruction"' in body else None

    with harming_proxy(bucket.endpoint, harm) as endpoint:
        use(environment, bucket, endpoint)
        with pytest.raises(CuratorError, match="a.jsonl: given up after 2 tries") as caught:
            ingest([bucket.url("data/a.jsonl")], SourceSettings("x"), tmp_path / "x", ONE)
        assert endpoint in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("status", "words"), [("403", "access is refused"), ("404", "no such object")])
def test_a_refusal_is_one_line_and_no_retry(
    bucket: Bucket, status: str, words: str, tmp_path: Path, environment: pytest.MonkeyPatch
) -> None:
    seen = []

    def harm(method: str, path: str, body: bytes) -> str | None:
        seen.append(path)
        return status

    with harming_proxy(bucket.endpoint, harm) as endpoint:
        use(environment, bucket, endpoint)
        with pytest.raises(CuratorError, match=words) as caught:
            ingest([bucket.url("data/a.jsonl")], SourceSettings("x"), tmp_path / "x", ONE)
    assert caught.value.hint and "\n" not in caught.value.message
    assert len(seen) <= 3


@through_proxy
def test_an_object_that_changes_while_it_is_read_is_noticed(
    bucket: Bucket, tmp_path: Path, environment: pytest.MonkeyPatch
) -> None:
    """Between the look at its version and the end of its bytes another object takes its place."""
    changes = [rows(30, "after")]

    def swap(method: str, path: str, body: bytes) -> None:
        if method == "GET" and b'"before 0?"' in body and changes:
            bucket.put("data/moving.jsonl", changes.pop())

    bucket.put("data/moving.jsonl", rows(30, "before"))
    with harming_proxy(bucket.endpoint, swap) as endpoint:
        use(environment, bucket, endpoint)
        with pytest.raises(CuratorError, match="moving.jsonl changed while it was read"):
            ingest([bucket.url("data/moving.jsonl")], SourceSettings("x"), tmp_path / "x", ONE)
        ingest([bucket.url("data/moving.jsonl")], SourceSettings("x"), tmp_path / "x", ONE)
    first = next(iter(Dataset.open(tmp_path / "x").batches(["messages"])))["messages"][0].as_py()
    assert first[0]["content"] == "after 0?"


@through_proxy
def test_a_killed_fetch_goes_on_with_the_next_file(
    bucket: Bucket, folder: Path, tmp_path: Path, environment: pytest.MonkeyPatch
) -> None:
    line = [sys.executable, "-m", "curator.cli.app", "ingest", bucket.url("data"), "--source", "x"]
    line += ["--out", str(tmp_path / "x"), "--workers", "1"]
    environment.setenv("CURATOR_FAULT", "fetched:3")
    assert subprocess.run(line, capture_output=True).returncode == -9
    environment.delenv("CURATOR_FAULT")
    whole = list((tmp_path / ".fetch-x").glob("*/.object.json"))
    assert len(whole) >= 3
    # The head of a text file is looked at whenever its folder is listed.
    fetched = {url for path in whole if not (url := json.loads(path.read_bytes())["url"]).endswith(".txt")}
    assert len(fetched) >= 2

    bodies = []

    def watch(method: str, path: str, body: bytes) -> None:
        if method == "GET" and body:
            bodies.append(path)

    with harming_proxy(bucket.endpoint, watch) as endpoint:
        use(environment, bucket, endpoint)
        ingest([bucket.url("data")], SourceSettings("x"), tmp_path / "x", ONE)
    for url in fetched:
        key = url.removeprefix(bucket.url(""))
        assert not any("alt=media" in path and key in path or path.endswith(f"/{key}") for path in bodies), (
            url,
            bodies,
        )
    ingest([str(folder)], SourceSettings("x"), tmp_path / "local", ONE)
    assert contents(tmp_path / "x") == contents(tmp_path / "local")
    assert not (tmp_path / ".fetch-x").exists()


def test_a_damaged_file_is_named_by_its_address(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("bad/cut.jsonl.gz", gzip.compress(rows(500))[:-20])
    with pytest.raises(CuratorError) as caught:
        ingest([bucket.url("bad")], SourceSettings("x"), tmp_path / "x", ONE)
    assert caught.value.message.startswith(bucket.url("bad/cut.jsonl.gz: the compressed data is damaged"))


@pytest.mark.parametrize("bucket", ["s3"], indirect=True)
def test_wrong_credentials_are_a_refusal_of_the_server(bucket: Bucket) -> None:
    request(f"{bucket.endpoint}/moto-api/reset-auth", "POST", b"0")
    try:
        with pytest.raises(CuratorError, match="access is refused") as caught:
            expand([bucket.url("data/a.jsonl")])
        assert "AWS_ACCESS_KEY_ID" in str(caught.value.hint)
    finally:
        request(f"{bucket.endpoint}/moto-api/reset-auth", "POST", b"inf")


def test_no_room_for_the_copies_is_said_before_the_first(
    bucket: Bucket, tmp_path: Path, environment: pytest.MonkeyPatch
) -> None:
    environment.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 90, 10))
    with pytest.raises(CuratorError, match="1 files of .* bytes are to be fetched, .* has 10 free"):
        ingest([bucket.url("data/a.jsonl")], SourceSettings("x"), tmp_path / "x", ONE)


def test_two_ingests_do_not_share_a_spool(tmp_path: Path, bucket: Bucket) -> None:
    url = bucket.url("data/a.jsonl")
    with remote.Spool(tmp_path / "x") as first:
        first.digests([url])
        with pytest.raises(CuratorError, match="filled by another process"), remote.Spool(tmp_path / "x") as second:
            bucket.put("data/z.jsonl", rows(1))
            second.digests([bucket.url("data/z.jsonl")])
    assert threading.active_count() < 20


# --- recipes and pipes ----------------------------------------------------------------------------------------------


def test_a_recipe_reads_from_a_store(bucket: Bucket, folder: Path, tmp_path: Path) -> None:
    def recipe(root: str, path: str) -> Recipe:
        return Recipe("r", [Source("x", path)], root, [], None, None)

    remote_recipe = recipe("elsewhere", bucket.url("data/*.jsonl"))
    check_recipe(remote_recipe)
    assert what_would_run(remote_recipe, tmp_path / "r") == [
        (str(tmp_path / "r/sources/x"), f"would fetch 2 files, {bucket.url('data/a.jsonl')} first")
    ]
    run_recipe(remote_recipe, tmp_path / "r", ONE)
    assert what_would_run(remote_recipe, tmp_path / "r") == [(str(tmp_path / "r/sources/x"), "done")]
    run_recipe(recipe(bucket.url("data"), "*.jsonl"), tmp_path / "q", ONE)
    run_recipe(recipe(str(folder), "*.jsonl"), tmp_path / "local", ONE)
    for name in ("r", "q"):
        assert contents(tmp_path / name / "sources/x") == contents(tmp_path / "local/sources/x")


def test_a_pipe_reads_from_a_store(bucket: Bucket, folder: Path, tmp_path: Path) -> None:
    def stream(place: str) -> bytes:
        sink = io.BytesIO()
        ingest_to_stream([place], SourceSettings("x"), sink, None, ONE)
        return sink.getvalue()

    assert stream(bucket.url("data/**/*.json*")) == stream(f"{folder}/**/*.json*")


def test_a_pipe_that_fails_promises_nothing(bucket: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    bucket.put("bad/cut.jsonl.gz", gzip.compress(rows(500))[:-20])
    with pytest.raises(CuratorError, match="damaged"):
        ingest_to_stream([bucket.url("bad/cut.jsonl.gz")], SourceSettings("x"), io.BytesIO(), None, ONE)
    assert "stays in" not in capsys.readouterr().err
