"""Hardest: the images that a model is most wrong about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import torch
from torch.nn.functional import cross_entropy

from fedshift.evaluations.base import Evaluation, Row, Trained


@dataclass(frozen=True)
class Params:
    """images: at most so many of a client, and of the held-out domain."""

    images: int = 10


class Hardest(Evaluation):
    """sample: the image's position in the decoded images; loss: its cross entropy in nats."""

    name = "hardest"
    Params = Params
    columns = {"sample": pa.int32(), "loss": pa.float32()}

    def rows(self, run: Trained) -> Iterator[Row]:
        for place, model, index in run.sets(["test", "target"]):
            parts = [cross_entropy(out.logits, y, reduction="none") for out, y in run.outputs(model, index)]
            losses = torch.cat(parts)
            for at in losses.argsort(descending=True)[: self.hp.images].tolist():
                yield {**place, "sample": int(index[at]), "loss": float(losses[at])}
