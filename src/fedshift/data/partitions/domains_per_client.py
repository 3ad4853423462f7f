"""Every client has parts of d source domains (hFedF, Algorithm 5)."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.common.equations import equation
from fedshift.common.errors import FedshiftError
from fedshift.data.scheme import Scheme, permutation


@dataclass(frozen=True)
class Params:
    """`d` domains per client; `clients`: their number N, default one per source domain."""

    d: int = 1
    clients: int | None = None

    def check(self, sources: int, where: str) -> None:
        """Raise FedshiftError at `where` if Z = `sources` domains cannot be dealt out: d > Z, or N d < Z."""
        clients = sources if self.clients is None else self.clients
        if self.d < 1 or clients < 1:
            raise FedshiftError(where, f"d = {self.d} with {clients} clients", "Both must be 1 or more.")
        if self.d > sources:
            raise FedshiftError(
                where, f"d = {self.d} exceeds the {sources} source domains", f"Set d to {sources} or less."
            )
        if clients * self.d < sources:
            cure = f"Set clients to {-(-sources // self.d)} or more, or raise d."
            raise FedshiftError(
                where, f"{clients} clients with d = {self.d} leave one of {sources} domains unused", cure
            )


class DomainsPerClient(Scheme):
    """Domains are cut into random equal parts and dealt in domain order, to the clients at random."""

    name = "domains_per_client"
    Params = Params

    def clients(self, sources: int) -> int:
        return sources if self.params.clients is None else int(self.params.clients)

    def assign(self, index: pd.DataFrame, domains: list[str], rng: np.random.PCG64) -> NDArray[np.int16]:
        sizes = [int((index["domain"] == domain).sum()) for domain in domains]
        clients = self.clients(len(domains))
        parts = count_parts(sizes, clients, self.params.d)
        cuts = []
        for domain, count in zip(domains, parts, strict=True):
            rows = np.flatnonzero(index["domain"] == domain)
            pieces = np.array_split(rows[permutation(rng, len(rows))], count)
            cuts.append([pieces[place] for place in permutation(rng, count)])
        assigned = np.full(len(index), -1, dtype=np.int16)
        for client, hand in zip(permutation(rng, clients), deal(parts, clients, self.params.d), strict=True):
            for domain_number, part in hand:
                assigned[cuts[domain_number][part]] = client
        return assigned


@equation("hFedF", "Algorithm 5, parts")
def count_parts(sizes: list[int], clients: int, d: int) -> list[int]:
    """Parts per domain: floor(N d / Z), one more for the (N d) mod Z largest; ties: the earlier domain."""
    share, surplus = divmod(clients * d, len(sizes))
    largest = sorted(range(len(sizes)), key=lambda place: -sizes[place])[:surplus]
    return [share + (place in largest) for place in range(len(sizes))]


@equation("hFedF", "Algorithm 5, hands")
def deal(parts: list[int], clients: int, d: int) -> list[list[tuple[int, int]]]:
    """The (domain, part) pairs of each client: in d passes, each client takes the first remaining part."""
    remaining = [(domain, part) for domain, count in enumerate(parts) for part in range(count)]
    return [remaining[client::clients] for client in range(clients)]
