"""Learning curves: mean accuracy over rounds, a line per method, with a band over seeds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series, Spread
from fedshift.analysis.figures.base import Figure
from fedshift.analysis.printed.beside import AVERAGE, printed
from fedshift.analysis.quantities.seeds import Kind, bands, over_seeds
from fedshift.analysis.quantities.select import curves
from fedshift.errors import FedshiftError
from fedshift.workspace import Workspace

METRICS = {"id": "in-distribution", "ood": "out-of-distribution"}
Point = dict[str, Any]


class Curves(Figure):
    """Rows: in- and out-of-distribution, once per value of the further axes; panels: held-out domains and
    their average.

    Dashed: the published value, where it is of the same experiment. A band is one standard deviation from
        three seeds on.
    """

    name = "curves"

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where no run is finished."""
        frame = curves(collected)
        if frame.empty:
            what = "holds no finished run"
            raise FedshiftError(collected.path, what, "Train the experiment, then collect it again.")
        frame, targets = _with_average(frame, collected)
        rounds = float(frame["round"].min()), float(frame["round"].max())
        x = Axis("round", limits=rounds if rounds[0] < rounds[1] else None, whole=True)
        kinds: set[Kind] = set()
        rows, published = [], False
        for point, part in _points(collected, frame):
            for metric in (metric for metric in METRICS if frame[metric].notna().any()):
                panels = []
                y = Axis(f"{METRICS[metric]}\naccuracy (%)")
                for target in targets:
                    own = part if target is None else part[part["target"] == target]
                    place = point if target is None else {**point, "target": target}
                    series = [*_lines(workspace, collected, own, place, metric, kinds)]
                    published |= any(line.style == "level" for line in series)
                    panels.append(Panel(series, x, y, _title(target)))
                heading = ", ".join(f"{axis} = {value}" for axis, value in point.items())
                rows.append(Row(panels, heading))
        note = f"{bands(kinds)}{'; dashed: published' * published}"
        size = (3.6, 2.7) if len(targets) == 1 else (1.9, 2.1)
        return Panels("Learning curves", rows, collected.experiment.rows, note, size)


def _title(target: str | None) -> str:
    return {None: "", AVERAGE: "average"}.get(target, f"held out: {target}")


def _lines(
    workspace: Workspace,
    collected: Collected,
    frame: pd.DataFrame,
    point: Point,
    metric: str,
    kinds: set[Kind],
) -> Iterator[Series]:
    """The lines of one panel, each method's mean with its published level; adds to `kinds` which bands there
    are.
    """
    for method in collected.experiment.methods:
        line = over_seeds(frame[frame["method"] == method], "round", metric, collected.protocol.ddof)
        if line is None:
            continue
        kinds.add(line.kind)
        spread = Spread([*line.low], [*line.high]) if line.kind != "alone" else None
        yield Series(method, "mean", [*map(float, line.mean.index)], [*line.mean], spread=spread)
        value = printed(workspace, collected, method, point, metric)
        if value is not None:
            yield Series(method, "published", [0.0], [value], "level")


def _with_average(frame: pd.DataFrame, collected: Collected) -> tuple[pd.DataFrame, list[Any]]:
    """Curves with those of the average over targets appended (rounds and seeds that all targets have), and
    the panels to draw.
    """
    keys = collected.keys
    if "target" not in keys or frame["target"].isna().all():
        return frame, [None]
    drawn = set(frame["target"])
    targets = [target for target in collected.order["target"] if target in drawn]
    if len(targets) == 1:
        return frame, targets
    by = [key for key in [*keys, "round"] if key != "target"]
    groups = frame.groupby(by, dropna=False)[[*METRICS]]
    average = groups.mean()[groups.size() == len(targets)].reset_index()
    return pd.concat([frame, average.assign(target=AVERAGE)]), [*targets, AVERAGE]


def _points(collected: Collected, frame: pd.DataFrame) -> Iterator[tuple[Point, pd.DataFrame]]:
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
