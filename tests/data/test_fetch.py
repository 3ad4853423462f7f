"""Fetch: links, instructions, and a download from a real server that breaks the connection."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from fedshift.data.dataset import Archive
from fedshift.data.datasets.pacs import PACS
from fedshift.data.download import download, unpack
from fedshift.data.fetch import fetch
from fedshift.data.verify import verify
from fedshift.errors import FedshiftError
from fedshift.workspace import Workspace
from tests.data.conftest import plant
from tests.data.server import FILE, Server, tarred, zipped


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


def test_from_links_and_never_copies(workspace: Workspace, tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree", "AB", "xy")
    raw = fetch(workspace, "folder", "mine", tree, say=lambda _: None)
    assert raw.is_symlink() and raw.resolve() == tree
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


def test_from_refuses_a_tree_that_does_not_fit(workspace: Workspace, tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree", ["photo"], ["dog"])
    with pytest.raises(FedshiftError, match="no images in art_painting/dog") as error:
        fetch(workspace, "pacs", source=tree, say=lambda _: None)
    assert error.value.where == str(tree)
    assert not workspace.raw("pacs", "original").exists()


def test_without_an_address_the_user_is_told_what_to_put_where(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PACS, "releases", {"original": replace(PACS.releases["original"], archives=())})
    with pytest.raises(FedshiftError) as error:
        fetch(workspace, "pacs", say=lambda _: None)
    assert "Domains: art_painting, cartoon, photo, sketch." in error.value.cure
    assert "Classes (7): dog, elephant, giraffe, guitar, horse, house, person." in error.value.cure
    assert "fedshift fetch pacs --release original --from PATH\n" in error.value.cure


def test_unknown_release_names_the_nearest(workspace: Workspace) -> None:
    with pytest.raises(FedshiftError, match="Did you mean 'original'"):
        fetch(workspace, "pacs", "orginal", say=lambda _: None)


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


def test_a_foreign_archive_is_refused_and_leaves_nothing(workspace: Workspace, tmp_path: Path) -> None:
    archive = tmp_path / "foreign.tar.gz"
    archive.write_bytes(tarred({"tree/A/x/0.png": b""}))
    with pytest.raises(FedshiftError, match="no domain's folder in it") as error:
        fetch(workspace, "pacs", source=archive, say=lambda _: None)
    assert error.value.where == str(archive)
    assert not list(workspace.raw("pacs", "original").parent.iterdir())


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


def test_lists_of_the_project_are_not_replaced(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(FedshiftError, match="its lists are part of the project"):
        fetch(workspace, "pacs", source=tmp_path, lists=tmp_path, say=lambda _: None)
