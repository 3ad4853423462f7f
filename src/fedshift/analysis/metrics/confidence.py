"""Confidence: the mean probability of the class that is predicted."""

from fedshift.analysis.metrics.base import Array, Metric, ratio


class Confidence(Metric):
    name = "confidence"
    title = "confidence"

    @staticmethod
    def compute(wrong: Array, right: Array, confidence: Array) -> Array:
        return ratio(confidence.sum(-1), (wrong + right).sum(-1))
