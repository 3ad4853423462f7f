"""Counted: the costs of a run's network, by its shapes alone."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from fedshift.analysis.costs import MEGA, Counts
from fedshift.common.registry import get
from fedshift.common.tensors import shapes_only
from fedshift.federation.cost import macs_per_image, state_dict_bytes
from fedshift.spec import RunSpec

MIB = 2**20
NORMALISED = 4  # operations for each number that batch normalisation passes, as thop counts


def network(spec: RunSpec) -> nn.Module | None:
    """The run's network on the meta device; None where only its images tell the classes."""
    classes = len(get("datasets", spec.data.dataset).classes)
    with shapes_only():
        return spec.method.build().model(spec.model.build(classes, spec.data.input_px)) if classes else None


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


@functools.cache
def counts(text: str) -> Counts:
    """Of a spec, as JSON; NaN where only its images tell the classes."""
    spec = RunSpec.model_validate_json(text)
    model, px = network(spec), spec.data.input_px
    if model is None:
        return Counts(*[float("nan")] * 4)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    macs = macs_per_image(model, px)
    passed = NORMALISED * normalised(model, px)
    return Counts(parameters / MEGA, state_dict_bytes(model) / MIB, macs / MEGA, (macs + passed) / MEGA)
