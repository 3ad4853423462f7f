"""Rendered: the images that a method makes from the clients' training images, before training, in one map.

data/rendered/<dataset>/<recipe>/ holds images.npy (uint8 [m, px, px, 3]) and index.parquet (row i: the sample
that image i was made from). A run then trains on these in place of the samples' own images; validation and
test images are as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from fedshift.common.errors import Damaged
from fedshift.common.files import built_once, read_json, sha256, sha256_file, write_json
from fedshift.data.columns import read_columns, write_columns
from fedshift.rendering import Rendering


def render(
    folder: Path,
    rendering: Rendering,
    pixels: NDArray[np.uint8],
    table: pd.DataFrame,
    seed: int,
    sources: dict[str, str],
) -> Path:
    """Make the images that a run trains on in `folder`, and return it. One that exists is whole, and left
    alone.

    Args:
        folder: where they lie, named by what they are made of and how.
        rendering: what makes them.
        pixels: the prepared images [n, px, px, 3].
        table: the partition.
        seed: the run's.
        sources: hashes of images and partition, noted in rendered.json.

    Who asks for the same at the same time waits; what a killed process has left is written over.
    Raises FedshiftError where weights that the rendering needs are absent.
    """
    with built_once(folder) as part:
        if part is not None:
            samples = _write_images(
                part / "images.npy", rendering.render(pixels, table, seed), pixels.shape[1]
            )
            hashes = {"images": sha256_file(part / "images.npy")}
            hashes["index"] = write_columns(part / "index.parquet", pd.DataFrame({"sample": samples}), {})
            write_json(part / "rendered.json", {**hashes, **sources})
    return folder


def load_rendered(folder: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64], str]:
    """The images, a memory map [m, px, px, 3]; the sample that each was made from [m]; their hash.

    Raises FedshiftError where they have changed.
    """
    cure = f"Remove {folder}; the run makes it again."
    table, index = read_columns(folder / "index.parquet", cure)
    facts, images = read_json(folder / "rendered.json", cure) or {}, folder / "images.npy"
    if not facts or facts["index"] != index["hash"] or facts["images"] != sha256_file(images):
        raise Damaged(folder, "does not match its rendered.json", cure)
    pixels = np.load(images, mmap_mode="c", allow_pickle=False)
    return pixels, table["sample"].to_numpy(np.int64, copy=True), sha256(facts["images"] + facts["index"])


def _write_images(path: Path, images: Iterator[tuple[int, NDArray[np.uint8]]], px: int) -> NDArray[np.int32]:
    """Write rendered images [n, px, px, 3] as they come; return the sample of each."""
    samples: list[int] = []
    bar = tqdm(desc="render", unit=" images", disable=None)
    with torch.no_grad(), bar, path.with_suffix(".raw").open("wb") as file:
        for sample, image in images:
            file.write(np.ascontiguousarray(image).data)
            samples.append(sample)
            bar.update()
    raw = np.memmap(path.with_suffix(".raw"), np.uint8, "r", shape=(len(samples), px, px, 3))
    np.save(path, raw, allow_pickle=False)
    path.with_suffix(".raw").unlink()
    return np.array(samples, dtype=np.int32)
