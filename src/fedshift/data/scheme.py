"""Partition scheme: assigns each sample to a client by domains and labels, never by pixels."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.common.files import sha256


@dataclass(frozen=True)
class NoParams:
    """A scheme without parameters."""

    def check(self, sources: int, where: str) -> None:
        """Raise FedshiftError at `where` if the parameters do not fit `sources` >= 1 source domains."""


class _Plugin:
    name: ClassVar[str]
    version: ClassVar[int] = 1
    Params: ClassVar[type] = NoParams

    def __init__(self, params: Any = None) -> None:
        self.params: Any = self.Params() if params is None else params


class Scheme(_Plugin):
    """Base of all schemes; `Params` is a frozen dataclass with a method `check` like that of NoParams."""

    def clients(self, sources: int) -> int:
        """Number of clients for `sources` source domains."""
        return sources

    def assign(self, index: pd.DataFrame, domains: list[str], rng: np.random.PCG64) -> NDArray[np.int16]:
        """Client of each of the n rows of `index`, int16 [n], -1 where unused.

        `domains` are the source domains in order.
        """
        raise NotImplementedError


class Modifier(_Plugin):
    """Base of changes to a finished partition; `Params` has a method `check(domains, classes, where)`."""

    def modify(self, table: pd.DataFrame, rng: np.random.PCG64) -> None:
        """Change client and split of `table` (sample, client, domain, class, label, split) in place."""
        raise NotImplementedError


def generator(seed: int, *purpose: object) -> np.random.PCG64:
    """The random bits for one purpose, seeded by SHA-256, so that they do not depend on other purposes."""
    return np.random.PCG64(int(sha256("/".join(map(str, (seed, "partition", *purpose)))), 16))


def permutation(rng: np.random.PCG64, n: int) -> NDArray[np.intp]:
    """A random order of 0..n-1, by sorting raw bits.

    Raw bits are the same in every release of NumPy, its own `permutation` is not.
    """
    return np.argsort(rng.random_raw(n), kind="stable")


def uniform(rng: np.random.PCG64, n: int) -> NDArray[np.float64]:
    """n numbers in (0, 1) from raw bits."""
    bits: NDArray[np.float64] = (rng.random_raw(n) >> np.uint64(11)).astype(np.float64)
    return (bits + 0.5) * 2.0**-53
