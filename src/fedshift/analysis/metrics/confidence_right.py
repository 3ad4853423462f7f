"""Confidence when right: the mean probability of the predicted class over correctly classified samples, by
the mean of each bin of confidence (hFedF, Fig. 3).
"""

from fedshift.analysis.metrics.base import Array, Metric, mean_of


class ConfidenceRight(Metric):
    name = "confidence_right"
    title = "confidence when right"

    @staticmethod
    def compute(wrong: Array, right: Array, confidence: Array) -> Array:
        return mean_of(right, wrong + right, confidence)
