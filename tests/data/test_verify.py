"""Verify: one flipped byte, one missing and one surplus file are named."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.data.fetch import fetch
from fedshift.data.lists import REFERENCE, gather, own_lists, read_lists, write_table
from fedshift.data.verify import as_listed, verified, verify, write_manifest
from fedshift.storage.workspace import Workspace
from tests.data.conftest import draw, plant


@pytest.fixture
def tree(workspace: Workspace, tmp_path: Path) -> Path:
    """A user's tree of 8 images, fetched as release `mine`."""
    root = plant(tmp_path / "tree", "AB", "xy")
    fetch(workspace, "folder", "mine", root, say=lambda _: None)
    return root


def flip(path: Path) -> None:
    """Change one bit."""
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("caltech", ["caltech", "Caltech101"])
def test_an_image_of_another_size_is_named_in_any_spelling(
    workspace: Workspace, tmp_path: Path, caltech: str
) -> None:
    vlcs = get("datasets", "vlcs")
    tree = plant(tmp_path / "tree", [caltech, "labelme", "pascal", "sun"], vlcs.classes, each=1)
    fetch(workspace, "vlcs", "domainbed", tree, say=lambda _: None)
    as_listed(workspace, "vlcs", "domainbed")
    image = tree / caltech / "bird" / "0.png"
    image.write_bytes(image.read_bytes() + b"more")
    with pytest.raises(FedshiftError, match=r"changed since its files were listed: caltech/bird/0\.png"):
        as_listed(workspace, "vlcs", "domainbed")


def test_sound_tree_gets_a_stamp_with_the_published_hash(workspace: Workspace, tree: Path) -> None:
    facts = json.loads(verify(workspace, "folder", "mine").read_text())
    lines = sorted(
        f"{path.relative_to(tree).as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        for path in tree.rglob("*.png")
    )
    assert facts["files"] == 8
    assert facts["hash"] == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert facts["counts"] == {"A": {"x": 2, "y": 2}, "B": {"x": 2, "y": 2}}


def test_problems_are_named_and_the_old_stamp_goes(workspace: Workspace, tree: Path) -> None:
    stamp = verify(workspace, "folder", "mine")
    flip(tree / "A" / "x" / "1.png")
    (tree / "A" / "y" / "0.png").unlink()
    draw(tree / "B" / "y" / "new.png", seed=77)
    with pytest.raises(FedshiftError) as error:
        verify(workspace, "folder", "mine")
    assert error.value.what.splitlines()[1:] == [
        "  1 missing: A/y 1", "    A/y/0.png", "  1 surplus: B/y 1", "    B/y/new.png", "  1 corrupt: A/x 1", "    A/x/1.png",
    ]  # fmt: skip
    assert not stamp.exists()


@pytest.mark.parametrize("spoil", [flip, Path.unlink])
def test_a_tree_that_changed_since_its_stamp_is_verified_anew(
    workspace: Workspace, tree: Path, spoil: Callable[[Path], None]
) -> None:
    verified(workspace, "folder", "mine")
    spoil(tree / "A" / "x" / "1.png")
    with pytest.raises(FedshiftError, match=r"A/x/1\.png") as error:
        verified(workspace, "folder", "mine")
    assert "fedshift verify folder --release mine --write-manifest" in error.value.cure


def test_identical_files_are_reported_and_counts_drawn(workspace: Workspace, tree: Path) -> None:
    for copy in ("A/y/copy.png", "A/x/copy.png"):
        shutil.copy(tree / "A" / "x" / "0.png", tree / copy)
    write_manifest(workspace, "folder", "mine")
    stamp = verify(workspace, "folder", "mine")
    group = ["A/x/0.png", "A/x/copy.png", "A/y/copy.png"]
    assert json.loads(stamp.read_text())["duplicates"] == {
        "groups": 1, "surplus": 2, "domains": 0, "classes": 1, "files": [group],
    }  # fmt: skip
    with Image.open(stamp.with_suffix(".png")) as picture:
        assert picture.format == "PNG" and min(picture.size) > 100


def test_other_counts_than_published_need_a_word_of_the_user(workspace: Workspace, tmp_path: Path) -> None:
    dataset = get("datasets", "digits_dg")
    root = plant(tmp_path / "tree", dataset.domains, dataset.classes, each=1)
    fetch(workspace, "digits_dg", source=root, say=lambda _: None)
    with pytest.raises(FedshiftError, match="mnist: 10 images, 6,000 were published") as error:
        verify(workspace, "digits_dg")
    assert "--write-manifest" in error.value.cure
    write_manifest(workspace, "digits_dg", accept=True)
    assert json.loads(verify(workspace, "digits_dg").read_text())["accepted"] is True


def test_published_names_tell_what_is_missing_and_surplus(workspace: Workspace, tmp_path: Path) -> None:
    dataset = get("datasets", "office_home")
    for seed, path in enumerate(sorted(read_lists(REFERENCE / "office_home.csv.gz"))[::60]):
        draw(tmp_path / "tree" / path, seed, size=(2, 2))
    for domain in dataset.domains:
        for label in dataset.classes:
            draw(tmp_path / "tree" / domain / label / "new.png", size=(2, 2))
    fetch(workspace, "office_home", source=tmp_path / "tree", say=lambda _: None)
    with pytest.raises(FedshiftError) as error:
        verify(workspace, "office_home")
    assert "15,328 missing: art/Alarm_Clock 72," in error.value.what and "260 surplus" in error.value.what
    assert "art/Alarm_Clock/new.png" in error.value.what and "corrupt" not in error.value.what


def test_other_lists_are_another_state(workspace: Workspace, tmp_path: Path) -> None:
    dataset = get("datasets", "digits_dg")
    root = plant(tmp_path / "tree", dataset.domains, dataset.classes, each=1)
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "syn_train.txt").write_text("syn/3/0.png 3\n")
    raw = fetch(workspace, "digits_dg", "original", root, tmp_path / "lists", say=lambda _: None)
    assert dataset().index(raw).query("split == 'train'")["path"].tolist() == ["syn/3/0.png"]
    before = json.loads(write_manifest(workspace, "digits_dg", accept=True).read_text())["hash"]
    verify(workspace, "digits_dg")
    (tmp_path / "lists" / "syn_train.txt").write_text("syn/4/0.png 4\n")
    splits = gather(tmp_path / "lists", dataset().canonical)
    write_table(own_lists(raw), ("path", "split"), sorted(splits.items()))
    with pytest.raises(FedshiftError, match="the lists next to the tree were changed"):
        verify(workspace, "digits_dg")
    assert json.loads(write_manifest(workspace, "digits_dg").read_text())["hash"] != before


def test_lists_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(FedshiftError, match="holds no lists"):
        gather(tmp_path, str)
    (tmp_path / "real_train.txt").write_text("zebra.jpg 3\n")
    with pytest.raises(
        FedshiftError, match=r"real_train.txt:1: 'zebra.jpg 3' is not a path domain/class/file"
    ):
        gather(tmp_path, str)
