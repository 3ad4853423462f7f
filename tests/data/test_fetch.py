"""Fetch: links, archives that are refused before anything is unpacked, lists, and a download from a real server."""

import hashlib
import io
import stat
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.data import archive as module
from fedshift.data.archive import unpack
from fedshift.data.dataset import Archive
from fedshift.data.datasets.pacs import PACS
from fedshift.data.fetch import fetch
from fedshift.data.verify import verify
from fedshift.storage.workspace import Workspace
from tests.data.conftest import plant
from tests.data.server import Server, tarred, zipped


def test_fetch_downloads_unpacks_and_verifies(
    server: Server, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = plant(tmp_path / "tree", PACS.domains, PACS.classes, each=1)
    server.content = zipped(
        {f"repo-abc/PACS/{path.relative_to(tree)}": path.read_bytes() for path in tree.rglob("*.png")}
    )
    facts = replace(PACS.releases["original"], archives=(Archive(server.url, "this test"),), manifest=None)
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
    raw.rename(tmp_path / "away")
    raw.symlink_to(tmp_path / "gone")  # whose tree was moved
    assert fetch(workspace, "pacs", say=said.append).is_dir() and not raw.is_symlink()


def test_a_tree_from_an_archive_is_for_others_too(workspace: Workspace, tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree", "AB", "xy")
    (tmp_path / "t.zip").write_bytes(
        zipped({path.relative_to(tree).as_posix(): path.read_bytes() for path in tree.rglob("*.png")})
    )
    raw = fetch(workspace, "folder", "mine", tmp_path / "t.zip", say=lambda _: None)
    assert raw.stat().st_mode == raw.parent.stat().st_mode


def test_from_links_and_never_copies(workspace: Workspace, tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree", "AB", "xy")
    raw = fetch(workspace, "folder", "mine", tree, say=lambda _: None)
    assert raw.is_symlink() and raw.resolve() == tree
    tree.rename(tmp_path / "unmounted")
    with pytest.raises(FedshiftError, match="which is not there"):
        fetch(workspace, "folder", "mine", say=lambda _: None)
    (tmp_path / "unmounted").rename(tree)
    assert fetch(workspace, "folder", "mine", tree, say=lambda _: None) == raw
    with pytest.raises(FedshiftError, match="exists already"):
        fetch(workspace, "folder", "mine", plant(tmp_path / "other", "A", "x"), say=lambda _: None)


def test_a_tree_that_is_there_keeps_its_manifest(workspace: Workspace, tmp_path: Path) -> None:
    """Else a second fetch would take a harmed tree for right."""
    tree = plant(tmp_path / "tree", "AB", "xy")
    fetch(workspace, "folder", "mine", tree, say=lambda _: None)
    (tree / "A" / "x" / "0.png").unlink()
    for source in ((), tree):
        fetch(workspace, "folder", "mine", source, say=lambda _: None)
        with pytest.raises(FedshiftError, match="1 missing: A/x 1"):
            verify(workspace, "folder", "mine")
    workspace.raw("folder", "mine").unlink()
    fetch(workspace, "folder", "mine", tree, say=lambda _: None)  # brought anew
    verify(workspace, "folder", "mine")


def test_archives_on_this_machine_are_unpacked_into_one_tree(workspace: Workspace, tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree", PACS.domains, PACS.classes, each=1)
    archives = []
    for domain in PACS.domains:
        members = {
            f"some/levels/{p.relative_to(tree)}": p.read_bytes() for p in (tree / domain).rglob("*.png")
        }
        archives.append(tmp_path / f"{domain}.tar.gz")
        archives[-1].write_bytes(tarred(members))
    raw = fetch(workspace, "pacs", source=archives, say=lambda _: None)
    assert PACS().paths(raw) == PACS().paths(tree) and not raw.is_symlink()
    assert [path.name for path in raw.parent.iterdir()] == ["original"]


def test_archives_stay_until_all_are_there(
    server: Server, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = plant(tmp_path / "tree", PACS.domains, PACS.classes, each=1)
    base, archives = server.url.removesuffix("/archive.zip"), []
    for domain in PACS.domains:
        images = {
            path.relative_to(tree).as_posix(): path.read_bytes() for path in (tree / domain).rglob("*.png")
        }
        server.files[f"/{domain}.zip"] = zipped(images)
        archives.append(Archive(f"{base}/{domain}.zip", "this test"))
    photo = server.files.pop("/photo.zip")
    server.content = b"another page"
    wrong = replace(archives[2], sha256=hashlib.sha256(photo).hexdigest())
    facts = replace(PACS.releases["original"], archives=(*archives[:2], wrong, archives[3]), manifest=None)
    monkeypatch.setattr(PACS, "releases", {"original": facts})
    with pytest.raises(FedshiftError, match=r"photo\.zip: SHA-256 is"):
        fetch(workspace, "pacs", say=lambda _: None)
    assert not workspace.raw("pacs", "original").exists() and len(server.asked) == 3
    server.files["/photo.zip"] = photo
    raw = fetch(workspace, "pacs", say=lambda _: None)
    assert len(server.asked) == 5 and PACS().paths(raw) == PACS().paths(tree)
    assert {path.name for path in raw.parent.iterdir()} == {
        "original", "original.manifest.json", "original.manifest.csv.gz",
    }  # fmt: skip


def test_a_folder_of_the_users_own_is_never_removed(workspace: Workspace, tmp_path: Path) -> None:
    """It lies where a link would, and a second look at it finds a link that leads nowhere."""
    raw = plant(workspace.raw("folder", "mine"), "AB", "xy")
    assert fetch(workspace, "folder", "mine", raw, say=lambda _: None) == raw
    (raw / "A" / "x" / "gone.png").symlink_to(tmp_path / "nothing")
    with pytest.raises(FedshiftError, match=r"link to nothing: A/x/gone\.png"):
        fetch(workspace, "folder", "mine", raw, say=lambda _: None)
    assert raw.is_dir() and len(list(raw.rglob("*.png"))) > 4


def said(workspace: Workspace, name: str, tree: Path, lists: Path | None = None) -> str:
    lines: list[str] = []
    fetch(workspace, "folder", name, tree, lists, say=lines.append)
    return "\n".join(lines)


@pytest.mark.parametrize(
    "lines",
    [
        ("A/x/0.png y", "A/y/0.png x"),  # the names are swapped
        ("A/x/0.png 0", "A/x/1.png 1", "A/y/0.png 1"),
    ],
)
def test_labels_that_contradict_the_folders_are_named(
    workspace: Workspace, tmp_path: Path, lines: tuple[str, ...]
) -> None:
    tree, lists = plant(tmp_path / "tree", "AB", "xy"), tmp_path / "lists"
    lists.mkdir()
    (lists / "A_train.txt").write_text("\n".join(lines))
    with pytest.raises(FedshiftError, match=r"A_train\.txt: its labels contradict the folders: A/"):
        fetch(workspace, "folder", "mine", tree, lists, say=lambda _: None)
    assert not workspace.raw("folder", "mine").exists()


@pytest.mark.parametrize(
    ("labels", "encoding", "end"),
    [(("", ""), "utf-8", "\n"), ((" x", " y"), "utf-16", "\r"), ((",1", ",2"), "utf-8-sig", "  \r\n")],
)
def test_lists_of_any_system(
    workspace: Workspace, tmp_path: Path, labels: tuple[str, str], encoding: str, end: str
) -> None:
    tree, lists = plant(tmp_path / "tree", "AB", "xy"), tmp_path / "lists"
    lists.mkdir()
    lines = [f"A/x/0.png{labels[0]}", f"data/A/y/1.png{labels[1]}", f"A/y/gone.png{labels[1]}"]
    (lists / "A_test.txt").write_bytes(end.join(lines).encode(encoding))
    told = said(workspace, "mine", tree, lists)
    assert "lists: 3 images; not in the tree: 1 A/y/gone.png" in told
    index = get("datasets", "folder")().index(workspace.raw("folder", "mine"))
    assert index.query("split == 'test'")["path"].tolist() == ["A/x/0.png", "A/y/1.png"]


def tarred_member(kind: bytes) -> bytes:
    """A tar archive with a member of a kind beside a file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        file.addfile(tarfile.TarInfo("tree/file"), io.BytesIO())
        member = tarfile.TarInfo("tree/odd")
        member.type, member.linkname = kind, "file"
        file.addfile(member)
    return buffer.getvalue()


def zipped_link() -> bytes:
    link = zipfile.ZipInfo("tree/odd")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(link, "/etc/passwd")
    return buffer.getvalue()


def unreadable(field: int, value: int) -> bytes:
    """A zip archive with a value at a place in both headers of its member."""
    data = bytearray(zipped({"tree/0": b"content"}))
    local, central = data.index(b"PK\3\4"), data.index(b"PK\1\2")
    data[local + field] = data[central + field + 2] = value
    return bytes(data)


def swollen() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for i in range(4):
            file.writestr(f"tree/{i}", bytes(1 << 20))
    return buffer.getvalue()


EVIL = {"../evil": b"x", "tree/A/x/0.png": b""}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (zipped(EVIL), "would leave the folder"),
        (tarred(EVIL), "cannot be unpacked"),
        (tarred_member(tarfile.SYMTYPE), "member 'tree/odd' is neither file nor folder"),
        (tarred_member(tarfile.FIFOTYPE), "member 'tree/odd' is neither file nor folder"),
        (zipped_link(), "member 'tree/odd' is neither file nor folder"),
        (swollen(), "more than 200 times its own size"),
        (tarred({f"tree/{i}": bytes(1 << 20) for i in range(4)}), "more than 200 times its own size"),
        (unreadable(6, 1), "cannot be unpacked: .*encrypted"),
        (unreadable(8, 9), "cannot be unpacked: .*compression"),  # Deflate64
    ],
    ids=range(9),
)
def test_archives_that_are_refused(
    tmp_path: Path, content: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is unpacked."""
    monkeypatch.setattr(module, "SMALL", 1 << 20)
    archive = tmp_path / "inner" / "archive"
    archive.parent.mkdir()
    archive.write_bytes(content)
    with pytest.raises(FedshiftError, match=said):
        unpack(archive, tmp_path / "inner" / "raw")
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path != archive]


def test_a_download_of_something_else_says_what_to_remove(
    server: Server, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.content = zipped({"tree/A/x/0.png": b""})
    facts = replace(PACS.releases["original"], archives=(Archive(server.url, "this test"),))
    monkeypatch.setattr(PACS, "releases", {"original": facts})
    with pytest.raises(FedshiftError, match="no domain's folder in it") as error:
        fetch(workspace, "pacs", say=lambda _: None)
    assert f"Remove {error.value.where} to download it again" in error.value.cure
    (kept,) = Path(error.value.where).iterdir()
    assert kept.name == "archive.zip" and kept.read_bytes() == server.content
