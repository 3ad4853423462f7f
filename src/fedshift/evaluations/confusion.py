"""Confusion: how many images of each class are taken for which."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import torch

from fedshift.evaluations.base import Evaluation, Row, Split, Trained


@dataclass(frozen=True)
class Params:
    """splits: of clients ("val", "test"), and "target", the held-out domain."""

    splits: tuple[Split, ...] = ("test", "target")


class Confusion(Evaluation):
    """counts: [C * C] images by label, then by the class that has the highest logit; classes: their names."""

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
