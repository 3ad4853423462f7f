"""Partition scheme: which client holds which sample. It sees domains and labels, never pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.errors import FedshiftError
from fedshift.files import sha256


@dataclass(frozen=True)
class NoParams:
    """A scheme without parameters."""

    def check(self, sources: int, where: str) -> None:
        """Raise FedshiftError at `where` if `sources` source domains do not suit these parameters."""
        if sources < 1:
            raise FedshiftError(
                where, "no source domain is left", "Choose a data set with two domains or more."
            )


class Scheme:
    """Base of all schemes; `Params` is a frozen dataclass with a method `check` like that of NoParams."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    Params: ClassVar[type] = NoParams

    def __init__(self, params: Any = None) -> None:
        self.params: Any = self.Params() if params is None else params

    def clients(self, sources: int) -> int:
        """Number of clients for `sources` source domains."""
        return sources

    def assign(self, index: pd.DataFrame, domains: list[str], rng: np.random.PCG64) -> NDArray[np.int16]:
        """Client of each of the n rows of `index`, int16 [n], -1 where unused.

        `domains` are the source domains in order.
        """
        raise NotImplementedError


def generator(seed: int, *purpose: object) -> np.random.PCG64:
    """The stream of random bits for one purpose: seeded by SHA-256, so that no draw depends on another."""
    return np.random.PCG64(int(sha256("/".join(map(str, (seed, "partition", *purpose)))), 16))


def permutation(rng: np.random.PCG64, n: int) -> NDArray[np.intp]:
    """A random order of 0..n-1, by sorting raw bits.

    NumPy keeps these the same in every release, its own `permutation` not.
    """
    return np.argsort(rng.random_raw(n), kind="stable")
