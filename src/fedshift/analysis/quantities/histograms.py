"""Histograms: how many samples were classified right and wrong at which confidence, in the round that tables
report.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.collection.columns import OWN_SPLIT
from fedshift.analysis.metrics.base import Array, Metric
from fedshift.analysis.quantities.select import selected_by_place
from fedshift.analysis.quantities.values import PLACE, ROUND, sets

TARGET = "target"


class Confidences(NamedTuple):
    """Of a set of samples, by confidence [BINS] (fedshift.federation.records): how many were wrong, how
    many right, and the sum of their confidences.
    """

    wrong: Array
    right: Array
    confidence: Array


class _Read(Metric):
    """What is read of statistics; it is no metric of its own."""

    name = "confidences"

    @staticmethod
    def compute(wrong: Array, right: Array, confidence: Array) -> Array:
        return wrong.sum(-1)


def confidences(collected: Collected, where: str) -> dict[str, Confidences]:
    """Row -> the confidences of all its finished runs together, each run's sets with equal weight of each
    sample; where: `id` (the clients' own samples) or `ood` (the held-out domain). Rows without statistics
    are left out.
    """
    sums: dict[str, Confidences] = {}
    for method, part in _sums(collected, where):
        before = sums.get(method)
        sums[method] = part if before is None else Confidences(*map(np.add, before, part))
    return sums


def _sums(collected: Collected, where: str) -> Iterator[tuple[str, Confidences]]:
    """Method and sums of confidences, piece by piece of what finished runs recorded in the reported round."""
    rounds = selected_by_place(collected)[ROUND].assign(shown=True)
    for frame, arrays in sets(collected, _Read):
        own = frame["split"] == frame[OWN_SPLIT]
        held_out = (frame["split"] == TARGET) & (frame["client"] == -1)
        shown = frame[ROUND].merge(rounds, on=ROUND, how="left")["shown"].notna().to_numpy()
        mask = shown & (own if where == "id" else held_out).to_numpy()
        methods = frame[PLACE].map(collected.runs["method"])
        for method in pd.unique(methods[mask]):
            rows = mask & (methods == method).to_numpy()
            yield str(method), Confidences(*(arrays[name][rows].sum(0) for name in Confidences._fields))
