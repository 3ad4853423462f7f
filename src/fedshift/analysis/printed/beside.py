"""Beside: the printed value that a figure draws beside a mean of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.printed import published
from fedshift.analysis.printed.comparable import differences
from fedshift.experiments.axes import NONE
from fedshift.storage.workspace import Workspace

AVERAGE = "average"  # over targets


def printed(
    workspace: Workspace, collected: Collected, method: str, point: Mapping[str, Any], metric: str
) -> float | None:
    """The published `metric` (percent) of a method at a point on the axes; `target` may be AVERAGE.

    None where the paper prints none for the experiment of these runs.
    """
    values = {axis: "mean" if value == AVERAGE else value for axis, value in point.items()}
    names = ("id", "avg") if metric == "id" else (metric,)  # two names of one quantity: papers print either
    candidates = (published.find(workspace, collected.experiment, method, values, name) for name in names)
    value = next(filter(None, candidates), None)
    if value is None:
        return None
    runs = collected.runs[collected.runs["method"] == method]
    for axis, wanted in point.items():
        runs = runs[runs[axis] != NONE] if wanted == AVERAGE else runs[runs[axis] == wanted]
    return None if differences(workspace, collected.protocol, value, runs) else value.value
