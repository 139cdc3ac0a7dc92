"""Images: stored once, tied to places in turns, never guessed from text; what is missing is told, what lies outside is
not read."""

import base64
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from record_samples import files_of, ingested, passed, quarantine_of, rows_of, write_lines

from curator.io import media
from curator.io.adapters.images import all_images, marked, with_data
from curator.io.adapters.parts import parts_text as text_of_parts
from curator.io.manifest import Manifest
from curator.io.media import MediaStore, media_name, mime_of
from curator.pipeline.inspect.check import check
from curator.pipeline.inspect.show import record_text
from curator.pipeline.passes import Options
from curator.schema.record import content_hashes
from curator.stages.catalog import build_stage

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(90))
JPG = b"\xff\xd8\xff\xe0" + bytes(range(80))
TINY = b"GIF89a"


def others(record: Any) -> list[str]:
    """The issues but for the one that tells of a literal `<image>`, which steers models."""
    return [issue for issue in record["metadata"]["turn_issues"] or [] if issue != "control_token"]


def parts_text(content: str, parts: Any, media: Any) -> str:
    message = {"content": content, "wrap": None, "reasoning": None, "tool_calls": None}
    return with_data(text_of_parts(message, parts), media)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def uri(data: bytes, mime: str = "image/png") -> str:
    return f"data:{mime};base64," + base64.b64encode(data).decode()


