"""Releases made from another tree: re-encoded copies, and PACS from its HDF5 files. Never the original."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tqdm import tqdm

from fedshift.common.errors import FedshiftError
from fedshift.data.dataset import Dataset, Release

SIDE = 256
QUALITY = 90


def jpeg256(original: Release) -> Release:
    """A copy for a small transfer: JPEG of quality 90, the shorter side 256 pixels at most, upright, RGB."""
    return replace(
        original,
        source=f"made on this machine from the release original ({original.source}): fedshift fetch --from "
        f"ORIGINAL",
        manifest=None,  # its bytes depend on Pillow's JPEG library
        archives=(),
        by_hand=(),
        complete=False,
        make=_jpeg256,
    )


def _jpeg256(dataset: Dataset, source: Path, target: Path) -> None:
    """`a.jpg` stays `a.jpg`, any other `a.png` becomes `a.png.jpg`: names stay apart, and official lists
    still hold.
    """
    root = dataset.root(source)
    for path in tqdm(dataset.index(root)["path"], unit=" images", desc="jpeg256", disable=None):
        file = target / (path if path.endswith(".jpg") else f"{path}.jpg")
        domain, label, *split = path.split("/")[:-1]
        file = target.joinpath(domain, *split, label, file.name)
        file.parent.mkdir(parents=True, exist_ok=True)
        image = dataset.image(root, path)
        scale = min(1.0, SIDE / min(image.size))
        width, height = (max(1, round(side * scale)) for side in image.size)
        if scale < 1:
            image = image.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=None)
        image.save(file, format="JPEG", quality=QUALITY, subsampling=2, optimize=True)


def hdf5(dataset: Dataset, source: Path, target: Path) -> None:
    """PACS's official HDF5 files, `<domain>_train.hdf5` and `<domain>_val.hdf5`, as PNG files in
    domain/split/class.

    Dataset `images` [n, height, width, 3] uint8 in the order blue, green, red and `labels` [n] from 1
    (HAHA-DL/Episodic-DG common/data_reader.py reads them so). `_test.hdf5` is the whole domain and is not
    read. Raises FedshiftError without h5py.
    """
    try:
        h5py: Any = importlib.import_module("h5py")
    except ImportError:
        raise FedshiftError(source, "HDF5 files need the package h5py", "Run: pip install h5py") from None
    known = set(range(len(dataset.classes)))
    for domain in dataset.domains:
        for word, ours in {"train": "train", "val": "crossval"}.items():
            file = source / f"{domain}_{word}.hdf5"
            if not file.is_file():
                raise FedshiftError(
                    file, "no such file", f"Give the folder that holds <domain>_{word}.hdf5 of all domains."
                )
            with _opened(h5py, file) as opened:
                images, labels = opened["images"], np.asarray(opened["labels"]).astype(int).ravel() - 1
                if images.shape[3:] != (3,) or len(images) != len(labels) or set(labels) - known:
                    what = f"is not images [n, height, width, 3] with labels [n] from 1 to {len(known)}"
                    raise FedshiftError(file, what, "Get this file again.")
                for number in tqdm(range(len(labels)), desc=file.stem, disable=None):
                    folder = target / domain / ours / dataset.classes[labels[number]]
                    folder.mkdir(parents=True, exist_ok=True)
                    pixels = np.asarray(images[number])[..., ::-1].astype(np.uint8)
                    Image.fromarray(np.ascontiguousarray(pixels)).save(folder / f"{number:05d}.png")


def _opened(h5py: Any, file: Path) -> Any:
    try:
        opened = h5py.File(file, "r")
    except OSError as error:
        raise FedshiftError(file, f"cannot be read: {error}", "Get this file again.") from error
    if missing := {"images", "labels"}.difference(opened):
        opened.close()
        what = f"holds no dataset {' and '.join(sorted(missing))}"
        raise FedshiftError(file, what, "Give the authors' HDF5 files of PACS.")
    return opened
