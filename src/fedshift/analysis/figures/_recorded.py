"""Recorded: what figures of clients' recorded numbers share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.quantities.clients import DOMAINS
from fedshift.common.errors import FedshiftError

Point = tuple[str, str, pd.DataFrame]


def points(collected: Collected, frame: pd.DataFrame) -> Iterator[list[Point]]:
    """A row of panels per method and value of the axes beyond target and seed, in the order of the file:
    (heading, held-out domain, rows of `frame`), a panel per held-out domain of which there are rows.
    """
    axes = [key for key in collected.keys if key not in ("method", "target", "seed")]
    by = ["method", *axes]
    held_out = {*frame["target"]} if "target" in frame else set()
    targets: list[Any] = [name for name in collected.order.get("target", ()) if name in held_out] or [""]
    groups = dict([*frame.groupby(by, dropna=False, sort=False)])
    orders = [collected.experiment.rows, *(collected.order[axis] for axis in axes)]
    for key in sorted(groups, key=lambda key: [_place(*pair) for pair in zip(orders, key, strict=True)]):
        varied = [pair for pair in zip(axes, key[1:], strict=True) if len(collected.order[pair[0]]) > 1]
        values = [f"{axis.rpartition('.')[2]} = {value}" for axis, value in varied]
        heading, part = ", ".join([str(key[0]), *values]), groups[key]
        yield [
            (heading, str(target), part[part["target"] == target] if target else part) for target in targets
        ]


def _place(order: list[Any], value: Any) -> int:
    return order.index(value) if value in order else len(order)


def holders(frame: pd.DataFrame) -> list[str]:
    """The clients of a frame by the domains that they hold, in the order of clients."""
    return [*frame.sort_values("client", kind="stable")[DOMAINS].unique()]


def nothing(collected: Collected, name: str) -> FedshiftError:
    """That no finished run recorded what is to be drawn."""
    what = f"no finished run here recorded '{name}'"
    return FedshiftError(
        collected.path, what, "Draw a method that does (`fedshift list methods`), trained here."
    )
