"""Near duplicates: images that look alike, by a perceptual hash, though their files differ: resized, saved
anew, a little cropped.
"""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from tqdm import tqdm

from fedshift.common.errors import FedshiftError

DISTANCE = 4  # of the 64 bits of a hash that two images may differ in
Pair = tuple[str, str, int]


def near_duplicates(
    paths: Sequence[str], image: Callable[[str], Image.Image], distance: int = DISTANCE
) -> list[Pair]:
    """Pairs of paths whose images have hashes that differ in `distance` bits or fewer, nearest first.

    The hash is imagehash's `phash`: the signs of the low frequencies of an 8-bit 32 x 32 image. Raises
    FedshiftError without that library.
    """
    try:
        phash: Any = importlib.import_module("imagehash").phash
    except ModuleNotFoundError:
        what = "near duplicates are found by the library imagehash, which is not installed"
        raise FedshiftError("fedshift verify --near", what, "Run: pip install imagehash") from None
    hashes = np.array(
        [phash(image(path)).hash.ravel() for path in tqdm(paths, unit=" images", desc="look", disable=None)],
        dtype=bool,
    ).reshape(len(paths), -1)
    found = near(hashes, distance)
    pairs = [(paths[one], paths[other], bits) for (one, other), bits in found.items()]
    return sorted(pairs, key=lambda pair: (pair[2], pair[:2]))


def near(hashes: NDArray[np.bool_], distance: int) -> dict[tuple[int, int], int]:
    """Rows i < j of `hashes` [n, 64] that differ in `distance` bits or fewer -> in how many.

    Of `distance` + 1 bands of bits two such rows agree in one: only rows of an equal band are compared.
    """
    found: dict[tuple[int, int], int] = {}
    for band in np.array_split(np.arange(hashes.shape[1]), distance + 1):
        rows: dict[bytes, list[int]] = defaultdict(list)
        for row, bits in enumerate(np.packbits(hashes[:, band], axis=1)):
            rows[bits.tobytes()].append(row)
        for alike in map(np.array, rows.values()):
            for place, row in enumerate(alike[:-1]):
                others = alike[place + 1 :]
                differ = (hashes[others] != hashes[row]).sum(axis=1)
                for other in np.flatnonzero(differ <= distance):
                    found[int(row), int(others[other])] = int(differ[other])
    return found
