"""Learning curves: what is drawn, where, and that the same results give the same files."""

from typing import Any, Literal

import pytest

from fedshift.analysis.collected import Collected
from fedshift.analysis.figures.base import Plot
from fedshift.analysis.figures.curves import Curves, _steps
from fedshift.spec import RunSpec
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


def test_steps_are_those_that_are_taken() -> None:
    """drop_last: of fewer images than a batch one batch; keep_last: no single image before batch normalisation."""
    names = {"data": {"dataset": "digits"}, "model": {"name": "digits_cnn"}, "method": {"name": "fedavg"}}

    def steps(size: int, batch_norm: bool, **local: Any) -> float:
        spec = {**names, "federation": {"rounds": 1}, "local": {"lr": 0.1, "epochs": 2, **local}}
        text = RunSpec.model_validate(spec).model_dump_json()
        return _steps(text, [{"train": size}, {"train": size}], batch_norm)

    assert steps(20, False, batch=32, batch_rule="drop_last") == 2
    assert steps(17, True, batch=8, batch_rule="keep_last") == 4
    assert steps(17, False, batch=8, batch_rule="keep_last") == 6


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


@pytest.mark.parametrize(("x", "end"), [("bytes", 160e-6), ("seconds", 1.5), ("steps", 6.0)])
def test_along_what_rounds_took_a_run_that_stopped_early_ends_at_its_total(
    project: Project, x: Literal["bytes", "seconds", "steps"], end: float
) -> None:
    """One round of two declared: 80 bytes up and down; clients of 40 and 56 images in batches of 8."""
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    rounds = {0: accuracy((0.1, 0.1)), 1: accuracy((0.8, 0.8))}
    changed(project.add("fedavg", rounds, sizes=(40, 56), seed=0), rounds=1)
    values = curves(project, project.collect(), x=x).frame["x"]
    assert values.tolist() == pytest.approx([0, end])
