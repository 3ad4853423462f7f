"""Between one-domain clients (lam = 0) and identically mixed ones (lam = 1): FedDG benchmark's heterogeneous
partitioning.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.common.errors import FedshiftError
from fedshift.data.scheme import Scheme, permutation


@dataclass(frozen=True)
class Params:
    """`clients`: N, default one per source domain; `lam`: the share of every domain that is spread evenly
    over all clients, 0 to 1.
    """

    clients: int | None = None
    lam: float = 0.0

    def check(self, sources: int, where: str) -> None:
        """Raise FedshiftError at `where` for numbers that make no partition."""
        if not 0 <= self.lam <= 1 or (self.clients is not None and self.clients < 1):
            got = f"clients = {self.clients}, lam = {self.lam}"
            raise FedshiftError(where, got, "clients must be 1 or more, lam from 0 to 1.")


class Heterogeneous(Scheme):
    """Client k holds of domain i: lam n_i / N + (1 - lam) [k in C_i] n_i / |C_i| samples, rounded down; what
    is left goes to the first clients that have a share: with lam = 0 to the domain's own.

    C_i, the domain's own clients (released code of Bai et al., "Benchmarking Algorithms for Federated Domain
    Generalization", ICLR 2024): with fewer clients than domains, each domain, largest first, goes to the
    client that holds least; else every domain has one, and each further client joins the domain whose clients
    hold most on average. Clients are numbered by domain.
    """

    name = "heterogeneous"
    version = 2
    Params = Params

    def clients(self, sources: int) -> int:
        return sources if self.params.clients is None else int(self.params.clients)

    def assign(self, index: pd.DataFrame, domains: list[str], rng: np.random.PCG64) -> NDArray[np.int16]:
        rows = [np.flatnonzero(index["domain"] == domain) for domain in domains]
        sizes = [len(part) for part in rows]
        clients = self.clients(len(domains))
        assigned = np.full(len(index), -1, dtype=np.int16)
        for part, own in zip(rows, owners(sizes, clients), strict=True):
            share = np.full(clients, self.params.lam / clients)
            share[own] += (1 - self.params.lam) / len(own)
            counts = np.floor(share * len(part) + 1e-9).astype(np.int64)
            counts[np.flatnonzero(share)[: len(part) - counts.sum()]] += 1
            assigned[part[permutation(rng, len(part))]] = np.repeat(np.arange(clients), counts)
        return assigned


def owners(sizes: list[int], clients: int) -> list[list[int]]:
    """The clients C_i of every domain."""
    if clients < len(sizes):
        own: list[list[int]] = [[] for _ in sizes]
        held = [0] * clients
        for domain in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
            client = held.index(min(held))
            own[domain].append(client)
            held[client] += sizes[domain]
        return own
    counts = [1] * len(sizes)
    for _ in range(clients - len(sizes)):
        counts[max(range(len(sizes)), key=lambda i: sizes[i] / counts[i])] += 1
    ends = np.cumsum(counts).tolist()
    return [list(range(end - count, end)) for count, end in zip(counts, ends, strict=True)]
