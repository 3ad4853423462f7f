"""Label skew: every class is spread over the clients by Dirichlet proportions (Yurochkin et al. 2019; Hsu et
al. 2019).
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.common.errors import FedshiftError
from fedshift.data.partitions.domains_per_client import count_parts, deal
from fedshift.data.scheme import Scheme, permutation, uniform

TRIES = 1000


def holders(sizes: list[int], clients: int, d: int | None) -> list[list[int]]:
    """For each domain the clients that share its images.

    All clients if d is None, else d domains for each client, dealt in the order of the domains (hFedF,
    Algorithm 5).
    """
    if d is None:
        return [list(range(clients)) for _ in sizes]
    hands = deal(count_parts(sizes, clients, d), clients, d)
    return [
        [k for k, hand in enumerate(hands) if any(domain == place for domain, _ in hand)]
        for place in range(len(sizes))
    ]


def check_clients(clients: int, d: int | None, sources: int, where: str) -> None:
    """Raise FedshiftError at `where` if `sources` domains cannot be dealt to the clients, d for each."""
    if clients < 1 or (d is not None and not 1 <= d <= sources):
        raise FedshiftError(
            where, f"clients = {clients}, d = {d}", f"clients must be 1 or more, d from 1 to {sources}."
        )
    if d is not None and clients * d < sources:
        cure = f"Set clients to {-(-sources // d)} or more, or raise d."
        raise FedshiftError(
            where, f"{clients} clients with d = {d} leave one of {sources} domains unused", cure
        )


@dataclass(frozen=True)
class Params:
    """`clients`: their number N; `alpha`: concentration, small for strong skew; `d`: domains for each client,
    null for all; `min_size`: images that every client must get.
    """

    clients: int = 20
    alpha: float = 0.1
    d: int | None = None
    min_size: int = 10

    def check(self, sources: int, where: str) -> None:
        """Raise FedshiftError at `where` for invalid numbers."""
        check_clients(self.clients, self.d, sources, where)
        if self.alpha <= 0 or self.min_size < 1:
            got = f"alpha = {self.alpha}, min_size = {self.min_size}"
            raise FedshiftError(where, got, "alpha must be above 0, min_size 1 or more.")


class LabelDirichlet(Scheme):
    """Images of each class (of each domain) are shared among the domain's clients with proportions ~
    Dir(alpha).

    As in PFLlib and FLGo, a client that already has 1/N of all images gets no more of a class, if others can
    take it. All is sampled again until every client has min_size images.
    """

    name = "label_dirichlet"
    Params = Params

    def clients(self, sources: int) -> int:
        return int(self.params.clients)

    def assign(self, index: pd.DataFrame, domains: list[str], rng: np.random.PCG64) -> NDArray[np.int16]:
        domain, label = index["domain"].to_numpy(), index["label"].to_numpy()
        sizes = [int((domain == name).sum()) for name in domains]
        shared, clients, least = (
            holders(sizes, self.clients(len(domains)), self.params.d),
            self.params.clients,
            self.params.min_size,
        )
        if clients * least > sum(sizes):
            what = (
                f"{clients} clients of {least} images need more than the {sum(sizes)} of the source domains"
            )
            raise FedshiftError(
                "partition.params.min_size", what, f"Set min_size to {sum(sizes) // clients} or less."
            )
        cells = [
            (np.flatnonzero((domain == name) & (label == number)), np.array(own))
            for name, own in zip(domains, shared, strict=True)
            for number in np.unique(label[domain == name])
        ]
        for _ in range(TRIES):
            counts = self._counts(cells, sum(sizes) / clients, rng)
            if counts.sum(0).min() >= least:
                break
        else:
            what = f"no sample of {TRIES} gave each of {clients} clients {least} images"
            raise FedshiftError("partition.params.min_size", what, "Lower min_size, or raise alpha.")
        assigned = np.full(len(index), -1, dtype=np.int16)
        for (rows, _), count in zip(cells, counts, strict=True):
            assigned[rows[permutation(rng, len(rows))]] = np.repeat(np.arange(clients), count)
        return assigned

    def _counts(
        self, cells: list[tuple[NDArray[np.intp], NDArray[np.int64]]], fair: float, rng: np.random.PCG64
    ) -> NDArray[np.int64]:
        """Images of each cell for each client, [cells, N]; rows sum to the cells' sizes."""
        from scipy.special import gammaincinv

        held, counts = np.zeros(self.params.clients, dtype=np.int64), []
        for rows, own in cells:
            weights = gammaincinv(self.params.alpha, uniform(rng, len(own)))
            open_ = held[own] < fair
            weights = weights * open_ if (weights * open_).any() else weights
            if not weights.any():  # all vanish for a tiny alpha: one client gets the class
                weights[permutation(rng, len(own))[0]] = 1
            cuts = np.floor(np.cumsum(weights / weights.sum()) * len(rows)).astype(np.int64)
            cuts[-1] = len(rows)
            count = np.zeros_like(held)
            count[own] = np.diff(cuts, prepend=0)
            counts.append(count)
            held += count
        return np.stack(counts)
