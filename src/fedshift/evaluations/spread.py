"""Spread: the standard deviation of weights over the clients' networks, by layer (hFedF, Fig. 5).

"The standard deviation is calculated based on the distribution of model weights sampled from all clients. For
each layer, the standard deviation is averaged across all parameters within that layer." The paper does not
specify the divisor; here it is n (of the population). A layer is a convolution or linear map with the
normalisation that follows it. Statistics of batch normalisation do not count as weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

from fedshift.evaluations.base import Evaluation, Row, Stage, Trained
from fedshift.federation.layout import Layout


@dataclass(frozen=True)
class Params:
    """`stage`: stage of the client's model (fedshift.evaluations.base.Trained.of_clients)."""

    stage: Stage = "reported"


def spread(rows: Tensor, layout: Layout) -> dict[str, tuple[int, float]]:
    """layer -> its number of weights, and the mean of their standard deviations over `rows` [N, P + Q]."""
    deviation = rows.double().std(0, correction=0)
    parts: dict[str, list[Tensor]] = {}
    for entry in layout.entries:
        if entry.offset < layout.P:
            parts.setdefault(entry.layer, []).append(deviation[entry.slice])
    joined = {layer: torch.cat(values) for layer, values in parts.items()}
    return {layer: (len(values), float(values.mean())) for layer, values in joined.items()}


class Spread(Evaluation):
    """One row for each layer.

    `place`: its number from the input, from 1.
    `entries`: its number of weights.
    `deviation`: the mean of their standard deviations over clients.
    """

    name = "spread"
    Params = Params
    columns = {"layer": pa.string(), "place": pa.int16(), "entries": pa.int64(), "deviation": pa.float64()}
    quantities = {"mean": "spread of weights over clients", "most": "widest layer's spread over clients"}

    def rows(self, run: Trained) -> Iterator[Row]:
        models = run.of_clients(self.hp.stage)
        rows, first = torch.stack([kept.row for kept in models.values()]), next(iter(models.values()))
        for place, (layer, (entries, deviation)) in enumerate(spread(rows, run.layout).items(), 1):
            measured = {"layer": layer, "place": place, "entries": entries, "deviation": deviation}
            yield {**run.key(first, None, None), **measured}

    @staticmethod
    def quantity(table: pd.DataFrame, name: str) -> float:
        """mean: over layers, each with the same weight; otherwise the maximum."""
        return float(table["deviation"].mean() if name == "mean" else table["deviation"].max())
