"""A real HTTP server of one machine that can break connections, and archives for it to serve."""

import contextlib
import io
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

    `headers` are sent with every file, in place of those that would be (None: not at all); `asked`: the paths of all requests.
    """

    content: bytes
    files: dict[str, bytes] = field(default_factory=dict)
    breaks: list[int] = field(default_factory=list)
    refusals: list[int] = field(default_factory=list)
    headers: dict[str, str | None] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """A running server on 127.0.0.1; `url` is its archive.zip."""
    state = Server(FILE)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            if state.refusals:
                self.send_error(state.refusals.pop(0))
                return
            content = state.files.get(self.path, state.content)
            self.send_response(200)
            for name, value in ({"Content-Length": str(len(content))} | state.headers).items():
                if value is not None:
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content[: state.breaks.pop(0)] if state.breaks else content)

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
