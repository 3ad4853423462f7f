"""Every client also trains on a few samples of the held-out domain (hFedF, few-shot figure)."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedshift.common.errors import FedshiftError
from fedshift.data.scheme import Modifier, permutation


@dataclass(frozen=True)
class Params:
    """`each`: samples of the held-out domain per client, random without replacement."""

    each: int = 5

    def check(self, domains: list[str], classes: int, where: str) -> None:
        """Raise FedshiftError at `where` for a negative number."""
        if self.each < 0:
            raise FedshiftError(where, f"each = {self.each}", "It must be 0 or more.")


class FewShotTarget(Modifier):
    """Move the samples from the held-out domain's test set to the clients' training parts (a guess)."""

    name = "few_shot_target"
    Params = Params

    def modify(self, table: pd.DataFrame, rng: np.random.PCG64) -> None:
        rows = np.flatnonzero(table["split"] == "target")
        clients = int(table["client"].max()) + 1
        taken = clients * self.params.each
        if taken >= len(rows):
            what = f"{clients} clients x {self.params.each} samples leave nothing of {len(rows)} to test on"
            raise FedshiftError("partition.modify.few_shot_target", what, "Lower each, or hold out a domain.")
        drawn = rows[permutation(rng, len(rows))][:taken]
        table.loc[drawn, "client"] = np.repeat(np.arange(clients, dtype=np.int16), self.params.each)
        table.loc[drawn, "split"] = "train"
