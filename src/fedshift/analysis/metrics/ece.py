"""Expected calibration error: the distance of confidence from accuracy, over bins of equal width (Guo et al.,
ICML 2017, Eq. 3).
"""

import numpy as np

from fedshift.analysis.metrics.base import Array, Metric, ratio


class ECE(Metric):
    name = "ece"
    title = "ECE"
    better = "lower"

    @staticmethod
    def compute(wrong: Array, right: Array, confidence: Array) -> Array:
        """sum_b n_b / n |accuracy_b - confidence_b|, with n_b times both inside the bars."""
        return ratio(np.abs(right - confidence).sum(-1), (wrong + right).sum(-1))
