"""The one averaging function of the engine."""

from __future__ import annotations

from torch import Tensor

from fedshift.common.equations import equation


@equation("FedAvg", "Algorithm 1, server")
def mean(rows: Tensor, p: Tensor) -> Tensor:
    """sum_k p[k] rows[k], added in client order in the rows' own precision; rows [K, ..], p [K], result [..].

    Exact for one row of weight 1, so that a federation of one client equals that client bit for bit.
    """
    total = accumulate(None, rows[0], p[0])
    for row, weight in zip(rows[1:], p[1:], strict=True):
        total = accumulate(total, row, weight)
    return total


def accumulate(total: Tensor | None, row: Tensor, weight: Tensor) -> Tensor:
    """`mean`, row by row as they come: what it is so far [..], None before the first, with one `row` [..]
    more, in place.
    """
    return row * weight if total is None else total.addcmul_(row, weight)
