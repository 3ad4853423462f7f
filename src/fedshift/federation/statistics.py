"""Sufficient statistics of a model's predictions on a set of samples: what every metric is computed from
(fedshift.analysis.metrics).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

BINS = 20  # of equal width on [0, 1]; a confidence on a bound belongs to the bin above it
TYPES = {
    "n": pa.int32(), "correct": pa.int32(), "loss": pa.float16(),
    "wrong": pa.int32(), "right": pa.int32(), "confidence": pa.float32(),
}  # fmt: skip


@dataclass(frozen=True)
class Statistics:
    """Of a set of samples, or of many: `...` is empty, or an axis of sets."""

    n: NDArray[Any]
    """[..., C] Samples by class."""
    correct: NDArray[Any]
    """[..., C] Samples by class whose label has the highest logit."""
    loss: NDArray[Any]
    """[..., C] Mean cross entropy by class (nats), 0 for a class without samples; to three digits."""
    wrong: NDArray[Any]
    """[..., BINS] Misclassified samples by confidence, the highest probability of the softmax."""
    right: NDArray[Any]
    """[..., BINS] Correctly classified samples by confidence."""
    confidence: NDArray[Any]
    """[..., BINS] Sum of the confidences of the samples in a bin."""

    def columns(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, in the types of the file."""
        with np.errstate(over="ignore"):  # a loss that diverged is infinite in half precision
            return {name: getattr(self, name).astype(kind.to_pandas_dtype()) for name, kind in TYPES.items()}


def union(
    arrays: dict[str, NDArray[Any]], starts: NDArray[Any] | tuple[int, ...] = (0,)
) -> dict[str, NDArray[Any]]:
    """Statistics, by name, of unions of sets along the first axis, from each of `starts` to the next; in
    float64. `loss` needs `n`.
    """
    sums = {
        name: np.add.reduceat(
            array * arrays["n"] if name == "loss" else array, starts, axis=0, dtype=np.float64
        )
        for name, array in arrays.items()
    }
    if "loss" in sums:
        n = sums["n"]
        sums["loss"] = np.divide(sums["loss"], n, out=np.zeros_like(n), where=n > 0)
    return sums
