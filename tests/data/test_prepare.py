"""Prepare: exact pixels, one order whatever the number of processes, whole folders, named damage."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedshift.data import prepare as module
from fedshift.data.columns import write_columns
from fedshift.data.fetch import fetch
from fedshift.data.prepare import load, prepare, verify_prepared
from fedshift.data.verify import write_manifest
from fedshift.errors import FedshiftError
from fedshift.spec import Prepare
from fedshift.workspace import Workspace
from tests.data.conftest import plant

PX = Prepare(px=8)


@pytest.fixture
def tree(workspace: Workspace, tmp_path: Path) -> Path:
    """A user's tree of 8 images of 12 x 10, fetched as release `mine`."""
    root = plant(tmp_path / "tree", "AB", "xy")
    fetch(workspace, "folder", "mine", root, say=lambda _: None)
    return root


def test_pixels_and_index_agree_with_the_files(workspace: Workspace, tree: Path) -> None:
    folder = prepare(workspace, "folder", "mine", PX)
    images, index = load(folder)
    assert images.shape == (8, 8, 8, 3) and images.dtype == np.uint8 and isinstance(images, np.memmap)
    assert index.columns.tolist() == ["sample", "path", "domain", "class", "label", "split", "group"]
    assert index.dtypes.astype(str).tolist() == ["int32", "str", "str", "str", "int16", "str", "int32"]
    assert index["sample"].tolist() == list(range(8))
    for sample, path in zip(index["sample"], index["path"], strict=True):
        expected = Image.open(tree / path).resize((8, 8), Image.Resampling.BILINEAR)
        np.testing.assert_array_equal(images[sample], np.asarray(expected))


def test_shrinking_is_antialiased() -> None:
    checks = Image.fromarray(np.kron(np.ones((32, 32)), np.diag([255, 255])[::-1]).astype(np.uint8))
    shrunk = np.asarray(checks.resize((8, 8), module.RESAMPLING["bilinear"]), dtype=float)
    assert abs(shrunk - 127.5).max() < 2


def test_second_call_keeps_the_folder(workspace: Workspace, tree: Path) -> None:
    folder = prepare(workspace, "folder", "mine", PX)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    shutil.rmtree(tree)  # the raw images are not needed again
    assert prepare(workspace, "folder", "mine", PX) == folder
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert sorted(before) == ["images.npy", "index.parquet", "prepared.json"]


def test_processes_change_nothing(workspace: Workspace, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 3)
    folder = prepare(workspace, "folder", "mine", PX, jobs=1)
    alone = json.loads((folder / "prepared.json").read_text())
    shutil.rmtree(folder)
    monkeypatch.setattr(module, "IMAGES_PER_PROCESS", 4)
    prepare(workspace, "folder", "mine", PX, jobs=2)
    assert json.loads((folder / "prepared.json").read_text()) == alone


def test_unreadable_images_are_all_named_and_nothing_is_left(workspace: Workspace, tree: Path) -> None:
    whole = (tree / "A" / "x" / "0.png").read_bytes()
    (tree / "A" / "x" / "0.png").write_bytes(whole[:200])
    (tree / "B" / "y" / "1.png").write_bytes(b"not an image")
    write_manifest(workspace, "folder", "mine")
    with pytest.raises(FedshiftError, match="2 images cannot be read") as error:
        prepare(workspace, "folder", "mine", PX)
    assert "A/x/0.png: " in error.value.what and "B/y/1.png: " in error.value.what
    assert not any(workspace.prepared_at("folder", "mine", PX).parent.iterdir())


def test_unverified_images_are_refused(workspace: Workspace, tree: Path) -> None:
    (tree / "A" / "x" / "0.png").unlink()
    with pytest.raises(FedshiftError, match="1 missing"):
        prepare(workspace, "folder", "mine", PX)


def test_a_changed_pixel_is_found(workspace: Workspace, tree: Path) -> None:
    folder = prepare(workspace, "folder", "mine", PX)
    images = np.load(folder / "images.npy", mmap_mode="r+")
    images[3, 2, 1, 0] ^= 1
    images.flush()
    with pytest.raises(FedshiftError, match=r"images\.npy: does not match"):
        verify_prepared(folder)


def test_a_changed_label_is_found(workspace: Workspace, tree: Path) -> None:
    folder = prepare(workspace, "folder", "mine", PX)
    path = folder / "index.parquet"
    index = load(folder)[1]
    index.loc[3, "label"] = 0
    write_columns(path, index, {})  # sound in itself
    with pytest.raises(FedshiftError, match=r"index\.parquet: does not match"):
        verify_prepared(folder)
    index.to_parquet(path)  # without its hash
    with pytest.raises(FedshiftError, match=r"index\.parquet: is damaged"):
        verify_prepared(folder)


def test_other_images_under_the_same_release_are_refused(workspace: Workspace, tree: Path) -> None:
    prepare(workspace, "folder", "mine", PX)
    (tree / "A" / "x" / "0.png").unlink()
    write_manifest(workspace, "folder", "mine")
    with pytest.raises(FedshiftError, match="another state of folder mine"):
        prepare(workspace, "folder", "mine", PX)


def test_digits_are_prepared_without_a_raw_tree(workspace: Workspace) -> None:
    folder = prepare(workspace, "digits")
    images, index = load(folder)
    facts = verify_prepared(folder)
    assert images.shape == (1797, 32, 32, 3)
    assert facts["domains"] == ["plain", "ink", "texture", "outline"] and facts["classes"] == list(
        "0123456789"
    )
    assert index.groupby("domain", sort=False).size().tolist() == [454, 451, 447, 445]
