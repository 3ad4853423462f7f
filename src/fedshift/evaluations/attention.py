"""Attention: the attention map of StableFDG for an image, with the image (Park et al. 2023, Fig. 5 and 6).

Scores are computed as in testing: an image is its own partner (Eq. 6). They sum to 1 over the positions of
the last map. Figures enlarge the map to the size of the image.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.common.errors import FedshiftError
from fedshift.evaluations._images import drawn
from fedshift.evaluations.base import Evaluation, Row, Split, Trained
from fedshift.federation.evaluate import BATCH
from fedshift.methods.stablefdg.attention import Neck, itself
from fedshift.models.base import Model


@dataclass(frozen=True)
class Params:
    """`images`: maximum number of images of each class in a client's split, and in the held-out domain.
    `seed`: random seed of the sample of images.
    `splits`: "val", "test", "target".
    `classes`: names of the classes; none: all.
    `px`: maximum side of the stored images.
    """

    images: int = 4
    seed: int = 0
    splits: tuple[Split, ...] = ("target",)
    classes: tuple[str, ...] = ()
    px: int = 96


class Attention(Evaluation):
    """One row for each image.

    `class`: its name.
    `side`: positions along a side of the map.
    `scores`: [side * side], row by row.
    `px`: side of the image.
    `pixels`: [px * px * 3] bytes, RGB, row by row.
    """

    name = "attention"
    Params = Params
    columns = {
        "sample": pa.int32(), "domain": pa.string(), "label": pa.int16(), "class": pa.string(),
        "predicted": pa.int16(), "side": pa.int16(), "scores": pa.list_(pa.float32()),
        "px": pa.int16(), "pixels": pa.binary(),
    }  # fmt: skip

    @classmethod
    def check(cls, model: Model, where: object) -> None:
        if not isinstance(model.neck, Neck):
            what = "the network has no attention module whose maps could be plotted"
            raise FedshiftError(where, what, "Choose runs of stablefdg, with attention.")

    def rows(self, run: Trained) -> Iterator[Row]:
        for name in self.hp.classes:
            if name not in run.classes:
                known = ", ".join(run.classes)
                raise FedshiftError("evaluation attention: classes", f"no class is called '{name}'", known)
        for place, row, index in run.sets(self.hp.splits):
            yield from self._rows(run, place, row, self._positions(run, place, index))

    def _positions(self, run: Trained, place: Row, index: Tensor) -> Tensor:
        """The positions of images of the requested classes, in the order of the classes."""
        labels, parts = run.samples.labels[index], []
        for name in self.hp.classes or run.classes:
            own = index[labels == run.classes.index(name)]
            parts.append(drawn(own, self.hp.images, self.hp.seed, place["client"], place["split"]))
        return torch.cat(parts)

    @torch.no_grad()
    def _rows(self, run: Trained, place: Row, row: Tensor, index: Tensor) -> Iterator[Row]:
        """One row for each image at the positions `index`, with the attention of the model `row` [P + Q]."""
        model, domains = run.network.bind(row).model.eval(), run.domains()
        neck = model.neck
        assert isinstance(neck, Neck)  # ensured by `check`
        for part, (x, y) in zip(index.split(BATCH), run.images(index), strict=True):
            with run.precision():
                z = model.body(x)
                scores, predicted = neck.scores(z, itself).float(), model.head(neck(z)).argmax(1)
            shown = part.tolist(), y.tolist(), predicted.tolist(), scores, run.samples.unit(x)
            for sample, label, guess, weights, image in zip(*shown, strict=True):
                px, packed = thumbnail(image, self.hp.px)
                yield {
                    **place, "sample": sample, "domain": domains[sample], "label": label,
                    "class": run.classes[label], "predicted": guess, "side": round(len(weights) ** 0.5),
                    "scores": weights.cpu().numpy(), "px": px, "pixels": packed,
                }  # fmt: skip


def thumbnail(image: Tensor, px: int) -> tuple[int, bytes]:
    """Side and bytes (RGB, row by row) of a square image [3, h, h] in [0, 1], at most px wide."""
    if image.shape[-1] > px:
        image = F.interpolate(image[None], (px, px), mode="bilinear", antialias=True)[0]
    levels = (image.clamp(0, 1) * 255).round().to(torch.uint8)
    return image.shape[-1], levels.permute(1, 2, 0).contiguous().cpu().numpy().tobytes()
