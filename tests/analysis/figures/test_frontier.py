"""Frontier: each method at its cost, and the line of those that none beats in both."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedshift.analysis.drawing.panels import Panels, table
from fedshift.analysis.drawing.static import draw
from fedshift.analysis.figures.frontier import FRONT, Frontier
from fedshift.common.errors import FedshiftError
from fedshift.spec.block import params
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


def whole(project: Project, oods: dict[str, dict[str, list[float | None]]], **given: Any) -> Panels:
    """Methods by the seconds of a run, 10 and 20 and so on; accuracies by held-out domain and seed."""
    targets = [*next(iter(oods.values()))]
    seeds = len(next(iter(oods.values()))[targets[0]])
    project.declare(methods=dict.fromkeys(oods), axes={"target": targets, "seed": [*range(seeds)]})
    for place, (method, by_target) in enumerate(oods.items(), 1):
        for target, values in by_target.items():
            for seed, ood in enumerate(values):
                found = None if ood is None else {1: accuracy((0.5,), ood=ood)}
                loss = 1.0 if ood is None else 3 - 2 * ood
                run = project.add(method, found, target=target, seed=seed, loss=loss)
                if ood is not None:
                    summary = json.loads((run / "summary.json").read_text())
                    summary["costs"]["seconds"] = 10.0 * place
                    (run / "summary.json").write_text(json.dumps(summary))
    given = {"costs": ("seconds",), **given}
    return Frontier(params(Frontier, given)).panels(project.workspace, project.collect())


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


def test_of_a_loss_the_lowest_are_not_beaten(project: Project) -> None:
    """The cheapest has the lowest loss: no other one is on the line."""
    panels = whole(project, {"local": {"a": [0.7]}, "fedavg": {"a": [0.5]}}, metric="loss.ood")
    assert places(panels)[FRONT] == [(10.0, 1.6)]


def test_a_seed_that_lacks_a_domain_does_not_count(project: Project) -> None:
    """FedAvg with the easy domain alone, 90, would stand above Local's 71."""
    runs: dict[str, dict[str, list[float | None]]] = {
        "local": {"photo": [0.92, 0.92], "sketch": [0.5, 0.5]},
        "fedavg": {"photo": [0.9, 0.9], "sketch": [0.4, None]},
        "fedprox": {"photo": [0.99, 0.99], "sketch": [None, None]},
    }
    found = places(whole(project, runs))
    assert found == {FRONT: [(10.0, 71.0)], "local": [(10.0, 71.0)], "fedavg": [(20.0, 65.0)]}


def test_bars_of_one_figure_are_of_one_kind(project: Project) -> None:
    """Two seeds beside three have no bar among standard deviations."""
    runs: dict[str, dict[str, list[float | None]]] = {
        "local": {"a": [0.5, 0.6, 0.7]},
        "fedavg": {"a": [0.5, 0.9, None]},
    }
    panels = whole(project, runs)
    bars = {one.label: one.spread for one in panels.rows[0].panels[0].series}
    assert bars["local"] and not bars["fedavg"]
    assert "bar: ± one standard deviation over seeds" in panels.note and "two seeds" not in panels.note
