"""Clients: the accuracy of each, in the round that tables report, under the domain that it holds."""

import itertools
from typing import Any

import pytest

from fedshift.analysis.figures import draw
from fedshift.analysis.figures.base import Plot
from fedshift.analysis.figures.clients import Clients
from fedshift.spec.block import params
from tests.analysis.conftest import Project, accuracy
from tests.analysis.figures.recording import trained

VALUES = {"fedavg": (0.5, 0.7), "local": (0.6, 0.3)}


def drawn(project: Project, **given: Any) -> Plot:
    """Two methods, two clients, two seeds, the second 2 points above; after the first round 0.1."""
    project.declare(methods=dict.fromkeys(VALUES), axes={"seed": [0, 1]})
    for (method, clients), seed in itertools.product(VALUES.items(), (0, 1)):
        moved = tuple(value + 0.02 * seed for value in clients)
        project.add(method, {1: accuracy((0.1, 0.1)), 2: accuracy(moved)}, seed=seed)
    return Clients(params(Clients, given)).plot(project.workspace, project.collect())


def means(plot: Plot) -> dict[tuple[str, str], float]:
    values = plot.frame
    values = values[values["mark"] == "mean"]
    return {(row["label"], row["x"]): round(row["y"], 6) for row in values.to_dict("records")}


RIGHT = {
    ("fedavg", "domain0"): 51.0,
    ("fedavg", "domain1"): 71.0,
    ("local", "domain0"): 61.0,
    ("local", "domain1"): 31.0,
}


def test_each_client_has_its_own_value_under_its_domain(project: Project) -> None:
    plot = drawn(project)
    assert means(plot) == RIGHT
    assert plot.note == "rings: single seeds"


def test_a_radar_has_a_closed_line_for_each_method_in_percent_of_the_best(project: Project) -> None:
    plot = drawn(project, style="radar", scaled=True)
    assert means(plot)["fedavg", "domain0"] == pytest.approx(100 * 51 / 61)
    assert means(plot)["local", "domain0"] == 100
    figure = draw.draw(plot, "A toy")
    assert [axes.name for axes in figure.axes] == ["polar"]
    assert all(len(line.get_xdata()) == 3 for line in figure.axes[0].get_lines())


def test_a_seed_that_lacks_a_held_out_domain_is_left_out(project: Project) -> None:
    places = [("fedavg", "a", 0), ("fedavg", "b", 0), ("fedavg", "a", 1), ("fedavg", "b", 1)]
    found = trained(project, dict(zip(places, (0.4, 0.6, 0.9, None), strict=True)))
    plot = Clients(Clients.Params()).plot(project.workspace, found)
    assert means(plot)["fedavg", "domain0"] == pytest.approx(50)
