"""Training, validation and test among the samples of one client's part of a domain."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedshift.common.errors import FedshiftError
from fedshift.data.scheme import permutation

Words = NDArray[np.object_]
OFFICIAL = {"train": "train", "crossval": "val", "val": "val", "test": "test"}


def random_split(
    n: int,
    fractions: tuple[float, float, float],
    rng: np.random.PCG64,
    group: NDArray[np.int32] | None = None,
) -> Words:
    """Draw train, val and test among n samples, [n].

    int((val + test) n) are held out; of these int(that test / (val + test)) are test, the rest validation
    (FLGo). With `group` [n] (-1: none) samples of one group stay on one side: a part is full when it has its
    number or more.
    """
    val, test = (Fraction(str(fraction)) for fraction in fractions[1:])
    held = int((val + test) * n)
    tested = int(held * test / (val + test)) if held else 0
    split = np.full(n, "train", dtype=object)
    order = permutation(rng, n)
    if group is not None and (group >= 0).any():
        order = _together(order, group)
        tested, held = (_whole(cut, order, group) for cut in (tested, held))
    split[order[:held]] = "val"
    split[order[:tested]] = "test"
    return split


def official_split(words: NDArray[np.object_], where: str) -> Words:
    """The data set's own lists, [n]: train, crossval or val, test. Raises FedshiftError where a sample is on
    none.
    """
    if without := sum(str(word) not in OFFICIAL for word in words):
        what = f"no official split: {without} of {len(words)} samples are on no list"
        raise FedshiftError(where, what, "Use partition.split: random, or a data set with official lists.")
    return np.array([OFFICIAL[str(word)] for word in words], dtype=object)


def _together(order: NDArray[np.intp], group: NDArray[np.int32]) -> NDArray[np.intp]:
    """`order` with the members of every group right after the group's first member."""
    place: dict[int, int] = {}
    first = [place.setdefault(int(group[i]), at) if group[i] >= 0 else at for at, i in enumerate(order)]
    return order[np.argsort(first, kind="stable")]


def _whole(cut: int, order: NDArray[np.intp], group: NDArray[np.int32]) -> int:
    """The first place from `cut` on at which no group is cut in two."""
    while 0 < cut < len(order) and group[order[cut]] >= 0 and group[order[cut]] == group[order[cut - 1]]:
        cut += 1
    return cut
