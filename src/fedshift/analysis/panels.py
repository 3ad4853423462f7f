"""Panels: what figures of accuracy over rounds show, whoever draws them: lines, bands, and printed values that belong beside them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from fedshift.analysis import published
from fedshift.analysis.collect import Collected
from fedshift.analysis.comparable import differences
from fedshift.experiments.axes import NONE

PANELS = {"id": "in-distribution", "ood": "out-of-distribution"}
AVERAGE = "average"
Kind = Literal["std", "range", "alone"]
BANDS: dict[Kind, str] = {
    "std": "band: ± one standard deviation over seeds",
    "range": "band of two seeds: from the lower to the higher",
    "alone": "no band: one seed",
}
ENOUGH = 3  # seeds from which a standard deviation is drawn
Point = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """A method's accuracy (percent) by round: mean over seeds, and the band around it, of one of BANDS."""

    mean: pd.Series[float]
    low: pd.Series[float]
    high: pd.Series[float]
    kind: Kind


def method_line(own: pd.DataFrame, metric: str, ddof: int) -> Line | None:
    """Of one method's curves in one panel, a row for each seed and round; None where it has no value."""
    groups = own.groupby("round")[metric]
    mean = groups.mean().dropna()
    if mean.empty:
        return None
    seeds = groups.count().reindex(mean.index)
    if seeds.max() < ENOUGH:
        low, high = (side.reindex(mean.index) for side in (groups.min(), groups.max()))
        return Line(mean, low, high, "range" if seeds.max() > 1 else "alone")
    spread = groups.std(ddof=ddof).reindex(mean.index).where(seeds >= ENOUGH, 0)
    return Line(mean, mean - spread, mean + spread, "std")


def legend(kinds: Collection[Kind]) -> str:
    """What the bands of a figure are."""
    return "; ".join(said for kind, said in BANDS.items() if kind in kinds)


def with_average(frame: pd.DataFrame, collected: Collected) -> tuple[pd.DataFrame, list[Any]]:
    """Curves with those of the average over targets appended (rounds and seeds that all targets have), and the columns to draw."""
    keys = collected.keys
    if "target" not in keys or frame["target"].isna().all():
        return frame, [None]
    drawn = set(frame["target"])
    targets = [target for target in collected.order["target"] if target in drawn]
    if len(targets) == 1:
        return frame, targets
    by = [key for key in [*keys, "round"] if key != "target"]
    groups = frame.groupby(by, dropna=False)[[*PANELS]]
    average = groups.mean()[groups.size() == len(targets)].reset_index()
    return pd.concat([frame, average.assign(target=AVERAGE)]), [*targets, AVERAGE]


def points(collected: Collected, frame: pd.DataFrame) -> Iterator[tuple[Point, pd.DataFrame]]:
    """The values of the axes beyond target and seed, in the order of the file, each with its curves."""
    further = [key for key in collected.keys if key not in ("method", "target", "seed")]
    if not further:
        yield {}, frame
        return
    groups = dict(list(frame.groupby(further, sort=False, dropna=False)))

    def place(values: tuple[Any, ...]) -> list[int]:
        orders = (collected.order[axis] for axis in further)
        return [
            order.index(value) if value in order else -1 for order, value in zip(orders, values, strict=True)
        ]

    for values in sorted(groups, key=place):
        yield dict(zip(further, values, strict=True)), groups[values]


def printed(
    root: Path, collected: Collected, method: str, point: Point, target: str | None, metric: str
) -> float | None:
    """The published value that belongs beside a method's line: None where the paper prints none for the experiment of these runs."""
    values = point if target is None else {**point, "target": "mean" if target == AVERAGE else target}
    names = ("id", "avg") if metric == "id" else (metric,)  # Two names of one quantity: papers print either.
    found = (published.find(root, collected.experiment, method, values, name) for name in names)
    value = next(filter(None, found), None)
    if value is None:
        return None
    runs = collected.runs[collected.runs["method"] == method]
    for axis, wanted in point.items():
        runs = runs[runs[axis] == wanted]
    if target is not None:
        runs = runs[runs["target"] != NONE] if target == AVERAGE else runs[runs["target"] == target]
    return None if differences(root, collected.protocol, value, runs) else value.value
