"""Worst class: the lowest recall of a class that has samples."""

import numpy as np

from fedshift.analysis.metrics.base import Array, Metric, ratio


class WorstClass(Metric):
    name = "worst_class"
    title = "worst class"

    @staticmethod
    def compute(n: Array, correct: Array) -> Array:
        return np.asarray(np.fmin.reduce(ratio(correct, n), -1))  # without the NaN of absent classes
