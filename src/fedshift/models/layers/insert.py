"""Layers between the stages of a network; the names of what is there do not change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from fedshift.common.errors import FedshiftError
from fedshift.models.base import Model


def check_stages(model: Model, stages: Iterable[str], key: str) -> None:
    """Raise FedshiftError, naming the method's parameter `key`, for a stage that the network has not."""
    for stage in stages:
        if stage not in model.stages:
            raise FedshiftError(
                f"method.params.{key}",
                f"'{stage}' is no stage of {model.name}",
                f"Valid: {', '.join(model.stages)}.",
            )


@torch.no_grad()
def channels(model: Model) -> dict[str, int]:
    """The channels of the map after every stage."""
    widths: dict[str, int] = {}

    def note(stage: str, x: Tensor) -> Tensor:
        widths[stage] = x.shape[1]
        return x

    device = next(model.parameters()).device
    after = {stage: lambda x, stage=stage: note(stage, x) for stage in model.stages}
    model.eval()
    model.body(torch.zeros(1, 3, model.input_px, model.input_px, device=device), after)
    model.train()
    return widths


def insert(model: Model, layers: Mapping[str, nn.Module], suffix: str) -> Model:
    """Put layers[stage] behind that stage, as a stage "<stage>_<suffix>" of its own."""
    stages: dict[str, nn.Module] = {}
    for name, stage in model.stages.items():
        stages[name] = stage
        if name in layers:
            stages[f"{name}_{suffix}"] = layers[name]
    model.stages = nn.ModuleDict(stages)
    return model
