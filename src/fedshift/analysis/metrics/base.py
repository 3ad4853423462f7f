"""Metric: a pure function of the sufficient statistics that runs record (fedshift.federation.records)."""

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Array = NDArray[Any]


class Metric:
    """A number for each of many sets of samples.

    fedshift.analysis.quantities combines the values of a run's clients into one number.
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
    """A metric [rows] of rows of recorded statistics with the same number of classes."""
    return metric.compute(*(as_array(statistics[name]) for name in metric.reads()))


def as_array(column: pa.ChunkedArray) -> Array:
    """A column of lists of equal length as an array [rows, width] in float64."""
    flat = pc.list_flatten(column).to_numpy().astype(np.float64)
    return np.asarray(flat.reshape(len(column), -1))


def ratio(numerator: Array, denominator: Array) -> Array:
    """numerator / denominator, NaN for 0 / 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(numerator / denominator)


def mean_of(chosen: Array, samples: Array, confidence: Array) -> Array:
    """The mean confidence [...] of `chosen` of the `samples` [..., BINS]; NaN if none is chosen.

    All samples of a bin are taken to have its mean confidence, so it is exact to the width of a bin.
    """
    in_bin = np.nan_to_num(ratio(confidence, samples))
    return ratio((chosen * in_bin).sum(-1), chosen.sum(-1))
