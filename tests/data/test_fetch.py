"""Fetch: links, instructions, and a download from a real server that breaks the connection."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fedshift.data.datasets.pacs import PACS
from fedshift.data.download import download, extract
from fedshift.data.fetch import fetch
from fedshift.data.verify import verify
from fedshift.errors import FedshiftError
from fedshift.workspace import Workspace
from tests.data.conftest import plant

FILE = bytes(range(256)) * 4096  # 1 MiB


@dataclass
class Server:
    """Serves `content`; each entry of `breaks` cuts one answer off after so many bytes, each of `refusals` is a status first."""

    content: bytes
    breaks: list[int] = field(default_factory=list)
    refusals: list[int] = field(default_factory=list)
    ranges: bool = True
    asked: list[str | None] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server(FILE)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers["Range"]
            state.asked.append(asked)
            if state.refusals:
                self.send_error(state.refusals.pop(0))
                return
            start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and state.ranges else 0  # type: ignore[index]
            body = state.content[start:]
            if start and not body:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(state.content)}")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: state.breaks.pop(0)] if state.breaks else body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.url = f"http://127.0.0.1:{http.server_port}/archive.zip"
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        yield state
        http.shutdown()


def test_download_goes_on_where_the_connection_broke(server: Server, tmp_path: Path) -> None:
    server.breaks = [600_000]
    download(server.url, tmp_path / "file", hashlib.sha256(FILE).hexdigest(), pause=0)
    assert (tmp_path / "file").read_bytes() == FILE
    assert server.asked[0] is None and len(server.asked) == 2
    assert 0 < int(server.asked[1].removeprefix("bytes=").removesuffix("-")) <= 600_000  # type: ignore[union-attr]


def test_a_later_call_goes_on_from_the_part(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(FILE[:1000])
    download(server.url, tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == FILE and server.asked == ["bytes=1000-"]


def test_a_complete_part_is_not_downloaded_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(FILE)
    download(server.url, tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == FILE


def test_a_server_without_ranges_sends_all_again(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "file.part").write_bytes(FILE[:1000])
    download(server.url, tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == FILE


def test_a_busy_server_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.refusals = [503, 502]
    download(server.url, tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == FILE and len(server.asked) == 3


def test_refusal_wrong_content_and_a_dead_server_are_told(server: Server, tmp_path: Path) -> None:
    server.refusals = [404]
    with pytest.raises(FedshiftError, match="404"):
        download(server.url, tmp_path / "file", pause=0)
    with pytest.raises(FedshiftError, match="SHA-256"):
        download(server.url, tmp_path / "file", "0" * 64, pause=0)
    server.breaks = [0] * 9
    with pytest.raises(FedshiftError, match="cannot be downloaded") as error:
        download(server.url, tmp_path / "file", pause=0)
    assert error.value.retry and not list(tmp_path.glob("file"))


def test_fetch_downloads_unpacks_and_verifies(
    server: Server, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = plant(tmp_path / "tree", PACS.domains, PACS.classes, each=1)
    server.content = zipped(
        {f"repo-abc/PACS/{path.relative_to(tree)}": path.read_bytes() for path in tree.rglob("*.png")}
    )
    server.breaks = [5000]
    facts = replace(PACS.releases["original"], url=server.url, manifest=None)
    monkeypatch.setattr(PACS, "releases", {"original": facts})
    said: list[str] = []
    raw = fetch(workspace, "pacs", say=said.append)
    assert raw.is_dir() and len(list(raw.rglob("*.png"))) == 28
    assert sorted(path.name for path in raw.parent.iterdir()) == [
        "original",
        "original.manifest.csv.gz",
        "original.manifest.json",
    ]
    assert any("licence: none stated" in line for line in said) and any(
        "untested address" in line for line in said
    )
    verify(workspace, "pacs")
    asked = len(server.asked)
    fetch(workspace, "pacs", say=said.append)
    assert len(server.asked) == asked


def test_from_links_and_never_copies(workspace: Workspace, tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree", "AB", "xy")
    raw = fetch(workspace, "folder", "mine", tree, say=lambda _: None)
    assert raw.is_symlink() and raw.resolve() == tree
    assert fetch(workspace, "folder", "mine", tree, say=lambda _: None) == raw
    with pytest.raises(FedshiftError, match="exists already"):
        fetch(workspace, "folder", "mine", plant(tmp_path / "other", "A", "x"), say=lambda _: None)


def test_from_refuses_a_tree_that_does_not_fit(workspace: Workspace, tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree", ["photo"], ["dog"])
    with pytest.raises(FedshiftError, match="no images in art_painting/dog"):
        fetch(workspace, "pacs", source=tree, say=lambda _: None)
    assert not workspace.raw("pacs", "original").exists()


def test_without_an_address_the_user_is_told_what_to_put_where(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PACS, "releases", {"original": replace(PACS.releases["original"], url=None)})
    with pytest.raises(FedshiftError) as error:
        fetch(workspace, "pacs", say=lambda _: None)
    assert "domains: art_painting, cartoon, photo, sketch" in error.value.cure
    assert error.value.cure.endswith("fedshift fetch pacs --release original --from DIR")


def test_unknown_release_names_the_nearest(workspace: Workspace) -> None:
    with pytest.raises(FedshiftError, match="Did you mean 'original'"):
        fetch(workspace, "pacs", "orginal", say=lambda _: None)


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_members_that_would_leave_the_folder_are_refused(tmp_path: Path, kind: str) -> None:
    members = {"tree/A/x/0.png": b"", "../evil": b"x"}
    archive = tmp_path / "inner" / "archive"
    archive.parent.mkdir()
    archive.write_bytes(zipped(members) if kind == "zip" else tarred(members))
    with pytest.raises(FedshiftError, match="cannot be unpacked"):
        extract(archive, "tree", tmp_path / "inner" / "raw")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["archive"]


def test_damaged_archive_and_missing_folder(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(b"not an archive")
    with pytest.raises(FedshiftError, match="cannot be unpacked"):
        extract(archive, "*", tmp_path / "raw")
    archive.write_bytes(tarred({"tree/A/x/0.png": b""}))
    with pytest.raises(FedshiftError, match="0 folders match"):
        extract(archive, "*/PACS", tmp_path / "raw")
    extract(archive, "tree", tmp_path / "raw")
    assert (tmp_path / "raw" / "A" / "x" / "0.png").exists()


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
