"""Accuracy: the share of samples that are classified correctly."""

from fedshift.analysis.metrics.base import Array, Metric, ratio


class Accuracy(Metric):
    name = "accuracy"
    title = "accuracy"
    recorded = True

    @staticmethod
    def compute(n: Array, correct: Array) -> Array:
        return ratio(correct.sum(-1), n.sum(-1))
