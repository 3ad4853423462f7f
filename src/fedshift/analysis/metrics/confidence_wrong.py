"""Confidence when wrong: the mean probability of the predicted class over misclassified samples, by the mean
of each bin of confidence (hFedF, Fig. 3).
"""

from fedshift.analysis.metrics.base import Array, Metric, mean_of


class ConfidenceWrong(Metric):
    name = "confidence_wrong"
    title = "confidence when wrong"
    better = "lower"

    @staticmethod
    def compute(wrong: Array, right: Array, confidence: Array) -> Array:
        return mean_of(wrong, wrong + right, confidence)
