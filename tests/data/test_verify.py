"""Verify: one flipped byte, one missing and one surplus file are named."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from fedshift.data.fetch import fetch
from fedshift.data.verify import manifest, stamp_path, verified, verify, write_manifest
from fedshift.errors import FedshiftError
from fedshift.workspace import Workspace
from tests.data.conftest import draw, plant


@pytest.fixture
def tree(workspace: Workspace, tmp_path: Path) -> Path:
    """A user's tree of 8 images, fetched as release `mine`."""
    root = plant(tmp_path / "tree", "AB", "xy")
    fetch(workspace, "folder", "mine", root, say=lambda _: None)
    return root


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
    flipped = tree / "A" / "x" / "1.png"
    content = bytearray(flipped.read_bytes())
    content[-20] ^= 1
    flipped.write_bytes(bytes(content))
    (tree / "A" / "y" / "0.png").unlink()
    draw(tree / "B" / "y" / "new.png", seed=77)
    with pytest.raises(FedshiftError) as error:
        verify(workspace, "folder", "mine")
    assert error.value.what.splitlines()[1:] == [
        "  1 missing: A/y 1", "    A/y/0.png", "  1 surplus: B/y 1", "    B/y/new.png", "  1 corrupt: A/x 1", "    A/x/1.png",
    ]  # fmt: skip
    assert not stamp.exists()


def test_verified_runs_once_and_again_for_another_manifest(workspace: Workspace, tree: Path) -> None:
    stamp = verified(workspace, "folder", "mine")
    written = stamp.stat().st_mtime_ns
    assert verified(workspace, "folder", "mine").stat().st_mtime_ns == written
    draw(tree / "B" / "y" / "new.png", seed=77)
    write_manifest(workspace, "folder", "mine")
    verified(workspace, "folder", "mine")
    assert json.loads(stamp.read_text())["files"] == 9


def test_manifest_is_the_same_bytes_when_written_again(workspace: Workspace, tree: Path) -> None:
    path = write_manifest(workspace, "folder", "mine")
    first = path.read_bytes(), path.with_suffix(".csv.gz").read_bytes()
    write_manifest(workspace, "folder", "mine")
    assert (path.read_bytes(), path.with_suffix(".csv.gz").read_bytes()) == first


def test_damaged_list_is_told_apart_from_damaged_images(workspace: Workspace, tree: Path) -> None:
    path = write_manifest(workspace, "folder", "mine")
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "hash": "0" * 64}))
    with pytest.raises(FedshiftError, match="does not match the hash in its manifest"):
        verify(workspace, "folder", "mine")


def test_absent_manifest_says_what_to_run(workspace: Workspace) -> None:
    with pytest.raises(FedshiftError, match="fedshift fetch folder --release mine"):
        manifest(workspace, "folder", "mine")


def test_embedded_digits_match_the_projects_manifest(workspace: Workspace) -> None:
    verify(workspace, "digits")
    assert json.loads(stamp_path(workspace, "digits", "original").read_text())["files"] == 1797
