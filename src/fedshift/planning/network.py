"""What planning must know of a run's network, computed on the meta device: nothing is drawn, and runs that
share a network share the answer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import torch
from torch.nn import functional as F

from fedshift.common.files import canonical_json
from fedshift.common.registry import get
from fedshift.common.shapes import shapes_only
from fedshift.federation.cost import macs_per_image
from fedshift.federation.launches import Count, Tally
from fedshift.spec import RunSpec

Fact = TypeVar("Fact")


def by_network(find: Callable[..., Fact]) -> Callable[..., Fact]:
    """Remember a function of (spec, *numbers) by the numbers and what of the spec makes its network: model,
    method, pixels.
    """
    known: dict[str, Fact] = {}

    @functools.wraps(find)
    def fact(spec: RunSpec, *numbers: int) -> Fact:
        declared = [spec.model.model_dump(), spec.method.model_dump(), spec.data.input_px]
        key = canonical_json([*declared, *numbers])
        if key not in known:
            known[key] = find(spec, *numbers)
        return known[key]

    return fact


@functools.cache
def plain_macs(model: str, px: int, where: str = "registry") -> int:
    """Multiply-accumulates of one forward pass of one image through a model with its default options and ten
    classes, without a method. Raises FedshiftError at `where` for an unknown model.
    """
    kind = get("models", model, where)
    with shapes_only():
        network = kind(10, px)
    return macs_per_image(network, px)


OPTIMIZER = Count(
    2, 28
)  # of Adam, for each parameter: reads the gradient, it and both moments, writes all but the first


@functools.cache
def plain_step(model: str, px: int, batch: int, where: str = "registry") -> Count:
    """What a training step of the same network asks of a device: forward and backward on `batch` images, and
    Adam. Raises FedshiftError at `where` for an unknown model.
    """
    kind = get("models", model, where)
    with shapes_only():
        network = kind(10, px)
        images, labels = torch.empty(batch, 3, px, px), torch.empty(batch, dtype=torch.int64)
    # A process makes its pooling matrices in its first step, which is not counted.
    F.cross_entropy(network(images).logits, labels).backward()
    network.zero_grad()
    with Tally() as tally:
        F.cross_entropy(network(images).logits, labels).backward()
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return tally.count + Count(OPTIMIZER.launches, OPTIMIZER.bytes * parameters)
