"""Some classes become rare in a client's training part (FedRD: heterogeneous label shift)."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fedshift.common.errors import FedshiftError
from fedshift.data.scheme import Modifier, permutation


@dataclass(frozen=True)
class Params:
    """`keep`: the share of a rare class that stays; `classes`: domain -> its rare classes; `share`: part of
    the classes that is rare, at random, in domains without `classes`.

    The paper's split files are not released, and its rare classes are not the naturally rare ones: keep = 0.1
    and share = 3/7 are guesses.
    """

    keep: float = 0.1
    classes: dict[str, list[int]] = field(default_factory=dict)
    share: float = 3 / 7

    def check(self, domains: list[str], classes: int, where: str) -> None:
        """Raise FedshiftError at `where` for a share outside 0 to 1, an unknown domain or class."""
        if not 0 <= self.keep <= 1 or not 0 <= self.share <= 1:
            raise FedshiftError(where, f"keep = {self.keep}, share = {self.share}", "Both are from 0 to 1.")
        for domain, rare in self.classes.items():
            if domain not in domains or not all(0 <= label < classes for label in rare):
                what = f"classes {rare} of '{domain}'"
                raise FedshiftError(
                    where, what, f"Domains: {', '.join(domains)}; classes: 0 to {classes - 1}."
                )


class LabelShift(Modifier):
    """Mark most training samples of rare classes as unused; validation and test parts do not change.

    attrs["few_shot"] of the table then contains for every client the labels of removed samples, ascending:
    M_i of FedRD.
    """

    name = "label_shift"
    version = 2
    Params = Params

    def modify(self, table: pd.DataFrame, rng: np.random.PCG64) -> None:
        classes, few_shot = np.unique(table["label"]), list[list[int]]()
        unused = [np.empty(0, np.intp)]
        trained = table["label"].where(table["split"] == "train")
        groups = trained.groupby([table["client"], table["domain"], trained])
        held: dict[Any, Any] = dict(groups.indices)
        for client in range(int(table["client"].max()) + 1):
            shifted = set[int]()
            drawn = classes[permutation(rng, len(classes))][: round(self.params.share * len(classes))]
            for domain in table["domain"].unique():
                rare = self.params.classes.get(domain, drawn)
                for label in rare:
                    rows = held.get((client, domain, label), unused[0])
                    gone = rows[permutation(rng, len(rows))][round(self.params.keep * len(rows)) :]
                    unused.append(gone)
                    if len(gone):
                        shifted.add(int(label))
            few_shot.append(sorted(shifted))
        left_out = table.index[np.concatenate(unused)]
        table.loc[left_out, "client"], table.loc[left_out, "split"] = -1, "unused"
        table.attrs["few_shot"] = few_shot
