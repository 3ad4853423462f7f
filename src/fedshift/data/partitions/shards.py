"""Pathological label skew: every client has images of k classes (McMahan et al. 2017; PFLlib's `pat`)."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.common.errors import FedshiftError
from fedshift.data.partitions.domains_per_client import count_parts, deal
from fedshift.data.partitions.label_dirichlet import check_clients, holders
from fedshift.data.scheme import Scheme, permutation


@dataclass(frozen=True)
class Params:
    """`clients`: their number N; `k`: classes for each client; `d`: domains for each client, null for all."""

    clients: int = 20
    k: int = 2
    d: int | None = None

    def check(self, sources: int, where: str) -> None:
        """Raise FedshiftError at `where` for invalid numbers."""
        check_clients(self.clients, self.d, sources, where)
        if self.k < 1:
            raise FedshiftError(where, f"k = {self.k}", "k must be 1 or more.")


class Shards(Scheme):
    """Classes are dealt to the clients, k for each; a class's images are shared equally among its clients.

    With `d`, classes are dealt in each domain separately, so a client has k classes in each of its domains.
    """

    name = "shards"
    Params = Params

    def clients(self, sources: int) -> int:
        return int(self.params.clients)

    def assign(self, index: pd.DataFrame, domains: list[str], rng: np.random.PCG64) -> NDArray[np.int16]:
        domain, label = index["domain"].to_numpy(), index["label"].to_numpy()
        sizes = [int((domain == name).sum()) for name in domains]
        shared = holders(sizes, self.params.clients, self.params.d)
        assigned = np.full(len(index), -1, dtype=np.int16)
        inside = np.isin(domain, domains)
        for place, name in enumerate(domains):
            rows = inside if self.params.d is None else domain == name
            if self.params.d is not None or place == 0:
                dealt = self._deal(label[rows], shared[place], rng, name)
            for number, clients in dealt.items():
                own = np.flatnonzero((domain == name) & (label == number))
                parts = np.array_split(own[permutation(rng, len(own))], len(clients))
                for client, part in zip(
                    np.array(clients)[permutation(rng, len(clients))], parts, strict=True
                ):
                    assigned[part] = client
        return assigned

    def _deal(
        self, labels: NDArray[np.int64], clients: list[int], rng: np.random.PCG64, domain: str
    ) -> dict[int, list[int]]:
        """Label -> the clients that hold the class, k classes for each."""
        classes, counts = np.unique(labels, return_counts=True)
        k = min(self.params.k, len(classes))
        if len(clients) * k < len(classes):
            what = f"{len(clients)} clients with k = {k} leave some of {len(classes)} classes of {domain} out"
            cure = f"Set k to {-(-len(classes) // len(clients))} or more, or use more clients."
            raise FedshiftError("partition.params.k", what, cure)
        hands = deal(count_parts(counts.tolist(), len(clients), k), len(clients), k)
        held: dict[int, list[int]] = {int(number): [] for number in classes}
        for client, hand in zip(permutation(rng, len(clients)), hands, strict=True):
            for place, _ in hand:
                if clients[client] not in held[int(classes[place])]:
                    held[int(classes[place])].append(clients[client])
        return held
