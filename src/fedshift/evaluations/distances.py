"""Distances: between the features of images of one class, of two classes, and of two domains.

FDSE (Wang et al., CVPR 2025), Section 5.3, reads inter- and intra-class distances from a t-SNE, without a
definition. Here, features are the input of the head, each divided by its length, so that networks with long
features have no advantage. A distance is the mean Euclidean one over pairs of different images. All clients'
images are taken together, each with the features of its client's model.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from fedshift.evaluations._images import Count, OfClients, pooled
from fedshift.evaluations.base import Evaluation, Row, Trained


@dataclass(frozen=True)
class Params(OfClients):
    """More images than in other evaluations, as a pair costs little."""

    images: Count = 200


def distances(features: Tensor, label: Tensor, domain: Tensor) -> dict[str, float]:
    """Mean Euclidean distances over pairs i < j of features [n, F], NaN without a pair.

    They are of two classes, of one class, and of one class in two domains. `label`, `domain`: numbers [n].
    """
    first, second = torch.triu_indices(len(label), len(label), 1)
    apart = torch.cdist(features, features, compute_mode="donot_use_mm_for_euclid_dist")[first, second]
    alike = label[first] == label[second]
    across = alike & (domain[first] != domain[second])
    pairs = {"inter": ~alike, "intra": alike, "domains": across}
    return {name: float(apart[chosen].mean()) for name, chosen in pairs.items()}


class ClassDistances(Evaluation):
    """One row for all clients together.

    `images`: how many.
    `inter`, `intra`, `domains`: means over pairs of two classes, of one class, and of one in two domains.
    """

    name = "distances"
    Params = Params
    columns = {"images": pa.int32(), "inter": pa.float64(), "intra": pa.float64(), "domains": pa.float64()}
    quantities = {
        "inter": "distance between classes",
        "intra": "distance within a class",
        "domains": "distance within a class, between domains",
    }

    def rows(self, run: Trained) -> Iterator[Row]:
        hp, models = self.hp, run.of_clients(self.hp.stage)
        pool = pooled(run, models, hp)
        numbers = {name: place for place, name in enumerate(dict.fromkeys(pool.domain))}
        domain = torch.tensor([numbers[name] for name in pool.domain])
        found = distances(pool.features, pool.label, domain)
        yield {**run.key(next(iter(models.values())), None, None), "images": len(domain), **found}

    @staticmethod
    def quantity(table: pd.DataFrame, name: str) -> float:
        return float(table[name].iloc[0])
