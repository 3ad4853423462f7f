"""CKA: the similarity of two clients' networks by their features of the same images.

Linear centred kernel alignment (Kornblith et al., ICML 2019, Section 3). 1: equal up to a rotation and a
scale; 0: nothing in common. The images are those of all clients.
"""

import itertools
from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from fedshift.evaluations._images import OfClients, of_client
from fedshift.evaluations.base import Evaluation, Row, Trained


def linear_cka(x: Tensor, y: Tensor) -> float:
    """|Y^T X|^2 / (|X^T X| |Y^T Y|), Frobenius, of centred x [n, F], y [n, G]; NaN where one is constant."""
    x, y = (part.double() - part.double().mean(0) for part in (x, y))
    return float((y.T @ x).square().sum() / ((x.T @ x).norm() * (y.T @ y).norm()))


class CKA(Evaluation):
    """One row for each pair of clients, client < other.

    `images`: how many.
    `cka`: their similarity.
    """

    name = "cka"
    Params = OfClients
    columns = {"other": pa.int16(), "images": pa.int32(), "cka": pa.float64()}
    quantities = {"mean": "CKA of clients", "least": "least CKA of two clients"}

    def rows(self, run: Trained) -> Iterator[Row]:
        hp, models = self.hp, run.of_clients(self.hp.stage)
        parts = [of_client(kept, k, hp) for k, kept in models.items()]
        index = torch.cat(parts)
        outputs = {client: run.outputs(kept.row, index) for client, kept in models.items()}
        features = {client: torch.cat([out.feature for out, _ in made]) for client, made in outputs.items()}
        for client, other in itertools.combinations(models, 2):
            alike = linear_cka(features[client], features[other])
            place = run.key(models[client], client, None)
            yield {**place, "other": other, "images": len(index), "cka": alike}

    @staticmethod
    def quantity(table: pd.DataFrame, name: str) -> float:
        return float(table["cka"].mean() if name == "mean" else table["cka"].min())
