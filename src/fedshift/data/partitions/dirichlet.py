"""Every domain is spread over all clients by Dirichlet proportions (StableFDG, multi-domain setting)."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.common.errors import FedshiftError
from fedshift.data.scheme import Scheme, permutation, uniform

TRIES = 1000
DRAWS = 300_000  # of all tries together: with 10,000 clients a try takes a tenth of a second


@dataclass(frozen=True)
class Params:
    """`clients`: N; `alpha`: concentration of the proportions; `min_size`: samples that every client must
    get.
    """

    clients: int = 30
    alpha: float = 0.5
    min_size: int = 70

    def check(self, sources: int, where: str) -> None:
        """Raise FedshiftError at `where` for invalid numbers."""
        if self.clients < 1 or self.alpha <= 0 or self.min_size < 1:
            got = f"clients = {self.clients}, alpha = {self.alpha}, min_size = {self.min_size}"
            raise FedshiftError(where, got, "clients and min_size must be 1 or more, alpha above 0.")


class Dirichlet(Scheme):
    """Proportions ~ Dir(alpha, N) for each domain; a client with n / N samples or more gets none of it
    (released code).

    Sampled again until every client has min_size samples. Raises FedshiftError if there are too few samples,
    and after 1,000 tries (fewer for more than 300 clients: `DRAWS`).
    """

    name = "dirichlet"
    Params = Params

    def clients(self, sources: int) -> int:
        return int(self.params.clients)

    def assign(self, index: pd.DataFrame, domains: list[str], rng: np.random.PCG64) -> NDArray[np.int16]:
        rows = [np.flatnonzero(index["domain"] == domain) for domain in domains]
        sizes = np.array([len(part) for part in rows])
        clients, least = self.params.clients, self.params.min_size
        where = "partition.params.min_size"
        if clients * least > sizes.sum():
            what = (
                f"{clients} clients of {least} samples need {clients * least}, the source domains hold "
                f"{sizes.sum()}"
            )
            raise FedshiftError(where, what, f"Set min_size to {sizes.sum() // clients} or less.")
        tries = min(TRIES, DRAWS // clients)
        for _ in range(tries):
            counts = self._counts(sizes, rng)
            if counts is not None and counts.sum(0).min() >= least:
                break
        else:
            what = f"no draw of {tries} gave each of {clients} clients {least} samples"
            raise FedshiftError(where, what, "Lower min_size, or raise alpha.")
        assigned = np.full(len(index), -1, dtype=np.int16)
        assert counts is not None
        for part, count in zip(rows, counts, strict=True):
            assigned[part[permutation(rng, len(part))]] = np.repeat(np.arange(clients), count)
        return assigned

    def _counts(self, sizes: NDArray[np.int64], rng: np.random.PCG64) -> NDArray[np.int64] | None:
        """Numbers of samples [domains, N]; rows sum to `sizes`. None if a tiny alpha gives no proportions."""
        from scipy.special import gammaincinv

        clients = self.params.clients
        held, counts = np.zeros(clients, dtype=np.int64), []
        for size in sizes:
            weights = gammaincinv(self.params.alpha, uniform(rng, clients))
            weights = weights * (held < sizes.sum() / clients)
            if not weights.any():
                return None
            cuts = np.floor(np.cumsum(weights / weights.sum()) * size).astype(np.int64)
            cuts[-1] = size
            counts.append(np.diff(cuts, prepend=0))
            held += counts[-1]
        return np.stack(counts)
