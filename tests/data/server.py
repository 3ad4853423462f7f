"""A real HTTP server of one machine that can break connections, and archives for it to serve."""

from __future__ import annotations

import contextlib
import io
import re
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FILE = bytes(range(256)) * 4096  # 1 MiB


@dataclass
class Server:
    """Serves `content`, or `files` by path; each entry of `breaks` cuts one answer off after so many bytes, each of `refusals` is a status first.

    `headers` are sent with every answer, in place of those that would be (None: not at all); `status` in place of 200 and 206.
    """

    content: bytes
    files: dict[str, bytes] = field(default_factory=dict)
    breaks: list[int] = field(default_factory=list)
    refusals: list[int] = field(default_factory=list)
    ranges: bool = True
    headers: dict[str, str | None] = field(default_factory=dict)
    status: int | None = None
    asked: list[str | None] = field(default_factory=list)
    url: str = ""


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """A running server on 127.0.0.1; `url` is its archive.zip."""
    state = Server(FILE)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers["Range"]
            state.asked.append(asked)
            if state.refusals:
                self.send_error(state.refusals.pop(0))
                return
            content = state.files.get(self.path, state.content)
            fresh = self.headers["If-Range"] in (None, state.headers.get("ETag"))
            start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and state.ranges and fresh else 0  # type: ignore[index]
            body = content[start:]
            if start and not body:
                self.send_response(416)
                self._head({"Content-Range": f"bytes */{len(content)}"})
                return
            self.send_response(state.status or (206 if start else 200))
            part = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
            self._head({"Content-Length": str(len(body)), **part})
            self.wfile.write(body[: state.breaks.pop(0)] if state.breaks else body)

        def _head(self, headers: dict[str, str]) -> None:
            for name, value in (headers | state.headers).items():
                if value is not None:
                    self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.url = f"http://127.0.0.1:{http.server_port}/archive.zip"
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        yield state
        http.shutdown()


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def tarred(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return buffer.getvalue()
