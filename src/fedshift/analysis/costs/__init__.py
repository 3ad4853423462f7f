"""Costs: what a run needs, by the names of fedshift.experiments.column.COSTS.

parameters, state_dict, macs and macs_norm are counted from the run's declaration, on shapes alone; the others
were measured, and are NaN of a run that is not finished. `up` and `down` are what one client that takes part
sends and gets in a round; they are NaN where one client holds all images and nothing travels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

from fedshift.spec import RunSpec

MEGA = 1e6


class Counts(NamedTuple):
    """Of a run's network, as its method changes it; macs of one image, macs_norm with batch normalisation."""

    parameters: float
    state_dict: float
    macs: float
    macs_norm: float


def sent(runs: pd.DataFrame, way: str) -> pd.Series[float]:
    """MB that all clients sent (`up`) or got (`down`) in a whole run, by rows of Collected.runs; NaN where
    one client holds all images.
    """
    return (runs[f"bytes_{way}"] / MEGA).where(~runs["pooled"].eq(True))


def cost(runs: pd.DataFrame, name: str) -> pd.Series[float]:
    """One of COSTS for rows of Collected.runs."""
    if name in Counts._fields:
        from fedshift.analysis.costs.counted import counts  # torch, which other costs do not need

        return runs["spec"].map(lambda text: getattr(counts(_key(text)), name)).astype(float)
    return MEASURED[name](runs).where(runs["state"] == "finished").astype(float)


def _each(way: str) -> Callable[[pd.DataFrame], pd.Series[float]]:
    """MB that one client sends or gets in a round in which it takes part."""

    def each(runs: pd.DataFrame) -> pd.Series[float]:
        pairs = zip(runs["spec"], runs["clients"], strict=True)
        takers = pd.Series([_takers(*pair) for pair in pairs], runs.index, dtype=float)
        return sent(runs, way) / (runs["rounds"] * takers)

    return each


MEASURED: dict[str, Callable[[pd.DataFrame], pd.Series[float]]] = {
    "up": _each("up"),
    "down": _each("down"),
    "seconds": lambda runs: runs["seconds"],
    "memory": lambda runs: runs["peak_memory_mb"],
}


def _takers(text: str, clients: list[object] | None) -> float:
    """How many clients take part in a round of a run; NaN of a run that is not finished."""
    if clients is None:
        return float("nan")
    return max(1, round(RunSpec.model_validate_json(text).federation.participation * len(clients)))


@functools.cache
def _key(text: str) -> str:
    """A spec with the seed 0: the same network."""
    return RunSpec.model_validate_json(text).model_copy(update={"seed": 0}).model_dump_json()
