"""Fetch: links, instructions, and a download from a real server that breaks the connection."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.data.dataset import Archive
from fedshift.data.datasets.pacs import PACS
from fedshift.data.fetch import fetch
from fedshift.data.tree import LeftOut, left_out
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


def test_a_folder_of_the_users_own_is_never_removed(workspace: Workspace, tmp_path: Path) -> None:
    """It lies where a link would, and a second look at it finds a link that leads nowhere."""
    raw = plant(workspace.raw("folder", "mine"), "AB", "xy")
    assert fetch(workspace, "folder", "mine", raw, say=lambda _: None) == raw
    (raw / "A" / "x" / "gone.png").symlink_to(tmp_path / "nothing")
    with pytest.raises(FedshiftError, match=r"link to nothing: A/x/gone\.png"):
        fetch(workspace, "folder", "mine", raw, say=lambda _: None)
    assert raw.is_dir() and len(list(raw.rglob("*.png"))) > 4


def test_what_is_left_out_stays_as_it_was_where_a_fetch_fails(workspace: Workspace, tmp_path: Path) -> None:
    tree, other = plant(tmp_path / "tree", "AB", "xy"), plant(tmp_path / "other", "AB", "xy")
    (tree / "A" / "x" / "note.txt").write_text("a note")
    raw = workspace.raw("folder", "mine")
    with pytest.raises(FedshiftError, match="not an image"):
        fetch(workspace, "folder", "mine", tree, ignore=["*.md"], say=lambda _: None)
    assert left_out(raw) == LeftOut() and not raw.exists()
    fetch(workspace, "folder", "mine", tree, ignore=["*.txt"], say=lambda _: None)
    with pytest.raises(FedshiftError, match="exists already"):
        fetch(workspace, "folder", "mine", other, ignore=["*.md"], say=lambda _: None)
    assert left_out(raw).ignored == ("*.txt",)


def said(workspace: Workspace, name: str, tree: Path, lists: Path | None = None) -> str:
    lines: list[str] = []
    fetch(workspace, "folder", name, tree, lists, say=lines.append)
    return "\n".join(lines)


def test_folders_named_like_splits_are_told(workspace: Workspace, tmp_path: Path) -> None:
    as_domains, as_classes = (
        plant(tmp_path / "one", ["train", "Test"], "xy"),
        plant(tmp_path / "two", "AB", ["val", "test"]),
    )
    assert "warning: domains that are named like splits: Test, train." in said(workspace, "one", as_domains)
    assert "warning: classes that are named like splits: test, val." in said(workspace, "two", as_classes)
    assert "warning" not in said(workspace, "three", plant(tmp_path / "three", ["trainer", "testbed"], "xy"))


def test_tables_in_a_tree_are_not_taken_for_labels_silently(workspace: Workspace, tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree", "AB", "xy")
    (tree / "labels.csv").write_text("A/x/0.png,y\n")
    (tree / "B" / "classes.txt").write_text("x y\n")
    assert "not read: labels.csv, B/classes.txt." in said(workspace, "mine", tree)


@pytest.mark.parametrize(
    "lines",
    [
        ("A/x/0.png y", "A/y/0.png x"),  # the names are swapped
        ("A/x/0.png 0", "A/x/1.png 1", "A/y/0.png 1"),
        ("A/x/0.png 0", "A/y/0.png 0"),
        ("A/x/0.png x", "A/x/1.png y"),
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
    [
        (("", ""), "utf-8", "\n"),
        ((" 7", " 3"), "utf-8-sig", "  \r\n"),
        ((" x", " y"), "utf-16", "\r"),
        ((" n01", " n02"), "utf-8", "\r\n"),
        ((",1", ",2"), "utf-8", "\n"),
    ],
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


def test_a_name_that_is_taken_can_be_given_otherwise(workspace: Workspace, tmp_path: Path) -> None:
    first, second = (
        plant(tmp_path / "a" / "clinics", "AB", "xy"),
        plant(tmp_path / "b" / "clinics", "PQ", "xy"),
    )
    fetch(workspace, "folder", "clinics", first, say=lambda _: None)
    with pytest.raises(FedshiftError) as error:
        fetch(workspace, "folder", "clinics", second, say=lambda _: None)
    assert f"--data folder:NAME={second}" in error.value.cure
