"""Download from a real server that breaks off, refuses, and sends what was not asked for."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from fedshift.common import download as module
from fedshift.common.download import download
from fedshift.common.errors import FedshiftError
from tests.data.server import FILE, Server


def test_download_goes_on_where_the_connection_broke(server: Server, tmp_path: Path) -> None:
    server.breaks = [600_000]
    download(server.url, tmp_path / "file", hashlib.sha256(FILE).hexdigest(), pause=0)
    assert (tmp_path / "file").read_bytes() == FILE
    assert server.asked[0] is None and len(server.asked) == 2
    assert 0 < int(server.asked[1].removeprefix("bytes=").removesuffix("-")) <= 600_000  # type: ignore[union-attr]


def broken_off(server: Server, path: Path) -> int:
    """Bytes that a download left which broke off after half the file."""
    server.breaks = [len(server.content) // 2] + [0] * 9
    with pytest.raises(FedshiftError, match="cannot be downloaded") as error:
        download(server.url, path, pause=0)
    assert error.value.retry and not path.exists()
    server.breaks, server.asked = [], []
    return path.with_name(f"{path.name}.part").stat().st_size


def test_a_later_call_goes_on_from_the_part(server: Server, tmp_path: Path) -> None:
    have = broken_off(server, tmp_path / "file")
    assert have > 0
    download(server.url, tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == FILE and server.asked == [f"bytes={have}-"]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_complete_part_is_not_downloaded_again(server: Server, tmp_path: Path) -> None:
    broken_off(server, tmp_path / "file")
    (tmp_path / "file.part").write_bytes(FILE)
    download(server.url, tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == FILE


def test_a_server_without_ranges_sends_all_again(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    broken_off(server, tmp_path / "file")
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


NEW = bytes(reversed(FILE))  # another version, as long


@pytest.mark.parametrize("same_length", [True, False])
@pytest.mark.parametrize("tag", ["ETag", "Last-Modified", None])
def test_a_part_of_another_version_is_not_gone_on_with(
    server: Server, tmp_path: Path, tag: str | None, same_length: bool
) -> None:
    """Told by its tag or by its length; with neither there is nothing to tell it by but the SHA-256."""
    server.headers = {tag: '"1"'} if tag else {}
    broken_off(server, tmp_path / "file")
    server.content = NEW if same_length else NEW + b"more"
    server.headers = {tag: '"2"'} if tag else {}
    if tag is None and same_length:
        with pytest.raises(FedshiftError, match="SHA-256"):
            download(server.url, tmp_path / "file", hashlib.sha256(NEW).hexdigest(), pause=0)
        server.asked = []
    download(server.url, tmp_path / "file", hashlib.sha256(server.content).hexdigest(), pause=0)
    assert (tmp_path / "file").read_bytes() == server.content
    assert server.asked[-1] is None or tag == "ETag"  # that server sent all at once


def test_a_complete_part_of_another_version_is_downloaded_anew(server: Server, tmp_path: Path) -> None:
    server.headers = {"ETag": '"1"'}
    broken_off(server, tmp_path / "file")
    (tmp_path / "file.part").write_bytes(FILE)
    server.headers, server.content = {"ETag": '"2"'}, NEW
    download(server.url, tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == NEW


def test_a_part_of_which_the_version_is_torn_is_downloaded_anew(server: Server, tmp_path: Path) -> None:
    broken_off(server, tmp_path / "file")
    (tmp_path / "file.part.json").write_bytes(b"")
    download(server.url, tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == FILE and server.asked == [None]


@pytest.mark.parametrize("said", [None, "bytes 0-9/10", "bytes 5-9/1048576", "nonsense"])
def test_a_part_from_another_place_is_not_taken(server: Server, tmp_path: Path, said: str | None) -> None:
    broken_off(server, tmp_path / "file")
    server.headers = {"Content-Range": said}
    download(server.url, tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == FILE and server.asked[-1] is None


def test_a_part_that_was_not_asked_for_is_refused(server: Server, tmp_path: Path) -> None:
    server.status = 206
    with pytest.raises(FedshiftError, match="another part of the file than was asked for"):
        download(server.url, tmp_path / "file", pause=0)
    server.status = 416
    with pytest.raises(FedshiftError, match="not the beginning of the file"):
        download(server.url, tmp_path / "file", pause=0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("status", "headers", "said"),
    [
        (302, {}, "302 Found without a file"),
        (200, {"Content-Type": "text/html; charset=utf-8"}, "a web page instead of the file"),
    ],
)
def test_what_is_no_file_is_refused(
    server: Server, tmp_path: Path, status: int, headers: dict[str, str | None], said: str
) -> None:
    server.status, server.headers = status, headers
    with pytest.raises(FedshiftError, match=said):
        download(server.url, tmp_path / "file", pause=0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("length", ["abc", "-5", None])
def test_a_length_that_is_none_is_no_error(server: Server, tmp_path: Path, length: str | None) -> None:
    server.headers = {"Content-Length": length}
    download(server.url, tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == FILE


def test_two_downloads_of_one_file_do_not_mix(server: Server, tmp_path: Path) -> None:
    threads = [threading.Thread(target=download, args=(server.url, tmp_path / "file")) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "file").read_bytes() == FILE and len(server.asked) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_server_that_asks_to_wait_for_an_hour_is_not_obeyed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0)
    server.refusals, server.headers = [503], {"Retry-After": "3600"}
    download(server.url, tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == FILE


def test_a_full_disk_is_told_and_the_part_is_gone_on_with(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = module._receive

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_receive", full)
    with pytest.raises(FedshiftError, match="cannot be written: No space left on device") as error:
        download(server.url, tmp_path / "file", pause=0)
    assert error.value.retry
    monkeypatch.setattr(module, "_receive", receive)
    download(server.url, tmp_path / "file", pause=0)
    assert (tmp_path / "file").read_bytes() == FILE
