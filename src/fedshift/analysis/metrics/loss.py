"""Loss: mean cross entropy of the samples, in nats."""

from fedshift.analysis.metrics.base import Array, Metric, ratio


class Loss(Metric):
    name = "loss"
    title = "loss"
    percent = False
    better = "lower"
    recorded = True

    @staticmethod
    def compute(n: Array, loss: Array) -> Array:
        return ratio((n * loss).sum(-1), n.sum(-1))
