"""Worst class: the lowest recall of a class that has samples."""

import numpy as np

from fedshift.analysis.metrics.base import Array, Metric, recall


class WorstClass(Metric):
    name = "worst_class"
    title = "worst class"

    @staticmethod
    def compute(n: Array, correct: Array) -> Array:
        lowest = np.where(n > 0, recall(n, correct), np.inf).min(-1)
        return np.where(np.isfinite(lowest), lowest, np.nan)
