"""Bars: a bar for each value and label, from 0, with its seeds."""

from __future__ import annotations

import itertools

import pytest

from fedshift.analysis.drawing import static
from fedshift.analysis.drawing.panels import Panels, table
from fedshift.analysis.figures.bars import Bars
from fedshift.analysis.figures.sweep import Sweep
from fedshift.spec.block import params
from tests.analysis.conftest import Project, accuracy

OOD = {("fedavg", "a"): 0.4, ("fedavg", "b"): 0.6, ("local", "a"): 0.5, ("local", "b"): 0.3}


def drawn(project: Project, ood: dict[tuple[str, str], float], seeds: int = 2) -> Panels:
    project.declare(
        methods={"fedavg": None, "local": None}, axes={"target": ["a", "b"], "seed": [*range(seeds)]}
    )
    for (method, target), value in ood.items():
        for seed in range(seeds):
            project.add(method, {1: accuracy((0.5,), ood=value + 0.02 * seed)}, target=target, seed=seed)
    return Bars(params(Bars, {"x": "target"})).panels(project.workspace, project.collect())


def heights(panels: Panels) -> dict[tuple[str, str], float]:
    values = table(panels)
    values = values[values["mark"] == "mean"]
    return {(row["label"], row["x"]): round(row["y"], 6) for row in values.to_dict("records")}


RIGHT = {("fedavg", "a"): 41.0, ("fedavg", "b"): 61.0, ("local", "a"): 51.0, ("local", "b"): 31.0}


def test_a_bar_for_each_method_and_domain_begins_at_zero(project: Project) -> None:
    panels = drawn(project, OOD)
    assert heights(panels) == RIGHT
    figure = static.draw(panels, "A toy")
    bars = [bar for container in figure.axes[0].containers for bar in container]
    assert sorted(bar.get_height() for bar in bars) == pytest.approx([31, 41, 51, 61])
    assert figure.axes[0].get_ylim()[0] == 0
    ends = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(ends))


def test_a_planted_error_is_noticed(project: Project) -> None:
    """The held-out domains of one method swapped."""
    swapped = {**OOD, ("local", "a"): OOD["local", "b"], ("local", "b"): OOD["local", "a"]}
    assert heights(drawn(project, swapped)) != RIGHT


def test_a_row_stands_at_the_setting_of_its_runs(project: Project) -> None:
    """x is read of the runs' specifications; a level is drawn over all of x."""
    project.declare(
        methods={
            "mu-1": {"method": {"name": "fedprox", "params": {"mu": 1.0}}},
            "mu-0.1": {"method": {"name": "fedprox", "params": {"mu": 0.1}}},
            "fedavg": None,
        },
        axes={"seed": [0]},
    )
    from fedshift.experiments.expand import expand
    from fedshift.experiments.load import load

    for cell in expand(project.workspace, load(project.workspace, "toy")):
        value = {"mu-1": 0.3, "mu-0.1": 0.5, "fedavg": 0.4}[cell.label]
        project.add(cell.label, {1: accuracy((value,))}, spec=cell.spec, seed=0)
    given = {"x": "setting.method.params.mu", "rows": "mu-*", "metrics": ("id",), "levels": ("fedavg",)}
    panels = Sweep(params(Sweep, given)).panels(project.workspace, project.collect())
    values = [(row["label"], row["x"], row["y"]) for row in table(panels).to_dict("records")]
    assert values == [
        ("fedprox", "0.1", 50),
        ("fedprox", "1", 30),
        ("fedavg", "0.1", 40),
        ("fedavg", "1", 40),
    ]
