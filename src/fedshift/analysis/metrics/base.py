"""What a metric is: a pure function of sufficient statistics, which runs record
(fedshift.federation.records).
"""

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Array = NDArray[Any]


class Metric:
    """A number for each of many sets of samples. How the clients of a run become one number:
    fedshift.analysis.quantities.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """As tables head its columns."""
    percent: ClassVar[bool] = True
    """A fraction, which tables show in percent; else a number that they show as it is."""
    better: ClassVar[Literal["higher", "lower"]] = "higher"
    recorded: ClassVar[bool] = False
    """Runs record its value for each evaluated set, as of accuracy and loss; it is read, not computed."""
    compute: ClassVar[Callable[..., Array]]
    """The function. Its parameters, by name, are what it is computed from: `n`, `correct`, `loss` [..., C],
    `wrong`, `right`, `confidence` [..., BINS], as fedshift.federation.records.Statistics defines them, in
    float64. It gives [...], NaN where undefined.
    """

    @classmethod
    def reads(cls) -> list[str]:
        """The names of the statistics that the metric is computed from."""
        return list(inspect.signature(cls.compute).parameters)


def computed(metric: type[Metric], statistics: pa.Table) -> Array:
    """[rows] A metric of rows of statistics, as runs record them, that have equally many classes."""
    return metric.compute(*(as_array(statistics[name]) for name in metric.reads()))


def as_array(column: pa.ChunkedArray) -> Array:
    """[rows, width] of a column of lists that are equally long, in float64."""
    flat = pc.list_flatten(column).to_numpy().astype(np.float64)
    return np.asarray(flat.reshape(len(column), -1))


def ratio(numerator: Array, denominator: Array) -> Array:
    """numerator / denominator, NaN where nothing is divided by nothing."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(numerator / denominator)


def recall(n: Array, correct: Array) -> Array:
    """[..., C] The share of a class's samples that are classified correctly; NaN for a class without
    samples.
    """
    return ratio(correct, n)


def mean_of(chosen: Array, samples: Array, confidence: Array) -> Array:
    """[...] The mean confidence of `chosen` of the `samples` [..., BINS], each taken to have the mean of its
    bin; NaN where none is chosen.
    """
    in_bin = np.nan_to_num(ratio(confidence, samples))
    return ratio((chosen * in_bin).sum(-1), chosen.sum(-1))
