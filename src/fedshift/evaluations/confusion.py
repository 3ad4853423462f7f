"""Confusion: the number of images of each class by predicted class."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import torch

from fedshift.evaluations.base import Evaluation, Row, Split, Trained


@dataclass(frozen=True)
class Params:
    """`splits`: "val" and "test" of clients; "target", the held-out domain."""

    splits: tuple[Split, ...] = ("test", "target")


class Confusion(Evaluation):
    """One confusion matrix per model and set.

    `counts`: [C * C] images by label, then by the class with the highest logit.
    `classes`: their names.
    """

    name = "confusion"
    Params = Params
    columns = {"classes": pa.list_(pa.string()), "counts": pa.list_(pa.int32())}

    def rows(self, run: Trained) -> Iterator[Row]:
        size = len(run.classes)
        for place, row, index in run.sets(self.hp.splits):
            counts = torch.zeros(size**2, dtype=torch.int64, device=row.device)
            for out, y in run.outputs(row, index):
                counts += torch.bincount(y * size + out.logits.argmax(1), minlength=size**2)
            yield {**place, "classes": run.classes, "counts": counts.cpu().numpy()}
