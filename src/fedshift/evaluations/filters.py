"""Filters: image patches to which filters of clients' networks respond most, with guided backpropagation.

As in FedRD, Fig. 2 and 4b; guided backpropagation (Springenberg et al. 2015) is captum's. Filters are sampled
by number, the same for all clients, among those that respond to some image of each client. A patch is the
smallest square that contains all pixels with a gradient.

Needs captum: pip install -e .[captum].
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedshift.common.errors import FedshiftError
from fedshift.evaluations._images import of_client
from fedshift.evaluations.activations import Params as OfStages
from fedshift.evaluations.activations import named, responses
from fedshift.evaluations.attention import thumbnail
from fedshift.evaluations.base import Evaluation, Row, Trained
from fedshift.federation.batches import generator
from fedshift.models.base import Model


@dataclass(frozen=True)
class Params(OfStages):
    """`filters`: number of filters of each stage.
    `top`: number of patches of each filter.
    `seed`: random seed of the sample of images and filters.
    `px`: side of the stored patches.
    """

    filters: int = 4
    top: int = 3
    px: int = 32


class Filters(Evaluation):
    """One row for each patch.

    `layer`: the stage.
    `place`: its number among the requested stages, from 1.
    `filter`: its number.
    `rank`: of the patch, from 1.
    `response`: the filter's highest value on the image.
    `patch`, `gradient`: [px * px * 3] bytes, RGB, row by row. Gradients are scaled so that 0 is 128 and the
        largest is 1 or 255.
    """

    name = "filters"
    Params = Params
    columns = {
        "layer": pa.string(), "place": pa.int16(), "filter": pa.int16(), "rank": pa.int16(),
        "sample": pa.int32(), "domain": pa.string(), "response": pa.float32(), "px": pa.int16(),
        "patch": pa.binary(), "gradient": pa.binary(),
    }  # fmt: skip

    def rows(self, run: Trained) -> Iterator[Row]:
        hp, models = self.hp, run.of_clients(self.hp.stage)
        stages = named(run.network.model, hp.stages, "evaluation filters")
        index = {k: of_client(kept, k, hp) for k, kept in models.items()}
        found = {k: responses(run, kept.row, index[k], stages) for k, kept in models.items()}
        domains = run.domains()
        for place, stage in enumerate(stages, 1):
            for unit in _chosen([found[k][stage] for k in models], hp.filters, hp.seed, stage):
                for k, kept in models.items():
                    values = found[k][stage][:, unit]
                    best = values.argsort(descending=True, stable=True)[: hp.top]
                    x = run.samples.evaluate(run.samples.take(index[k][best.to(index[k].device)])[0]).float()
                    guided = gradients(run.network.bind(kept.row).model, stage, unit, x)
                    images = run.samples.unit(x)
                    for rank, at in enumerate(best.tolist()):
                        sample = int(index[k][at])
                        patch, gradient = cut(images[rank], guided[rank], hp.px)
                        yield {
                            **run.key(kept, k, None), "layer": stage, "place": place, "filter": unit,
                            "rank": rank + 1, "sample": sample, "domain": domains[sample],
                            "response": float(values[at]), "px": hp.px, "patch": patch, "gradient": gradient,
                        }  # fmt: skip


class _Highest(nn.Module):
    """The highest value of one filter over positions, [B], for images [B, 3, h, w]."""

    def __init__(self, model: Model, stage: str, unit: int) -> None:
        super().__init__()
        self.model, self._stage, self._unit = model, stage, unit

    def forward(self, x: Tensor) -> Tensor:
        z = self.model.body(x, stop=self._stage)
        highest: Tensor = z[:, self._unit].flatten(1).max(1).values  # a single position if several are equal
        return highest


def gradients(model: Model, stage: str, unit: int, x: Tensor) -> Tensor:
    """Guided backpropagation of a filter's highest value to the images x [B, 3, h, w].

    Through a ReLU, positive gradients pass back where the forward value is positive.

    Raises FedshiftError without captum.
    """
    try:
        from captum.attr import GuidedBackprop
    except ImportError:
        what = "needs the library captum, which is not installed"
        raise FedshiftError("evaluation filters", what, "Install it: pip install -e .[captum]") from None
    relus: list[Any] = [module for module in model.modules() if isinstance(module, nn.ReLU)]
    inplace = [relu.inplace for relu in relus]
    for relu in relus:
        relu.inplace = False  # captum's hooks see no gradient of what was overwritten
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # that it sets hooks
            return GuidedBackprop(_Highest(model.eval(), stage, unit)).attribute(x.detach().requires_grad_())
    finally:
        for relu, before in zip(relus, inplace, strict=True):
            relu.inplace = before


def cut(image: Tensor, gradient: Tensor, px: int) -> tuple[bytes, bytes]:
    """The patch of an image [3, h, h] in [0, 1] with all of a gradient, and the gradient there.

    `gradient`: of the image's shape. Both results are px wide. If the gradient is 0, the patch is the whole
        image.
    """
    used = (gradient != 0).any(0)
    rows, columns = (used.any(axis).nonzero().flatten() for axis in (1, 0))
    if not len(rows):
        rows = columns = torch.tensor([0, image.shape[-1] - 1])
    height = image.shape[-1]
    side = min(height, max(int(rows[-1] - rows[0]), int(columns[-1] - columns[0])) + 1)
    top, left = min(int(rows[0]), height - side), min(int(columns[0]), height - side)
    scaled = 0.5 + gradient / (2 * gradient.abs().max().clamp_min(1e-30))
    parts = (part[None, :, top : top + side, left : left + side] for part in (image, scaled))
    enlarged = (F.interpolate(part, (px, px), mode="nearest-exact")[0] for part in parts)
    patch, shown = (thumbnail(part, px)[1] for part in enlarged)
    return patch, shown


def _chosen(found: Sequence[Tensor], filters: int, seed: int, stage: str) -> list[int]:
    """Numbers of filters that respond to some image of every client; `found`: [n, C] of each client."""
    alive = torch.stack([values.amax(0) > 0 for values in found]).all(0).nonzero().flatten().cpu()
    order = torch.randperm(len(alive), generator=generator(seed, "filters", stage))
    return sorted(alive[order[:filters]].tolist())
