"""Learning curves and sweeps that no archived run has; golden results have the values of others."""

from typing import Any

import pandas as pd
import pytest

from fedshift.analysis.collected import Collected
from fedshift.analysis.figures import draw
from fedshift.analysis.figures.base import Plot, plots, table
from fedshift.analysis.figures.curves import Curves
from fedshift.analysis.figures.sweep import Sweep
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.spec.block import params
from tests.analysis.conftest import Project, accuracy, changed


def curves(project: Project, collected: Collected, **given: Any) -> Plot:
    return Curves(Curves.Params(**given)).plot(project.workspace, collected)


def line(plot: Plot, **where: Any) -> list[tuple[float, float]]:
    """x and y of the values that have these in their columns."""
    values = plot.frame[plot.frame[[*where]].eq([*where.values()]).all(axis=1)]
    return [*zip(values["x"], values["y"].round(6), strict=True)]


def test_what_holds_nothing_out_is_no_part_of_the_average(project: Project) -> None:
    """As in tables, whose average is over held-out domains."""
    project.declare(methods={"fedavg": None}, axes={"target": [None, "a", "b"], "seed": [0]})
    for target, value in (("none", 0.95), ("a", 0.5), ("b", 0.6)):
        project.add("fedavg", {1: accuracy((value, value))}, target=target, seed=0)
    plot = curves(project, project.collect())
    titles = ["nothing held out", "held out: a", "held out: b", "average"]
    assert [*plot.frame["panel"].unique()] == titles
    assert line(plot, panel="average") == [(1, 55)]


OFFICE = "office_caltech10/alexnet_bn/personal_all_clients/domain_per_client/{method}/default/all_clients"


@pytest.mark.parametrize(("rounds", "values"), [(500, [86.26]), (10, [])])
def test_published_values_of_the_same_experiment_are_dashed(
    project: Project, rounds: int, values: list[float]
) -> None:
    spec = {"data": {"dataset": "office_caltech10"}, "federation": {"rounds": rounds}}
    about = {"protocol": "fdse", "spec": spec, "published": {"*": OFFICE}}
    project.declare(methods={"fedavg": None}, axes={"seed": [2]}, **about)
    collected = project.add_all({0: accuracy((0.1, 0.1)), 1: accuracy((0.8, 0.8))})
    plot = curves(project, collected)
    assert [y for _, y in line(plot, style="level")] == values
    assert ("dashed: published" in plot.note) == bool(values)


def test_along_bytes_a_run_that_stopped_early_ends_at_its_total(project: Project) -> None:
    """One round of two declared: 80 bytes up and down."""
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    rounds = {0: accuracy((0.1, 0.1)), 1: accuracy((0.8, 0.8))}
    changed(project.add("fedavg", rounds, sizes=(40, 56), seed=0), rounds=1)
    values = curves(project, project.collect(), x="bytes").frame["x"]
    assert values.tolist() == pytest.approx([0, 160e-6])


def test_rows_that_are_not_highlighted_are_grey_behind_the_others_and_have_no_name(project: Project) -> None:
    project.declare(methods=dict.fromkeys(["central", "fedavg", "local"]), axes={"seed": [0, 1]})
    collected = project.add_all({1: accuracy((0.5, 0.5)), 2: accuracy((0.6, 0.6))})
    plot = curves(project, collected, highlight=("fed*",))
    series = plot.frame[["label", "mark", "style"]].drop_duplicates().to_numpy().tolist()
    seeds = [["fedavg", f"seed {seed}", "thin"] for seed in (0, 1)]
    grey = [[name, "mean", "thin"] for name in ("central", "local")]
    assert series == [*grey, *seeds, ["fedavg", "mean", "line"]]
    (legend,) = draw.draw(plot, "A toy").legends
    assert [text.get_text() for text in legend.get_texts()] == ["fedavg"]


# ---- a sweep: which values are averaged, and what is drawn around them


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


def test_lines_of_whole_and_other_numbers_are_named_as_in_the_file(project: Project) -> None:
    """The runs' column has 1.0 for the file's 1, which the legend did not know, and the drawer stopped."""
    plot = sweep(project, toy(project, seeds=1, values=(1, 2.5)), x="target", lines="clip", metrics=("ood",))
    assert plot.labels == [*plot.frame["label"].unique()] == ["1", "2.5"]
    assert [*plot.frame["panel"].unique()] == ["fedavg", "local"]
    panels = sweep(project, project.collect(), x="target", panels="clip", metrics=("ood",))
    assert [*panels.frame["panel"].unique()] == ["clip = 1", "clip = 2.5"]


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ((1, 2, 4, 8), "log"), ((3, 6, 9, 12), "linear"), ((0.5, 0.75, 0.85, 0.95, 1.0), "linear"),
        ((0, 1, 5, 20), "linear"), ((1, 100), "linear"),
    ],
)  # fmt: skip
def test_the_scale_fits_the_values(values: tuple[float, ...], scale: str) -> None:
    figure = Sweep(params(Sweep, {"x": "clip"}))
    assert figure._axis(pd.Series(values), values)[1].scale == scale


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


def test_a_setting_that_no_row_has_is_an_error(project: Project) -> None:
    found = project.trained(
        {("fedavg", "a", 0): 0.5}, figures=[{"sweep": {"x": "setting.method.params.lamda"}}]
    )
    _, impossible = plots(project.workspace, found)
    (error,) = impossible.values()
    assert "no row has a number 'method.params.lamda'" in str(error)
