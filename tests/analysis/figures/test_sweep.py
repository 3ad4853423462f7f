"""A sweep: which values are averaged, and what is drawn around them."""

from typing import Any

import pandas as pd
import pytest

from fedshift.analysis.collected import Collected
from fedshift.analysis.figures.base import Plot, table
from fedshift.analysis.figures.sweep import Sweep
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.spec.block import params
from tests.analysis.conftest import Project, accuracy


def sweep(project: Project, collected: Collected, **given: Any) -> Plot:
    return Sweep(params(Sweep, given)).plot(project.workspace, collected)


def toy(project: Project, *, seeds: int = 3, values: tuple[Any, ...] = (0.1, 1.0, 10.0), key: str = "local.clip") -> Collected:  # fmt: skip
    """Two methods, two targets: ood is 30 + 10 by the place of the value + 2 by the seed, local 5 more, the target b 20 more."""
    name = key.rpartition(".")[2]
    axes = {name: {"key": key, "values": [*values]}, "target": ["a", "b"], "seed": [*range(seeds)]}
    oods = {
        (method, value, target, seed): 0.3 + 0.1 * place + 0.02 * seed + 0.05 * more + 0.2 * (target == "b")
        for more, method in enumerate(("fedavg", "local"))
        for place, value in enumerate(values)
        for target in ("a", "b")
        for seed in range(seeds)
    }
    return project.trained(oods, (name, "target", "seed"), axes=axes)


def rows(plot: Plot, **where: Any) -> pd.DataFrame:
    values = table(plot)
    for column, value in where.items():
        values = values[values[column] == value]
    return values


def test_a_line_per_target_and_a_panel_per_method(project: Project) -> None:
    plot = sweep(project, toy(project, seeds=1), x="clip", lines="target", metrics=("ood",))
    assert [*plot.frame["panel"].unique()] == ["fedavg", "local"]
    assert plot.labels == ["a", "b"]
    assert rows(plot, panel="local", label="b")["y"].tolist() == pytest.approx([55, 65, 75])
    by_target = sweep(project, project.collect(), x="clip", panels="target", metrics=("ood",))
    assert [*by_target.frame["panel"].unique()] == ["held out: a", "held out: b"]
    assert rows(by_target, panel="held out: b", label="fedavg")["y"].tolist() == pytest.approx([50, 60, 70])


@pytest.mark.parametrize(
    ("values", "scale", "expected"),
    [
        ((1, 2, 4, 8), "auto", "log"), ((3, 6, 9, 12), "auto", "linear"), ((0.5, 0.75, 0.85, 0.95, 1.0), "auto", "linear"),
        ((0, 1, 5, 20), "auto", "linear"), ((1, 100), "auto", "linear"), ((3, 6, 9, 12), "log", "log"), ((1, 2, 4, 8), "linear", "linear"),
    ],
)  # fmt: skip
def test_the_scale_fits_the_values(values: tuple[float, ...], scale: str, expected: str) -> None:
    figure = Sweep(params(Sweep, {"x": "clip", "scale": scale}))
    assert figure._axis(pd.Series(values), values)[1].scale == expected


TABLE2 = "pacs/cnn32/lodo/d{d}/{method}/default/{target}"


@pytest.mark.parametrize(("rounds", "comparable"), [(200, True), (10, False)])
def test_published_points_of_the_same_experiment_stand_beside(
    project: Project, rounds: int, comparable: bool
) -> None:
    project.declare(
        protocol="hfedf",
        spec={"data": {"dataset": "pacs"}, "federation": {"rounds": rounds}},
        methods={"fedavg": None},
        axes={"d": {"key": "partition.params.d", "values": [1, 2, 3]}, "target": "all", "seed": [0]},
        published={"*": TABLE2},
    )
    collected = project.add_all({1: accuracy((0.5, 0.5), ood=0.4)})
    plot = sweep(project, collected, x="d", metrics=("ood",))
    assert rows(plot, mark="published")["y"].tolist() == ([51.3, 53.2, 53.5] if comparable else [])
    assert ("diamond: published" in plot.note) == comparable


def test_rows_stand_at_the_setting_of_their_runs_with_a_level_and_its_seeds(project: Project) -> None:
    """FedProx's rows by the mu in their runs, whatever they are called; FedAvg as a level; seed 1 has 10 points more."""
    of = {0.01: 0.5, 0.1: 0.6, 1.0: 0.3}
    rows = {f"row-{n}": {"method": {"name": "fedprox", "params": {"mu": mu}}} for n, mu in enumerate(of)}
    project.declare(methods={"fedavg": None, **rows}, axes={"seed": [0, 1]})
    oods = dict(zip(["fedavg", *rows], [0.55, *of.values()], strict=True))
    for cell in expand(project.workspace, load(project.workspace, project.name)):
        ood = oods[cell.label] + 0.1 * cell.axes["seed"]
        project.add(cell.label, {1: accuracy((0.5, 0.5), ood=ood)}, spec=cell.spec, **cell.axes)
    given: dict[str, Any] = {"x": "setting.method.params.mu", "metrics": ("ood",), "levels": ("fedavg",)}
    values = table(sweep(project, project.collect(), **given))

    def places(mark: str) -> list[tuple[str, str, float]]:
        marked = values[values["mark"] == mark]
        return [*zip(marked["label"], marked["x"], marked["y"].round(6), strict=True)]

    level = [("fedavg", "0.01", 60), ("fedavg", "1", 60)]
    assert places("mean") == [("fedprox", "0.01", 55), ("fedprox", "0.1", 65), ("fedprox", "1", 35), *level]
    assert places("seed 1")[-2:] == [("fedavg", "0.01", 65), ("fedavg", "1", 65)]
