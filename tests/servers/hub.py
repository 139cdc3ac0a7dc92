"""A small hub on loopback: the endpoints that reading and pushing dataset repositories needs, over what it is given."""

import base64
import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

LFS_ENDINGS = (".parquet", ".gz")
PAGE = 3
"""Entries a page of a listing, so that small folders have several."""


@dataclass
class Hub:
    """Repositories by OWNER/NAME as commits, oldest first, each a whole tree of path to bytes."""

    endpoint: str = ""
    repositories: dict[str, list[dict[str, bytes]]] = field(default_factory=dict)
    private: set[str] = field(default_factory=set)
    requests: list[tuple[str, str]] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)
    """Paths whose next bodies are cut in half."""
    lock: Any = field(default_factory=threading.Lock)

    def commit(self, repository: str, files: dict[str, bytes]) -> str:
        commits = self.repositories.setdefault(repository, [])
        commits.append(files)
        return sha(len(commits) - 1)

    def head(self, repository: str) -> dict[str, bytes]:
        return self.repositories[repository][-1]

    def tree(self, repository: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        commits = self.repositories[repository]
        for number, files in enumerate(commits):
            if revision == sha(number) or (revision == "main" and number == len(commits) - 1):
                return sha(number), files
        return None


def sha(number: int) -> str:
    return hashlib.sha1(f"commit {number}".encode()).hexdigest()


def _entry(path: str, data: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "path": path, "size": len(data), "oid": _git_oid(data)}
    if path.endswith(LFS_ENDINGS):
        entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
    return entry


def _git_oid(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@contextlib.contextmanager
def hub_server() -> Iterator[Hub]:
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def _json(self, value: object, status: int = 200, **headers: str) -> None:
            self._bytes(json.dumps(value).encode(), status, **{"Content-Type": "application/json", **headers})

        def _bytes(self, data: bytes, status: int = 200, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def _refuse(self, status: int, code: str = "") -> None:
            self._json({"error": code or "refused"}, status, X_Error_Code=code, X_Error_Message=code)

        def _answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(size)
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                while count := int(self.rfile.readline(), 16):
                    body += self.rfile.read(count)
                    self.rfile.readline()
                self.rfile.readline()
            url = urlsplit(self.path)
            with hub.lock:
                hub.requests.append((self.command, url.path))
                self._route(unquote(url.path), parse_qs(url.query), body)

        def _route(self, path: str, query: dict[str, list[str]], body: bytes) -> None:
            token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            if path == "/api/validate-yaml":
                return self._validate(json.loads(body))
            if path == "/api/repos/create":
                return self._create(json.loads(body), token)
            if found := re.fullmatch(r"/lfs/([0-9a-f]{64})", path):
                hub.blobs[found[1]] = body
                return self._bytes(b"", 200 if hashlib.sha256(body).hexdigest() == found[1] else 400)
            if found := re.fullmatch(r"/datasets/([^/]+/[^/]+)\.git/info/lfs/objects/batch", path):
                return self._batch(json.loads(body))
            if not (found := re.fullmatch(r"(/api)?/datasets/([^/]+/[^/]+)(?:/([^/]+)(?:/(.*))?)?", path)):
                return self._refuse(404)
            is_api, repository, verb, rest = found[1] is not None, found[2], found[3], found[4] or ""
            if repository not in hub.repositories or (repository in hub.private and token != "good"):
                return self._refuse(401 if token == "" else 404, "RepoNotFound")
            revision, _, place = rest.partition("/")
            tree = hub.tree(repository, revision or "main") if hub.repositories[repository] else ("0" * 40, {})
            if tree is None:
                return self._refuse(404, "RevisionNotFound")
            commit, files = tree
            if verb in (None, "revision"):
                return self._json({"id": repository, "sha": commit, "private": False, "siblings": []})
            if verb == "tree":
                return self._tree(files, place, query)
            if verb == "paths-info":
                wanted = parse_qs(body.decode()).get("paths", []) if body[:1] != b"{" else json.loads(body)["paths"]
                return self._json([entry for name in wanted for entry in self._info(files, name)])
            if verb == "resolve" and not is_api:
                return self._resolve(files, place, commit)
            if verb == "preupload":
                return self._json({"files": [self._mode(files, file["path"]) for file in json.loads(body)["files"]]})
            if verb == "commit":
                return self._commit(repository, files, body, token)
            return self._refuse(404)

        def _validate(self, card: dict[str, str]) -> None:
            """What the hub asks of a card, as far as it is documented."""
            found = re.match(r"---\n(.*?)\n---\n", card["content"], re.DOTALL)
            header = yaml.safe_load(found[1]) if found else {}
            errors = [] if isinstance(header.get("license"), str | list) else [{"message": '"license" is missing'}]
            errors += [] if all("config_name" in one for one in header.get("configs", [])) else [{"message": "configs"}]
            self._json({"errors": errors, "warnings": []}, 400 if errors else 200)

        def _create(self, wanted: dict[str, Any], token: str) -> None:
            repository = f"{wanted.get('organization') or 'someone'}/{wanted['name']}"
            if token not in ("good", "reader"):
                return self._refuse(401)
            if token == "reader":
                return self._refuse(403)
            status = 409 if repository in hub.repositories else 200
            hub.repositories.setdefault(repository, [])
            if wanted.get("private") or wanted.get("visibility") == "private":
                hub.private.add(repository)
            return self._json({"url": f"{hub.endpoint}/datasets/{repository}"}, status)

        def _info(self, files: dict[str, bytes], name: str) -> list[dict[str, Any]]:
            if name in files:
                return [_entry(name, files[name])]
            is_folder = any(path.startswith(f"{name}/") for path in files)
            return [{"type": "directory", "path": name, "oid": "0" * 40, "size": 0}] if is_folder else []

        def _tree(self, files: dict[str, bytes], place: str, query: dict[str, list[str]]) -> None:
            prefix = f"{place}/" if place else ""
            below = sorted(path for path in files if path.startswith(prefix))
            if not below and place:
                return self._refuse(404, "EntryNotFound")
            names: dict[str, None] = {}
            for path in below:
                parts = path.removeprefix(prefix).split("/")
                depths = range(1, len(parts) + 1) if query.get("recursive", [""])[0].lower() == "true" else [1]
                names |= {prefix + "/".join(parts[:depth]): None for depth in depths}
            entries = [entry for name in names for entry in self._info(files, name)]
            start = int(query.get("cursor", ["0"])[0])
            more = {}
            if start + PAGE < len(entries):
                others = "&".join(f"{key}={values[0]}" for key, values in query.items() if key != "cursor")
                url = f"{hub.endpoint}{urlsplit(self.path).path}?{others}&cursor={start + PAGE}"
                more = {"Link": f'<{url}>; rel="next"'}
            return self._json(entries[start : start + PAGE], **more)

        def _resolve(self, files: dict[str, bytes], place: str, commit: str) -> None:
            if place not in files:
                return self._refuse(404, "EntryNotFound")
            data = files[place]
            facts = {"ETag": f'"{_git_oid(data)}"', "X_Repo_Commit": commit, "Accept_Ranges": "bytes"}
            if found := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or ""):
                start, stop = int(found[1]), min(int(found[2] or len(data) - 1), len(data) - 1)
                facts["Content_Range"] = f"bytes {start}-{stop}/{len(data)}"
                data = data[start : stop + 1]
            if place in hub.cut and self.command == "GET":
                hub.cut.remove(place)
                self.send_response(206 if "Content_Range" in facts else 200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[: len(data) // 2])
                return None
            return self._bytes(data, 206 if "Content_Range" in facts else 200, **facts)

        def _mode(self, files: dict[str, bytes], path: str) -> dict[str, Any]:
            mode = "lfs" if path.endswith(LFS_ENDINGS) else "regular"
            data = files.get(path)
            oid = None if data is None else hashlib.sha256(data).hexdigest() if mode == "lfs" else _git_oid(data)
            return {"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid}

        def _batch(self, wanted: dict[str, Any]) -> None:
            objects = []
            for one in wanted["objects"]:
                action = {"upload": {"href": f"{hub.endpoint}/lfs/{one['oid']}", "header": {}}}
                known = one["oid"] in hub.blobs
                objects.append({"oid": one["oid"], "size": one["size"], **({} if known else {"actions": action})})
            self._json({"transfer": "basic", "objects": objects})

        def _commit(self, repository: str, files: dict[str, bytes], body: bytes, token: str) -> None:
            if token != "good":
                return self._refuse(403)
            files = dict(files)
            for line in body.decode().splitlines():
                item = json.loads(line)
                value = item["value"]
                if item["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif item["key"] == "lfsFile":
                    files[value["path"]] = hub.blobs[value["oid"]]
                elif item["key"] == "deletedFile":
                    del files[value["path"]]
            commit = hub.commit(repository, files)
            url = f"{hub.endpoint}/datasets/{repository}/commit/{commit}"
            return self._json({"commitUrl": url, "commitOid": commit, "pullRequestUrl": None})

        do_GET = do_HEAD = do_POST = do_PUT = _answer

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
