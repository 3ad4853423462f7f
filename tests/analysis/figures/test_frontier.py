"""Frontier: each method at its cost, and the line of those that none beats in both."""

from __future__ import annotations

import json

import pytest

from fedshift.analysis.drawing.panels import Panels, table
from fedshift.analysis.drawing.static import draw
from fedshift.analysis.figures.frontier import FRONT, Frontier
from fedshift.common.errors import FedshiftError
from fedshift.spec.resolve import params
from tests.analysis.conftest import Project, accuracy

RUNS = {"fedavg": (0.5, 10.0), "local": (0.4, 20.0), "fedbn": (0.7, 30.0)}  # ood, seconds


def drawn(project: Project, runs: dict[str, tuple[float, float]]) -> Panels:
    project.declare(methods=dict.fromkeys(runs), axes={"target": ["a"], "seed": [0]})
    for method, (ood, seconds) in runs.items():
        path = project.add(method, {1: accuracy((0.5,), ood=ood)}, target="a", seed=0) / "summary.json"
        summary = json.loads(path.read_text())
        summary["costs"]["seconds"] = seconds
        path.write_text(json.dumps(summary))
    return Frontier(params(Frontier, {"costs": ("seconds",)})).panels(project.workspace, project.collect())


def places(panels: Panels) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for row in table(panels).to_dict("records"):
        found.setdefault(row["label"], []).append((row["x"], round(row["y"], 6)))
    return found


RIGHT = {
    FRONT: [(10.0, 50.0), (30.0, 70.0)],
    "fedavg": [(10.0, 50.0)],
    "local": [(20.0, 40.0)],
    "fedbn": [(30.0, 70.0)],
}


def test_a_dot_for_each_method_and_the_line_of_the_best(project: Project) -> None:
    panels = drawn(project, RUNS)
    assert places(panels) == RIGHT and "side by side" not in panels.note


def test_a_planted_error_is_noticed(project: Project) -> None:
    """The costs of two methods swapped."""
    swapped = {**RUNS, "fedavg": (0.5, 20.0), "local": (0.4, 10.0)}
    assert places(drawn(project, swapped)) != RIGHT


def test_a_cost_in_which_nothing_differs_has_no_panel(project: Project) -> None:
    alike = dict.fromkeys(RUNS, (0.5, 10.0))
    with pytest.raises(FedshiftError, match="do not differ in seconds"):
        drawn(project, alike)


def test_methods_at_one_place_stand_side_by_side_and_are_listed_where_they_are(project: Project) -> None:
    """Of FedAvg and Ditto, whose global models are one, the later one hid the other."""
    panels = drawn(project, {**RUNS, "ditto": RUNS["fedbn"], "fedrep": RUNS["fedbn"]})
    ((panel,),) = (row.panels for row in panels.rows)
    moved = {series.label: series.shift for series in panel.series if series.style == "dot"}
    assert (moved["fedavg"], moved["local"], moved["fedbn"]) == (0, 0, 0)
    assert moved["ditto"] == -moved["fedrep"] > 0
    assert panels.note.endswith("side by side")
    assert places(panels) == RIGHT | {"ditto": RIGHT["fedbn"], "fedrep": RIGHT["fedbn"]}
    figure = draw(panels, "Costs")
    drawn_at = {line.get_label(): [*map(float, line.get_xdata())] for line in figure.axes[0].lines}
    assert drawn_at["ditto"] == [30 + moved["ditto"]] and drawn_at["fedbn"] == [30]
