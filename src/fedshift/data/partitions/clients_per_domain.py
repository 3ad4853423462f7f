"""Several clients share a source domain, cut at random into equal parts (StableFDG, single domain)."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.common.errors import FedshiftError
from fedshift.data.scheme import Scheme, permutation


@dataclass(frozen=True)
class Params:
    """`clients`: their number N, a multiple of the number of source domains."""

    clients: int = 30

    def check(self, sources: int, where: str) -> None:
        """Raise FedshiftError at `where` if the `sources` domains cannot have the same number of clients."""
        if self.clients < 1 or self.clients % sources:
            near = max(1, round(self.clients / sources)) * sources
            what = f"{self.clients} clients cannot be shared out evenly among {sources} source domains"
            raise FedshiftError(where, what, f"Set clients to a multiple of {sources}, such as {near}.")


class ClientsPerDomain(Scheme):
    """Of a domain's c clients c - 1 have floor(n / c) of n samples, the last has the rest (released code)."""

    name = "clients_per_domain"
    Params = Params

    def clients(self, sources: int) -> int:
        return int(self.params.clients)

    def assign(self, index: pd.DataFrame, domains: list[str], rng: np.random.PCG64) -> NDArray[np.int16]:
        assigned = np.full(len(index), -1, dtype=np.int16)
        per_domain = self.params.clients // len(domains)
        for number, domain in enumerate(domains):
            rows = np.flatnonzero(index["domain"] == domain)
            part = np.minimum(np.arange(len(rows)) // max(1, len(rows) // per_domain), per_domain - 1)
            assigned[rows[permutation(rng, len(rows))]] = number * per_domain + part
        return assigned
