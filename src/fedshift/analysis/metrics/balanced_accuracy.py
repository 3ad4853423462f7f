"""Balanced accuracy: mean recall of the classes that have samples."""

import numpy as np

from fedshift.analysis.metrics.base import Array, Metric, ratio


class BalancedAccuracy(Metric):
    name = "balanced_accuracy"
    title = "balanced accuracy"

    @staticmethod
    def compute(n: Array, correct: Array) -> Array:
        return ratio(np.nansum(ratio(correct, n), -1), (n > 0).sum(-1))
