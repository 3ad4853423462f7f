"""One client per source domain, in the order of the domains (FDSE, FedRD)."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.data.scheme import Scheme


class DomainPerClient(Scheme):
    """Client k has the whole k-th source domain; the partition is not random."""

    name = "domain_per_client"

    def assign(self, index: pd.DataFrame, domains: list[str], rng: np.random.PCG64) -> NDArray[np.int16]:
        numbers = {domain: number for number, domain in enumerate(domains)}
        return np.asarray(index["domain"].map(numbers).fillna(-1), dtype=np.int16)
