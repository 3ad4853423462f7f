"""Archives: what is refused, before anything is unpacked."""

from __future__ import annotations

import io
import random
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.data import archive as module
from fedshift.data.archive import unpack
from tests.data.server import tarred, zipped


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_members_that_would_leave_the_folder_are_refused(tmp_path: Path, kind: str) -> None:
    members = {"tree/A/x/0.png": b"", "../evil": b"x"}
    archive = tmp_path / "inner" / "archive"
    (tmp_path / "inner" / "raw").mkdir(parents=True)
    archive.write_bytes(zipped(members) if kind == "zip" else tarred(members))
    with pytest.raises(FedshiftError, match="cannot be unpacked"):
        unpack(archive, tmp_path / "inner" / "raw")
    assert not list(tmp_path.rglob("evil"))


def test_damaged_archive_is_told(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(b"not an archive")
    with pytest.raises(FedshiftError, match="cannot be unpacked: file could not be opened successfully\n"):
        unpack(archive, tmp_path / "raw")


def special(kind: bytes) -> bytes:
    """A tar archive with a member of a kind beside a file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        whole = tarfile.TarInfo("tree/file")
        file.addfile(whole, io.BytesIO())
        member = tarfile.TarInfo("tree/odd")
        member.type, member.linkname = kind, "file"
        file.addfile(member)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.FIFOTYPE])
def test_a_tar_holds_files_and_folders_alone(tmp_path: Path, kind: bytes) -> None:
    (tmp_path / "archive").write_bytes(special(kind))
    with pytest.raises(FedshiftError, match="member 'tree/odd' is neither file nor folder"):
        unpack(tmp_path / "archive", tmp_path / "raw")
    assert not (tmp_path / "raw").exists()


def test_a_zip_holds_files_and_folders_alone(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "archive", "w") as file:
        link = zipfile.ZipInfo("tree/odd")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(link, "/etc/passwd")
    with pytest.raises(FedshiftError, match="member 'tree/odd' is neither file nor folder"):
        unpack(tmp_path / "archive", tmp_path / "raw")
    assert not (tmp_path / "raw").exists()


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_that_unpacks_to_far_more_than_itself_is_refused(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SMALL", 1 << 20)
    members = {f"tree/{i}": bytes(1 << 20) for i in range(4)}
    if kind == "zip":
        with zipfile.ZipFile(tmp_path / "archive", "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in members.items():
                file.writestr(name, content)
    else:
        (tmp_path / "archive").write_bytes(tarred(members))
    with pytest.raises(FedshiftError, match="more than 200 times its own size"):
        unpack(tmp_path / "archive", tmp_path / "raw")
    assert not (tmp_path / "raw").exists()


def test_an_archive_larger_than_the_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "archive").write_bytes(zipped({"tree/0": bytes(1 << 20)}))
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    with pytest.raises(FedshiftError, match=r"it holds 0\.0 GB, 0\.0 GB are free"):
        unpack(tmp_path / "archive", tmp_path / "raw")


@pytest.mark.parametrize(("field", "said"), [("flag", "encrypted"), ("method", "compression")])
def test_a_zip_that_python_cannot_read_is_told(tmp_path: Path, field: str, said: str) -> None:
    """Encrypted, or by Deflate64: the flag and the method in both headers of a member."""
    data = bytearray(zipped({"tree/0": b"content"}))
    local, central = data.index(b"PK\3\4"), data.index(b"PK\1\2")
    offset, value = (6, 1) if field == "flag" else (8, 9)
    data[local + offset] = data[central + offset + 2] = value
    (tmp_path / "archive").write_bytes(data)
    with pytest.raises(FedshiftError, match=f"cannot be unpacked: .*{said}"):
        unpack(tmp_path / "archive", tmp_path / "raw")


def test_a_damaged_xz_is_told(tmp_path: Path) -> None:
    """Far behind its beginning, which tarfile reads before it calls a file an archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as file:
        member = tarfile.TarInfo("tree/A/x/0.png")
        member.size = 1 << 20
        file.addfile(member, io.BytesIO(random.Random(0).randbytes(member.size)))
    whole = buffer.getvalue()
    late = len(whole) * 3 // 4
    (tmp_path / "archive").write_bytes(whole[:late] + bytes(4096) + whole[late + 4096 :])
    with pytest.raises(FedshiftError, match="cannot be unpacked: "):
        unpack(tmp_path / "archive", tmp_path / "raw")
