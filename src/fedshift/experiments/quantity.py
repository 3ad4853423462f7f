"""Quantities: what a column of a table shows, a metric and how the clients of a run become one number:
`ece.ood`, `worst_class.pooled`.
"""

from __future__ import annotations

from typing import NamedTuple

from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.registry import names

AGGREGATIONS = {
    "id": "id",
    "ood": "ood",
    "all": "ALL",
    "avg": "AVG",
    "pooled": "pooled",
    "worst": "worst client",
    "std": "std over clients",
}  # name -> as tables head it; fedshift.analysis.quantities.aggregation computes them
DEFAULT = "accuracy"


class Quantity(NamedTuple):
    """A metric of fedshift.analysis.metrics, and one of AGGREGATIONS."""

    metric: str
    aggregation: str


def quantity(text: str, where: object = "metrics") -> Quantity:
    """`<metric>.<aggregation>`; an aggregation alone is of accuracy. Raises FedshiftError at `where` for an
    unknown metric or aggregation.
    """
    metric, _, aggregation = text.rpartition(".")
    parsed = Quantity(metric or DEFAULT, aggregation)
    if parsed.metric not in names("metrics"):
        raise unknown(where, "metric", parsed.metric, names("metrics"), "metrics")
    if aggregation in names("metrics") and not metric:
        cure = (
            f"Write {aggregation}.<aggregation>: "
            f"{', '.join(f'{aggregation}.{name}' for name in AGGREGATIONS)}."
        )
        raise FedshiftError(where, f"'{text}' does not say how clients become one number", cure)
    if aggregation not in AGGREGATIONS:
        raise unknown(where, "aggregation over clients", aggregation, AGGREGATIONS)
    return parsed
