"""Clients: the accuracy of each, in the round that tables report, under the domain that it holds."""

from __future__ import annotations

from typing import Any

import pytest

from fedshift.analysis.figures import draw
from fedshift.analysis.figures.base import Plot
from fedshift.analysis.figures.clients import Clients
from fedshift.common.errors import FedshiftError
from fedshift.experiments.load import load
from fedshift.spec.block import params
from tests.analysis.conftest import Project, accuracy

Values = dict[str, tuple[float, float]]


def drawn(project: Project, values: Values, last: int = 2, **given: Any) -> Plot:
    """Two methods, two clients, two seeds; after `last` rounds the accuracies, after the other one 0.1."""
    project.declare(methods=dict.fromkeys(values), axes={"seed": [0, 1]})
    for method, clients in values.items():
        for seed in (0, 1):
            moved = tuple(value + 0.02 * seed for value in clients)
            project.add(method, {3 - last: accuracy((0.1, 0.1)), last: accuracy(moved)}, seed=seed)
    return Clients(params(Clients, given)).plot(project.workspace, project.collect())


def means(plot: Plot) -> dict[tuple[str, str], float]:
    values = plot.frame
    values = values[values["mark"] == "mean"]
    return {(row["label"], row["x"]): round(row["y"], 6) for row in values.to_dict("records")}


VALUES: Values = {"fedavg": (0.5, 0.7), "local": (0.6, 0.3)}
RIGHT = {
    ("fedavg", "domain0"): 51.0,
    ("fedavg", "domain1"): 71.0,
    ("local", "domain0"): 61.0,
    ("local", "domain1"): 31.0,
}


def test_each_client_has_its_own_value_under_its_domain(project: Project) -> None:
    plot = drawn(project, VALUES)
    assert means(plot) == RIGHT
    assert plot.note == "rings: single seeds"


def test_a_radar_has_a_closed_line_for_each_method_in_percent_of_the_best(project: Project) -> None:
    plot = drawn(project, VALUES, style="radar", scaled=True)
    assert means(plot)["fedavg", "domain0"] == pytest.approx(100 * 51 / 61)
    assert means(plot)["local", "domain0"] == 100
    figure = draw.draw(plot, "A toy")
    assert [axes.name for axes in figure.axes] == ["polar"]
    assert all(len(line.get_xdata()) == 3 for line in figure.axes[0].get_lines())


def test_a_seed_that_lacks_a_held_out_domain_is_left_out(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": ["a", "b"], "seed": [0, 1]})
    for target, seed, value in (("a", 0, 0.4), ("b", 0, 0.6), ("a", 1, 0.9), ("b", 1, None)):
        project.add("fedavg", value and {1: accuracy((value, value))}, target=target, seed=seed)
    plot = Clients(Clients.Params()).plot(project.workspace, project.collect())
    assert means(plot)["fedavg", "domain0"] == pytest.approx(50)


def test_percent_of_the_largest_loss_are_refused(project: Project) -> None:
    """The largest is the worst: 100 would be noted as the best method."""
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    figure = Clients(params(Clients, {"metric": "loss", "scaled": True}))
    with pytest.raises(FedshiftError, match=r"figures\.scaled: the best loss is the lowest"):
        figure.check(load(project.workspace, project.name), {"seed": [0]}, "figures")


def test_no_complete_seed_is_an_error(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": ["a", "b"], "seed": [0]})
    project.add("fedavg", {1: accuracy((0.5, 0.5), ood=0.5)}, target="a", seed=0)
    project.add("fedavg", None, target="b", seed=0)
    with pytest.raises(FedshiftError, match="no seed with all its runs"):
        Clients(Clients.Params()).plot(project.workspace, project.collect())
