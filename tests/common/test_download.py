"""Download from a real server that breaks off, refuses, and sends what was not asked for."""

import hashlib
from pathlib import Path

import pytest
from urllib3 import Retry

from fedshift.common import download as module
from fedshift.common.download import download
from fedshift.common.errors import FedshiftError
from tests.data.server import FILE, Server

HASH = hashlib.sha256(FILE).hexdigest()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY", Retry(3, status_forcelist=[502, 503], retry_after_max=0))


@pytest.mark.parametrize("length", ["abc", "-5", None, str(len(FILE))])
def test_a_whole_file_arrives_and_nothing_else(server: Server, tmp_path: Path, length: str | None) -> None:
    server.headers = {"Content-Length": length}
    download(server.url, tmp_path / "file", HASH[:8])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == FILE


def test_a_busy_server_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.refusals, server.headers = [503, 502], {"Retry-After": "3600"}
    download(server.url, tmp_path / "file", HASH)
    assert (tmp_path / "file").read_bytes() == FILE and len(server.asked) == 3


@pytest.mark.parametrize(
    ("trouble", "retry"),
    [
        ({"refusals": [404]}, False),
        ({"refusals": [503] * 9}, True),
        ({"breaks": [600_000]}, True),
        ({"content": FILE[:-1]}, True),
    ],
)
def test_what_is_not_the_whole_file_leaves_nothing(
    server: Server, tmp_path: Path, trouble: dict[str, object], retry: bool
) -> None:
    for name, value in trouble.items():
        setattr(server, name, value)
    with pytest.raises(FedshiftError) as error:
        download(server.url, tmp_path / "file", HASH)
    assert error.value.where == server.url and error.value.retry is retry and error.value.cure
    assert not list(tmp_path.iterdir())


def test_a_dead_server_is_told(tmp_path: Path) -> None:
    with pytest.raises(FedshiftError) as error:
        download("http://127.0.0.1:1/file", tmp_path / "file")
    assert error.value.where == "http://127.0.0.1:1/file" and error.value.retry