def user(content: Any, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": "ok"}], **fields}


def llava(text: str, **fields: Any) -> dict[str, Any]:
    return {"conversations": [{"from": "human", "value": text}, {"from": "gpt", "value": "ok"}], **fields}


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Ingest rows from a folder that holds a.png and sub/b.jpg; the records."""

    def run(*rows: Any, out: str = "out", **settings: Any) -> list[dict[str, Any]]:
        raw = tmp_path / "raw"
        (raw / "sub").mkdir(parents=True, exist_ok=True)
        (raw / "a.png").write_bytes(PNG)
        (raw / "sub/b.jpg").write_bytes(JPG)
        ingested(write_lines(raw / "rows.jsonl", rows), tmp_path / out, **settings)
        return rows_of(tmp_path / out)

    return run


def images(record: dict[str, Any], turn: int = 0) -> list[tuple[str, str, int]]:
    return [(image["sha256"], image["mime"], image["offset"]) for image in record["messages"][turn]["images"] or ()]


def form(record: dict[str, Any]) -> dict[str, Any]:
    return json.loads(record["provenance"]["form"])


def stored(out: Path) -> dict[str, bytes]:
    return {
        file.relative_to(out).as_posix(): file.read_bytes() for file in (out / "media").rglob("*") if file.is_file()
    }


A, B = (sha(PNG), "image/png"), (sha(JPG), "image/jpeg")


@pytest.mark.parametrize(
    ("part", "image"),
    [
        ({"type": "image_url", "image_url": {"url": uri(PNG)}}, A),
        ({"type": "image_url", "image_url": {"url": uri(PNG, "image/jpeg"), "detail": "high"}}, A),
        ({"type": "image_url", "image_url": "a.png"}, A),
        ({"type": "image_url", "value": "sub/b.jpg"}, B),
        ({"type": "input_image", "image_url": uri(JPG)}, B),
        ({"type": "image", "source": {"type": "base64", "media_type": "x", "data": uri(JPG).split(",")[1]}}, B),
        ({"type": "image", "image": "./sub/../a.png"}, A),
        ({"type": "image", "path": "a.png", "text": None}, A),
        ({"type": "image", "base64": base64.b64encode(JPG).decode()}, B),
        ({"type": "image", "image": {"bytes": uri(JPG), "path": "x.png"}}, B),
        ({"type": "image", "image": {"bytes": None, "path": "a.png"}}, A),
        ({"type": "image", "url": uri(TINY)}, (sha(TINY), "image/gif")),
        ({"type": "image", "url": "data:image/svg+xml,%3Csvg%2F%3E"}, (sha(b"<svg/>"), "image/svg+xml")),
    ],
)
def test_a_part_is_an_image_at_its_place(
    tmp_path: Path, read: Callable[..., list[Any]], part: dict[str, Any], image: tuple[str, str]
) -> None:
    content = [{"type": "text", "text": "Grüße, "}, part, {"text": "see?", "type": "text"}, part]
    (record,) = read(user(content))
    assert record["messages"][0]["content"] == "Grüße, see?"
    assert images(record) == [(*image, 9), (*image, 13)]
    assert record["metadata"]["turn_issues"] is None and record["extra"] is None
    files = stored(tmp_path / "out")
    assert list(files) == [media_name(*image)] and sha(files[media_name(*image)]) == image[0]
    # The parts come back; the data of an image lies in media/ only.
    kept = form(record)["turns"]["0"]["parts"]
    back = parts_text("Grüße, see?", kept, {sha(data): data for data in files.values()}.__getitem__)
    assert json.dumps(json.loads(back)) == json.dumps(content)
    assert len(record["provenance"]["form"]) < 600


def test_a_content_of_images_alone_is_empty(read: Callable[..., list[Any]]) -> None:
    (record,) = read(user([{"type": "image", "path": "a.png"}]))
    assert record["messages"][0]["content"] == "" and images(record) == [(*A, 0)]


@pytest.mark.parametrize(
    ("row", "texts", "places"),
    [
        (llava("<image>\nWhat?", image="a.png"), "\nWhat?", [(*A, 0)]),
        (llava("ü<image> and <image>", image=["a.png", "sub/b.jpg"]), "ü and ", [(*A, 2), (*B, 7)]),
        (llava("<image><image>", images=["a.png", "a.png"]), "", [(*A, 0), (*A, 0)]),
        (user("<image>Who?", images=["sub/b.jpg"]), "Who?", [(*B, 0)]),
        (user("Who?<image>", images=[uri(PNG)]), "Who?", [(*A, 4)]),
        (user("Who?<image>", images=[{"bytes": uri(PNG), "path": None}]), "Who?", [(*A, 4)]),
        (user([{"type": "image"}, {"type": "text", "text": "<image>?"}], images=["a.png"]), "<image>?", [(*A, 0)]),
        (
            {"prompt": "<image>?", "chosen": "a", "rejected": "b", "images": ["a.png"]},
            "?",
            [(*A, 0)],
        ),
    ],
)
def test_images_of_a_field_stand_where_the_turns_say(
    read: Callable[..., list[Any]], row: dict[str, Any], texts: str, places: list[Any]
) -> None:
    (record,) = read(row)
    assert record["messages"][0]["content"] == texts
    assert images(record) == places
    assert others(record) == []
    name = form(record)["images"]["field"]
    extra = with_data(record["extra"], {sha(PNG): PNG}.__getitem__)
    assert json.loads(extra) == {name: row[name]}
    if "mark" in form(record)["images"]:
        content = (row.get("conversations") or row.get("messages") or [{"content": row.get("prompt")}])[0]
        there = all_images(form(record), "messages", 0, record["messages"][0]["images"])
        assert marked(texts, there) == content.get("value", content.get("content"))


@pytest.mark.parametrize(
    ("row", "issues"),
    [
        (user("Write an <image> tag."), None),
        (llava("<image>"), None),
        (user("<image>", images=None), None),
        (user("<image>", images=[]), None),
        (user("<image>", videos=["a.mp4"]), None),
        (user("<image> <image>", images=["a.png"]), ["image_unplaced"]),
        (user("none", images=["a.png"]), ["image_unplaced"]),
        (llava("<image>", image=["a.png", "a.png"]), ["image_unplaced"]),
        (user("<image>", images=5), None),
        (user("<image>", images=[{"width": [1]}]), ["empty_prompt", "image_missing"]),
        (user("<IMAGE> <image >", images=["a.png"]), ["image_unplaced"]),
    ],
)
def test_the_word_image_in_a_text_is_text(
    tmp_path: Path, read: Callable[..., list[Any]], row: dict[str, Any], issues: Any
) -> None:
    (record,) = read(row)
    text = (row.get("messages") or row.get("conversations"))[0]
    if "image_missing" not in (issues or ()):
        assert record["messages"][0]["content"] == text.get("content", text.get("value"))
    assert not images(record) and others(record) == (issues or [])
    rest = {key: value for key, value in row.items() if key not in ("messages", "conversations")}
    assert json.loads(record["extra"] or "{}") == rest
    assert not (tmp_path / "out/media").exists() and "images" not in Manifest.read(tmp_path / "out").extra


@pytest.mark.parametrize(
    ("reference", "issue"),
    [
        ("lost.png", "image_missing"),
        ("sub", "image_missing"),
        ("", "image_missing"),
        ("a\x00b.png", "image_missing"),
        ("x" * 5000, "image_missing"),
        ("data:image/png;base64,!!!", "image_missing"),
        ("https://example.org/a.png", "image_remote"),
        ("s3://bucket/a.png", "image_remote"),
        ("file:///etc/passwd", "image_remote"),
        ("../secret.png", "image_refused"),
        ("sub/../../secret.png", "image_refused"),
        ("/etc/passwd", "image_refused"),
        ("link.png", "image_refused"),
        ("linked/secret.png", "image_refused"),
    ],
)
def test_an_image_that_cannot_be_had_leaves_the_row(
    tmp_path: Path, read: Callable[..., list[Any]], reference: str, issue: str
) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "secret.png").write_bytes(PNG + b"secret")
    (tmp_path / "raw/link.png").symlink_to(tmp_path / "secret.png")
    (tmp_path / "raw/linked").symlink_to(tmp_path)
    row = llava("one<image> two<image>", images=[reference, "a.png"])
    parts = [{"type": "text", "text": "one"}, {"type": "image_url", "image_url": {"url": reference}}]
    first, second = read(row, user(parts))
    assert images(first) == [(*A, 7)] and images(second) == []
    assert [record["metadata"]["turn_issues"] for record in (first, second)] == [[issue]] * 2
    (missing,) = form(first)["missing_images"]
    place = {"side": "messages", "turn": 0, "at": 0, "offset": 3, "issue": issue}
    assert missing == {**place, "reference": "data:" if reference.startswith("data:") else reference}
    assert json.loads(first["extra"])["images"] == row["images"]
    there = all_images(form(first), "messages", 0, first["messages"][0]["images"])
    assert marked(first["messages"][0]["content"], there) == "one<image> two<image>"
    assert json.loads(parts_text("one", form(second)["turns"]["0"]["parts"], {}.__getitem__)) == parts
    assert list(stored(tmp_path / "out")) == [media_name(*A)]
    assert not quarantine_of(tmp_path / "out")


def test_paths_may_be_relative_to_a_folder_of_images(tmp_path: Path, read: Callable[..., list[Any]]) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    (pictures / "a.png").write_bytes(JPG)
    rows = [
        llava("<image>", image="a.png"),
        llava("<image>", image=str(pictures / "a.png")),
        llava("<image>", image="../raw/a.png"),
    ]
    records = read(*rows, image_root=str(pictures))
    assert [images(record) for record in records] == [[(*B, 0)], [(*B, 0)], []]
    assert records[2]["metadata"]["turn_issues"] == ["empty_prompt", "image_refused"]


@pytest.mark.parametrize("part", [{"type": "audio", "audio": "x"}, {"text": "x"}, {"type": "text"}])
def test_a_part_of_no_known_kind_stays_beside_the_record(read: Callable[..., list[Any]], part: Any) -> None:
    (record,) = read(user([{"type": "image", "path": "a.png"}, part]))
    assert record["metadata"]["turn_issues"] == ["unread_part"]
    assert json.loads(form(record)["turns"]["0"]["parts"][1]["part"]) == part


def test_an_image_of_a_wrong_kind_is_told(tmp_path: Path, read: Callable[..., list[Any]]) -> None:
    read(user("x"), user([{"type": "image", "image": 5}]))
    reasons = [row["reason"] for row in quarantine_of(tmp_path / "out")]
    assert reasons == ["wrong type: image of an image is number, expected text"]


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (PNG, "image/png"),
        (JPG, "image/jpeg"),
        (TINY, "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVE", "application/octet-stream"),
        (b"\x00\x00\x00 ftypavif", "image/avif"),
        (b"\x00\x00\x00 ftypisom", "application/octet-stream"),
        (b"BM1234", "image/bmp"),
        (b"II*\x00", "image/tiff"),
        (b"MM\x00*", "image/tiff"),
        (b'<?xml version="1.0"?><svg xmlns="x"/>', "image/svg+xml"),
        (b"<html>404 not found</html>", "application/octet-stream"),
        (b"", "application/octet-stream"),
    ],
)
def test_first_bytes_say_what_an_image_is(data: bytes, mime: str) -> None:
    assert mime_of(data) == mime


def test_an_error_page_in_place_of_an_image_is_told(tmp_path: Path, read: Callable[..., list[Any]]) -> None:
    (record,) = read(user([{"type": "image", "url": uri(b"<html>404</html>")}]))
    assert record["metadata"]["turn_issues"] == ["image_unreadable"]
    assert images(record)[0][1] == "application/octet-stream"
    assert list(stored(tmp_path / "out")) == [media_name(sha(b"<html>404</html>"), "application/octet-stream")]


def test_the_hash_of_a_record_knows_its_images(tmp_path: Path, read: Callable[..., list[Any]]) -> None:
    records = read(*[user([{"type": "image", "path": path}]) for path in ("a.png", "sub/b.jpg", "./a.png")])
    hashes = [record["content_hash"] for record in records]
    assert hashes[0] == hashes[2] != hashes[1]
    from curator.io.dataset import Dataset

    (batch,) = Dataset.open(tmp_path / "out").batches()
    assert content_hashes(batch).to_pylist() == hashes


def test_images_in_a_table_of_datasets(tmp_path: Path) -> None:
    column = [[{"bytes": PNG, "path": "a.png"}], [{"bytes": JPG, "path": None}], None]
    turns = [[{"role": "user", "content": text}] for text in ("<image>", "x<image>", "<image>")]
    raw = tmp_path / "raw"
    raw.mkdir()
    pq.write_table(pa.table({"messages": turns, "images": column}), raw / "rows.parquet")
    ingested(raw / "rows.parquet", tmp_path / "out")
    records = rows_of(tmp_path / "out")
    assert [images(record) for record in records] == [[(*A, 0)], [(*B, 1)], []]
    assert records[2]["messages"][0]["content"] == "<image>"
    assert len(records[0]["extra"]) < 250
    assert set(stored(tmp_path / "out")) == {media_name(*A), media_name(*B)}


# --- the folder -----------------------------------------------------------------------------------------------------


def many(tmp_path: Path) -> Path:
    """Rows with 20 images, each used many times, in a file that is cut into several tasks."""
    raw = tmp_path / "raw"
    raw.mkdir()
    for number in range(20):
        (raw / f"{number}.png").write_bytes(PNG + bytes([number]))
    rows = [llava(f"{'x' * 200}<image>", image=f"{number * 7 % 20}.png") for number in range(400)]
    return write_lines(raw / "rows.jsonl", rows)


def test_every_image_is_stored_once_by_any_number_of_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = many(tmp_path)
    ingested(path, tmp_path / "one", shard_bytes=8192)
    ingested(path, tmp_path / "two", Options(workers=2), shard_bytes=8192)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert len(stored(tmp_path / "one")) == 20
    recorded = Manifest.read(tmp_path / "one").extra["images"]
    assert (recorded["placed"], recorded["files"], recorded["bytes"]) == (400, 20, 20 * (len(PNG) + 1))
    assert check(tmp_path / "one") == [{"folder": str(tmp_path / "one"), "rows": 400, "problems": [], "notes": []}]


def test_a_lost_or_changed_image_is_found_and_comes_again(tmp_path: Path, read: Callable[..., list[Any]]) -> None:
    rows = [llava("<image>", image="a.png"), llava("<image>", image="sub/b.jpg")]
    read(*rows)
    out = tmp_path / "out"
    whole = files_of(out)
    for spoil, problem in (
        (lambda file: file.unlink(), f"image {A[0]} is missing from media/"),
        (lambda file: file.write_bytes(b"x" * len(PNG)), f"{media_name(*A)} has other bytes than were written"),
    ):
        spoil(out / media_name(*A))
        assert check(out)[0]["problems"] == [problem]
        read(*rows)
        assert files_of(out) == whole and check(out)[0]["problems"] == []
    (out / "media/ab").mkdir()
    (out / "media/ab/stray.png").write_bytes(b"x")
    assert check(out)[0]["notes"] == ["stray file: media/ab/stray.png"]


def test_overwriting_takes_old_images_away(tmp_path: Path, read: Callable[..., list[Any]]) -> None:
    read(llava("<image>", image="a.png"))
    read(llava("<image>", image="sub/b.jpg"))
    assert sorted(stored(tmp_path / "out")) == sorted([media_name(*A), media_name(*B)])
    ingested(tmp_path / "raw/rows.jsonl", tmp_path / "out", Options(workers=1, overwrite=True))
    assert list(stored(tmp_path / "out")) == [media_name(*B)]


def test_what_a_killed_run_left_is_swept(tmp_path: Path, read: Callable[..., list[Any]]) -> None:
    read(llava("<image>", image="a.png"), out="whole")
    out = tmp_path / "out"
    (out / "media/ab").mkdir(parents=True)
    (out / "media/ab/.tmp-1-0-x.png").write_bytes(b"half")
    (out / "media/ab" / ("ab" * 32 + ".png")).write_bytes(b"of a row that was not finished")
    partial = out / ".partial"
    partial.mkdir()
    fingerprint = Manifest.read(tmp_path / "whole").fingerprint
    (partial / "fingerprint.json").write_text(json.dumps(fingerprint))
    read(llava("<image>", image="a.png"))
    assert files_of(out) == files_of(tmp_path / "whole")


def test_an_image_that_another_worker_stored_is_left_alone(tmp_path: Path) -> None:
    store, other = MediaStore(tmp_path, None), MediaStore(tmp_path, None)
    assert store.put(PNG) == other.put(PNG) == store.put(PNG) == A
    file = tmp_path / media_name(*A)
    before = os.stat(file).st_ino
    assert MediaStore(tmp_path, None).put(PNG) == A and os.stat(file).st_ino == before
    file.write_bytes(b"half")
    assert MediaStore(tmp_path, None).put(PNG) == A and file.read_bytes() == PNG
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_later_folders_say_where_the_images_are(tmp_path: Path, read: Callable[..., list[Any]]) -> None:
    read(llava("<image>", image="a.png"), llava("<image>", image="sub/b.jpg"))
    tagged = passed(build_stage("tag.signals", None, "t"), tmp_path / "out", tmp_path / "tagged")
    last = passed(build_stage("filter.where", "length(id) > 0", "t"), tagged, tmp_path / "last")
    assert not (last / "media").exists()
    (report,) = [entry for entry in check(tmp_path) if entry["folder"] == str(last)]
    assert report["problems"] == [] and report["notes"] == [f"images: 2, in {tmp_path / 'out/media'}"]
    shown = record_text(rows_of(last)[0])
    assert f"[user, image at byte 0] {media_name(*A)}" in shown
    (tmp_path / "out" / media_name(*A)).unlink()
    (report,) = [entry for entry in check(tmp_path) if entry["folder"] == str(last)]
    assert report["problems"] == ["1 of 2 images are in none of the folders it was made from"]


def test_digests_come_from_both_sides_of_a_preference(tmp_path: Path, read: Callable[..., list[Any]]) -> None:
    question = {"role": "user", "content": "?"}
    sides = [{"role": "assistant", "content": [{"type": "image", "path": path}]} for path in ("a.png", "sub/b.jpg")]
    (record,) = read({"chosen": [question, sides[0]], "rejected": [question, sides[1]]})
    assert images(record, 1) == [(*A, 0)] and record["rejected"][0]["images"][0]["sha256"] == B[0]
    shards = Manifest.read(tmp_path / "out").shards
    assert media.image_digests(tmp_path / "out", shards) == {A[0], B[0]}
    assert Manifest.read(tmp_path / "out").extra["images"]["placed"] == 2


def test_real_rows_with_images_keep_their_references(real_data: Path, tmp_path: Path) -> None:
    folder = real_data / "llamafactory_demo"
    (tmp_path / "raw/mllm_demo_data").mkdir(parents=True)
    for name in ("1", "2", "3"):
        (tmp_path / f"raw/mllm_demo_data/{name}.jpg").write_bytes(JPG + name.encode())
    for name in ("mllm_demo.json", "v1_multimodal_demo.jsonl"):
        (tmp_path / "raw" / name).write_bytes((folder / name).read_bytes())
    rows = json.loads((folder / "mllm_demo.json").read_bytes())
    ingested(tmp_path / "raw/mllm_demo.json", tmp_path / "marks")
    records = rows_of(tmp_path / "marks")
    assert len(records) == len(rows)
    for record, row in zip(records, rows, strict=True):
        places = [image["sha256"] for turn in record["messages"] for image in turn["images"] or ()]
        assert places == [sha(JPG + Path(path).stem.encode()) for path in row["images"]]
        for turn, source in zip(record["messages"], row["messages"], strict=True):
            assert marked(turn["content"], turn["images"] or ()) == source["content"]
    # The other file names its images from another folder, which is not there.
    lines = (folder / "v1_multimodal_demo.jsonl").read_bytes().splitlines()
    ingested(tmp_path / "raw/v1_multimodal_demo.jsonl", tmp_path / "parts")
    for record in rows_of(tmp_path / "parts"):
        row = json.loads(lines[record["provenance"]["row"]])
        for turn, source in zip(record["messages"], row["messages"], strict=True):
            parts = form(record)["turns"][str(row["messages"].index(source))]["parts"]
            assert json.loads(parts_text(turn["content"], parts, {}.__getitem__)) == source["content"]
        assert record["metadata"]["turn_issues"] == ["image_missing"]
