"""Real store servers on loopback, each a process of its own, and a proxy that harms what passes through it."""

import contextlib
import http.client
import importlib.util
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


# The server reads who asks from it, and checks no signature.
_SIGNED = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


_BYTES = "application/octet-stream"


def request(url: str, method: str = "GET", data: bytes | None = None, kind: str = _BYTES) -> bytes:
    headers = {"Content-Type": kind, "Authorization": _SIGNED}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=20) as response:
        return response.read()


@contextlib.contextmanager
def _running(command: list[str], url: str) -> Iterator[str]:
    """The process answers at `url` for as long as the context lasts."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(400):
            with contextlib.suppress(OSError):
                with contextlib.suppress(urllib.error.HTTPError):
                    request(url)
                break
            assert process.poll() is None, f"{command} ended"
            time.sleep(0.05)
        yield url
    finally:
        process.kill()
        process.wait()


def _require(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")


class Bucket:
    """A bucket of a server, written to over plain HTTP: nothing of what is tested takes part."""

    def __init__(self, scheme: str, endpoint: str, name: str) -> None:
        self.scheme, self.endpoint, self.name = scheme, endpoint, name
        if scheme == "s3":
            request(f"{endpoint}/{name}", "PUT", b"")
        else:
            request(
                f"{endpoint}/storage/v1/b?project=test", "POST", json.dumps({"name": name}).encode(), "application/json"
            )

    def put(self, key: str, data: bytes) -> None:
        if self.scheme == "s3":
            request(f"{self.endpoint}/{self.name}/{quote(key)}", "PUT", data)
        else:
            url = f"{self.endpoint}/upload/storage/v1/b/{self.name}/o?name={quote(key, safe='')}&uploadType="
            if data:
                request(url + "media", "POST", data)
            else:  # an empty plain body is more than the emulator takes
                part = b"--x\r\nContent-Type: application/json\r\n\r\n{}\r\n--x\r\n\r\n\r\n--x--\r\n"
                request(url + "multipart", "POST", part, "multipart/related; boundary=x")

    def put_folder(self, folder: Path, prefix: str) -> None:
        for path in folder.rglob("*"):
            if path.is_file():
                self.put(prefix + str(path.relative_to(folder)), path.read_bytes())

    def url(self, key: str) -> str:
        return f"{self.scheme}://{self.name}/{key}"


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    _require("moto")
    _require("flask")
    port = free_port()
    with _running(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], f"http://127.0.0.1:{port}"
    ) as url:
        yield url


@contextlib.contextmanager
def gcs_server() -> Iterator[str]:
    _require("gcp_storage_emulator")
    port = free_port()
    program = "from gcp_storage_emulator.__main__ import main; main()"
    options = ["start", "--host", "127.0.0.1", "--port", str(port), "--in-memory"]
    with _running([sys.executable, "-c", program, *options], f"http://127.0.0.1:{port}") as url:
        yield url


Harm = Callable[[str, str, bytes], "str | None"]
"""Method, path and body of an answer, to what is done to it: None, `reset`, `cut`, or a status such as `503`."""


@contextlib.contextmanager
def harming_proxy(target: str, harm: Harm) -> Iterator[str]:
    """A server that passes requests on to `target`, and does to each answer what `harm` says.

    `reset` sends half of the body and resets the connection, `cut` sends half and closes it in good order.
    """
    host = target.removeprefix("http://")

    class Handler(BaseHTTPRequestHandler):
        # One request a connection: an end of the body is then an end of everything.
        protocol_version = "HTTP/1.0"

        def log_message(self, *_: object) -> None:
            pass

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = http.client.HTTPConnection(host, timeout=20)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
            connection.close()
            action = harm(self.command, self.path, data)
            if action is not None and action.isdigit():
                self.send_response(int(action))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length", "date", "server"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            if action is None:
                self.wfile.write(data)
                return
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            if action == "reset":
                # No lingering: the other side sees a reset rather than an end.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            self.close_connection = True
            with contextlib.suppress(OSError):
                if action == "cut":
                    self.connection.shutdown(socket.SHUT_RDWR)
                self.connection.close()

        do_GET = do_HEAD = do_PUT = do_POST = _pass_on

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def harming_process(target: str, action: str, times: int) -> Iterator[str]:
    """The proxy in a process of its own, which does `action` to the first `times` answers with raw rows in them.

    Google's client in Arrow holds up the other threads of a Python process in some calls, and so a proxy among them.
    """
    command = [sys.executable, __file__, target, action, str(times)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def _main(target: str, action: str, times: str) -> None:
    left = int(times)

    def harm(method: str, path: str, body: bytes) -> str | None:
        nonlocal left
        if method == "GET" and b'"instruction"' in body and left:
            left -= 1
            return action
        return None

    with harming_proxy(target, harm) as endpoint:
        print(endpoint, flush=True)
        time.sleep(120)


if __name__ == "__main__":
    _main(*sys.argv[1:])
