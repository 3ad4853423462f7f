"""Releases made from another tree: re-encoded copies, and PACS from HDF5."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from fedshift.common.errors import FedshiftError
from fedshift.data.datasets.pacs import PACS
from fedshift.data.fetch import fetch
from fedshift.data.partition import divide, partition
from fedshift.data.prepare import load_prepared, prepare
from fedshift.data.verify import manifest, verify, write_manifest
from fedshift.spec import Prepare
from fedshift.storage.workspace import Workspace
from fedshift.training.run import Machine, train
from tests.data.conftest import draw, plant
from tests.data.miniatures import FOLDERS, Layout
from tests.data.test_miniatures import spec_of
from tests.data.test_partition import make_spec


def test_jpeg256_is_smaller_deterministic_and_keeps_the_split(workspace: Workspace, tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree", PACS.domains, PACS.classes, each=1)
    draw(tree / "sketch" / "dog" / "n02103406_343-1.png", seed=1, size=(600, 400))  # on the official lists
    draw(tree / "photo" / "dog" / "small.jpg", seed=2, size=(20, 40))
    raw = fetch(workspace, "pacs", "jpeg256", tree, say=lambda _: None)
    assert not raw.is_symlink() and len(PACS().paths(raw)) == len(PACS().paths(tree)) == 30
    with Image.open(raw / "sketch" / "dog" / "n02103406_343-1.png.jpg") as image:
        assert image.format == "JPEG" and image.size == (384, 256)
    with Image.open(raw / "photo" / "dog" / "small.jpg") as image:
        assert image.size == (20, 40)  # never enlarged
    before = manifest(workspace, "pacs", "jpeg256")["hash"]
    verify(workspace, "pacs", "jpeg256")
    words = [PACS().index(folder)["split"].tolist() for folder in (tree, raw)]
    assert words[0] == words[1] and set(words[0]) == {"", "crossval"}
    other = Workspace(tmp_path / "other")
    fetch(other, "pacs", "jpeg256", tree, say=lambda _: None)
    assert manifest(other, "pacs", "jpeg256")["hash"] == before
    with pytest.raises(FedshiftError, match="exists already"):
        fetch(workspace, "pacs", "jpeg256", tree, say=lambda _: None)


def test_pacs_from_its_hdf5_files(workspace: Workspace, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    pixels = np.random.default_rng(0).integers(0, 256, (14, 6, 5, 3), dtype=np.uint8)
    (tmp_path / "hdf5").mkdir()
    for domain in PACS.domains:
        for word, rows in (("train", slice(0, 14)), ("val", slice(0, 7)), ("test", slice(0, 14))):
            with h5py.File(tmp_path / "hdf5" / f"{domain}_{word}.hdf5", "w") as file:
                file["images"], file["labels"] = pixels[rows], np.tile(np.arange(1, 8), 2)[rows]
    raw = fetch(workspace, "pacs", "hdf5", tmp_path / "hdf5", say=lambda _: None)
    index = PACS().index(raw)
    assert index.groupby(["domain", "split"]).size().unique().tolist() == [7, 14]
    assert index["label"].value_counts().unique().tolist() == [12]
    found = np.asarray(PACS().image(raw, "photo/elephant/train/00008.png"))
    np.testing.assert_array_equal(found, pixels[8, :, :, ::-1])  # stored blue, green, red
    with pytest.raises(FedshiftError, match="art_painting: 21 images, 2,048 were published"):
        verify(workspace, "pacs", "hdf5")
    write_manifest(workspace, "pacs", "hdf5", accept=True)
    content = load_prepared(prepare(workspace, "pacs", "hdf5", Prepare(px=16), jobs=1))
    images, prepared = content.pixels, content.index
    assert images.shape == (84, 16, 16, 3) and prepared["split"].tolist() == index["split"].tolist()
    spec = make_spec(dataset="pacs", target="photo")
    official = spec.partition.model_copy(update={"split": "official"})
    table = divide(prepared, spec.model_copy(update={"partition": official}))
    counts = table[table["client"] >= 0].groupby(["client", "split"]).size().unstack()
    assert counts.to_numpy().tolist() == [[14, 7]] * 3 and counts.columns.tolist() == ["train", "val"]
    run = spec_of(Layout("pacs", "hdf5", dict, 84, FOLDERS), "photo")
    partition(workspace, run)
    summary = train(workspace, run, Machine(torch.device("cpu")))
    assert [(client["train"], client["val"]) for client in summary["clients"]] == [(14, 7)] * 3


def no_hdf5(path: Path, h5py: Any) -> None:
    path.write_text("<html>")


def no_labels(path: Path, h5py: Any) -> None:
    with h5py.File(path, "w") as file:
        file["images"] = np.zeros((2, 4, 4, 3), dtype=np.uint8)


def labels_from_0(path: Path, h5py: Any) -> None:
    with h5py.File(path, "w") as file:
        file["images"], file["labels"] = np.zeros((2, 4, 4, 3), dtype=np.uint8), [0, 6]


def grey(path: Path, h5py: Any) -> None:
    with h5py.File(path, "w") as file:
        file["images"], file["labels"] = np.zeros((2, 4, 4), dtype=np.uint8), [1, 7]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (no_hdf5, "cannot be read: "),
        (no_labels, "holds no dataset labels"),
        (labels_from_0, r"labels \[n\] from 1 to 7"),
        (grey, r"images \[n, height, width, 3\]"),
    ],
)
def test_hdf5_files_of_another_kind_are_refused(
    workspace: Workspace, tmp_path: Path, spoil: Callable[[Path, Any], None], reason: str
) -> None:
    spoil(tmp_path / "art_painting_train.hdf5", pytest.importorskip("h5py"))
    with pytest.raises(FedshiftError, match=rf"art_painting_train\.hdf5: .*{reason}"):
        fetch(workspace, "pacs", "hdf5", tmp_path, say=lambda _: None)
    assert not list(workspace.raw("pacs", "hdf5").parent.iterdir())


def test_a_missing_hdf5_file_is_named_and_nothing_is_left(workspace: Workspace, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    with pytest.raises(FedshiftError, match=r"art_painting_train\.hdf5: no such file"):
        fetch(workspace, "pacs", "hdf5", tmp_path, say=lambda _: None)
    assert not list(workspace.raw("pacs", "hdf5").parent.iterdir())
