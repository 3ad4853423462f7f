"""What planning must know of a run's network, found on the meta device: nothing is drawn, and runs that share
a network share the answer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import torch

from fedshift.build import method_of, model_of
from fedshift.federation.cost import macs_per_image
from fedshift.files import canonical_json
from fedshift.registry import get
from fedshift.spec import RunSpec

Fact = TypeVar("Fact")


def by_network(find: Callable[..., Fact]) -> Callable[..., Fact]:
    """Remember a function of (spec, *numbers) by the numbers and what of the spec makes its network: model,
    method, pixels.
    """
    known: dict[str, Fact] = {}

    @functools.wraps(find)
    def found(spec: RunSpec, *numbers: int) -> Fact:
        declared = [spec.model.model_dump(), spec.method.model_dump(), spec.data.input_px]
        key = canonical_json([*declared, *numbers])
        if key not in known:
            known[key] = find(spec, *numbers)
        return known[key]

    return found


@by_network
def macs(spec: RunSpec, classes: int) -> int:
    """Multiply-accumulates of one forward pass of one image through the network as the run's method wants it.

    Raises FedshiftError where the method does not suit the network.
    """
    with torch.device("meta"):
        network = method_of(spec).model(model_of(spec, classes))
    return macs_per_image(network, spec.data.input_px)


@functools.cache
def plain_macs(model: str, px: int, where: str = "registry") -> int:
    """The same of a model with its default options and ten classes, without a method. Raises FedshiftError at
    `where` for an unknown model.
    """
    kind = get("models", model, where)
    with torch.device("meta"):
        network = kind(10, px)
    return macs_per_image(network, px)
