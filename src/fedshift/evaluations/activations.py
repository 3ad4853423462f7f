"""Activations: the response of the filters of clients' networks to these clients' own images, by stage.

In FedRD (Wang et al.), Fig. 2, filters of low layers respond differently in each domain, those of high layers
similarly. The paper gives no measure. Here:

- The response of a filter to an image is its highest value over positions.
- Two clients' filters of the same number diverge by |m - n| / sqrt((v + w) / 2). The means m, n and variances
  v, w are of their responses, each on its client's images.
- A stage diverges by the mean over filters and pairs of clients. Filters whose responses never vary are left
  out.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedshift.common.errors import unknown
from fedshift.evaluations._images import ClientSplit, OfClients, of_client
from fedshift.evaluations.base import Evaluation, Row, Trained
from fedshift.models.base import Model


@dataclass(frozen=True)
class Params(OfClients):
    """`stages`: stages of the network, from low to high; none: all.
    `splits`: "val", "test".
    """

    splits: tuple[ClientSplit, ...] = ("val", "test")
    stages: tuple[str, ...] = ()


class Activations(Evaluation):
    """One row for each client and stage.

    `place`: the stage's number, from 1.
    `mean`, `variance`: of the responses, [C].
    """

    name = "activations"
    Params = Params
    columns = {
        "layer": pa.string(), "place": pa.int16(), "images": pa.int32(),
        "mean": pa.list_(pa.float32()), "variance": pa.list_(pa.float32()),
    }  # fmt: skip
    quantities = {"low": "divergence of low filters", "high": "divergence of high filters"}

    def rows(self, run: Trained) -> Iterator[Row]:
        hp, stages = self.hp, named(run.network.model, self.hp.stages, "evaluation activations")
        for client, kept in run.of_clients(hp.stage).items():
            index = of_client(kept, client, hp)
            for place, (stage, values) in enumerate(responses(run, kept.row, index, stages).items(), 1):
                yield {
                    **run.key(kept, client, None), "layer": stage, "place": place, "images": len(index),
                    "mean": values.mean(0).cpu().numpy(),
                    "variance": values.var(0, correction=0).cpu().numpy(),
                }  # fmt: skip

    @staticmethod
    def quantity(table: pd.DataFrame, name: str) -> float:
        """A mean over stages; NaN without one.

        `low`: over the lower half of the requested stages, with the middle one.
        `high`: over the others.
        """
        by_place = divergences(table)
        half = math.ceil(len(by_place) / 2)
        chosen = by_place[:half] if name == "low" else by_place[half:]
        return float(np.mean(chosen)) if chosen else math.nan


def named(model: Model, stages: Sequence[str], where: str) -> Sequence[str]:
    """The given stages of a network; all if none is given.

    Raises FedshiftError at `where` for an unknown stage.
    """
    for stage in stages:
        if stage not in model.stages:
            raise unknown(f"{where}: stages", "stage", stage, list(model.stages))
    return stages or list(model.stages)


@torch.no_grad()
def responses(run: Trained, row: Tensor, index: Tensor, stages: Sequence[str]) -> dict[str, Tensor]:
    """stage -> [n, C], the highest value of each filter over positions, for the images at `index` [n]."""
    model = run.network.bind(row).model.eval()
    found: dict[str, list[Tensor]] = {stage: [] for stage in stages}

    def record(stage: str, x: Tensor) -> Tensor:
        found[stage].append((x.flatten(2).amax(2) if x.dim() > 2 else x).float())
        return x

    after = {stage: (lambda x, stage=stage: record(stage, x)) for stage in stages}
    for x, _ in run.images(index):
        with run.precision():
            model.body(x, after)
    return {stage: torch.cat(parts) for stage, parts in found.items()}


def divergences(table: pd.DataFrame) -> list[float]:
    """The divergence of each stage, from low to high; NaN for a single client."""
    found = []
    for _, stage in table.groupby("place", sort=True):
        means, variances = (np.stack([*stage[name]]).astype(float) for name in ("mean", "variance"))
        pairs = [*itertools.combinations(range(len(means)), 2)]
        gaps = [_gap(means[i], means[j], variances[i], variances[j]) for i, j in pairs]
        values = np.concatenate(gaps) if gaps else np.empty(0)
        found.append(float(values.mean()) if len(values) else math.nan)
    return found


def _gap(m: NDArray[Any], n: NDArray[Any], v: NDArray[Any], w: NDArray[Any]) -> NDArray[Any]:
    pooled = np.sqrt((v + w) / 2)
    return np.abs(m - n)[pooled > 0] / pooled[pooled > 0]
