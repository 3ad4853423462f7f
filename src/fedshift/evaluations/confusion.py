"""Confusion: how many images of each class are taken for which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import torch

from fedshift.evaluations.base import Evaluation, Row, Split, Trained

KEYS = ["method", "model", "stage", "split"]


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

    @staticmethod
    def pooled(cells: pd.DataFrame) -> pd.DataFrame:
        """A line for each label of a row's model on a split, over all clients, domains and seeds: images by
        the class that they are taken for.
        """
        parts = []
        named = cells.assign(classes=cells["classes"].map(tuple))
        for _, group in named.groupby([*KEYS, "classes"], sort=False):
            first = group.iloc[0]
            classes = list(first["classes"])
            counts = np.stack(list(group["counts"])).sum(0).reshape(len(classes), len(classes))
            keys = pd.DataFrame({**{key: first[key] for key in KEYS}, "label": classes})
            parts.append(pd.concat([keys, pd.DataFrame(counts, columns=classes)], axis=1))
        return pd.concat(parts, ignore_index=True)
