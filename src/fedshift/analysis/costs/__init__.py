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
import torch
from torch import Tensor, nn

from fedshift.build import method_of, model_of
from fedshift.federation.cost import macs_per_image, state_dict_bytes
from fedshift.registry import get
from fedshift.shapes import shapes_only
from fedshift.spec import RunSpec

MEGA = 1e6
MIB = 2**20
NORMALISED = 4  # operations for each number that batch normalisation passes, as thop counts


class Counts(NamedTuple):
    """Of a run's network, as its method changes it; macs of one image, macs_norm with batch normalisation."""

    parameters: float
    state_dict: float
    macs: float
    macs_norm: float


def network(spec: RunSpec) -> nn.Module | None:
    """The run's network on the meta device; None where only its images tell the classes."""
    classes = len(get("datasets", spec.data.dataset).classes)
    with shapes_only():
        return method_of(spec).model(model_of(spec, classes)) if classes else None


def normalised(model: nn.Module, px: int) -> int:
    """Numbers that batch normalisation passes in one image of `px`; `model` on the meta device."""
    passed: list[int] = []

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        passed.append(output.numel())

    kinds = (nn.BatchNorm1d, nn.BatchNorm2d)
    hooks = [part.register_forward_hook(count) for part in model.modules() if isinstance(part, kinds)]
    with torch.no_grad():
        model.eval()(torch.empty(1, 3, px, px, device="meta"))
    for hook in hooks:
        hook.remove()
    return sum(passed)


def sent(runs: pd.DataFrame, way: str) -> pd.Series[float]:
    """MB that all clients sent (`up`) or got (`down`) in a whole run, by rows of Collected.runs; NaN where
    one client holds all images.
    """
    return (runs[f"bytes_{way}"] / MEGA).where(~runs["spec"].map(_pooled).astype(bool))


def cost(runs: pd.DataFrame, name: str) -> pd.Series[float]:
    """One of COSTS for rows of Collected.runs."""
    if name in Counts._fields:
        return runs["spec"].map(lambda text: getattr(_counts(_key(text)), name)).astype(float)
    return MEASURED[name](runs).where(runs["state"] == "finished").astype(float)


def _each(way: str) -> Callable[[pd.DataFrame], pd.Series[float]]:
    """MB that one client sends or gets in a round in which it takes part."""

    def each(runs: pd.DataFrame) -> pd.Series[float]:
        pairs = zip(runs["spec"], runs["clients"], strict=True)
        return sent(runs, way) / pd.Series([_turns(*pair) for pair in pairs], runs.index, dtype=float)

    return each


MEASURED: dict[str, Callable[[pd.DataFrame], pd.Series[float]]] = {
    "up": _each("up"),
    "down": _each("down"),
    "seconds": lambda runs: runs["seconds"],
    "memory": lambda runs: runs["peak_memory_mb"],
}


def _turns(text: str, clients: list[object] | None) -> float:
    """How often clients take part in a run: rounds by those of a round; NaN of a run that is not finished."""
    federation = RunSpec.model_validate_json(text).federation
    if clients is None:
        return float("nan")
    return federation.rounds * max(1, round(federation.participation * len(clients)))


@functools.cache
def _pooled(text: str) -> bool:
    """Whether a run's method trains one client on everybody's images, as its parameters have it."""
    return method_of(RunSpec.model_validate_json(text)).clients == "pooled"


@functools.cache
def _key(text: str) -> str:
    """A spec with the seed 0: the same network."""
    return RunSpec.model_validate_json(text).model_copy(update={"seed": 0}).model_dump_json()


@functools.cache
def _counts(text: str) -> Counts:
    spec = RunSpec.model_validate_json(text)
    model, px = network(spec), spec.data.input_px
    if model is None:
        return Counts(*[float("nan")] * 4)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    macs = macs_per_image(model, px)
    passed = NORMALISED * normalised(model, px)
    return Counts(parameters / MEGA, state_dict_bytes(model) / MIB, macs / MEGA, (macs + passed) / MEGA)
