"""Learning curves: what is drawn, where, and that the same results give the same files."""

import itertools
from typing import Any, Literal

import pytest

from fedshift.analysis.collected import Collected
from fedshift.analysis.figures import draw
from fedshift.analysis.figures.base import Plot
from fedshift.analysis.figures.curves import Curves, _steps
from fedshift.spec import RunSpec
from tests.analysis.conftest import Project, accuracy, changed, domains_per_client


def curves(project: Project, collected: Collected, **given: Any) -> Plot:
    return Curves(Curves.Params(**given)).plot(project.workspace, collected)


def line(plot: Plot, **where: Any) -> list[tuple[float, float]]:
    """x and y of the values that have these in their columns."""
    values = plot.frame[plot.frame[[*where]].eq([*where.values()]).all(axis=1)]
    return [*zip(values["x"], values["y"].round(6), strict=True)]


ID = "in-distribution\naccuracy (%)"


def test_a_row_of_panels_for_each_metric_with_the_average_of_held_out_domains(project: Project) -> None:
    """Untrained 10, after five rounds 50 on a and 70 on b, 10 more at seed 1, 5 more with local, which lacks a run at seed 2."""
    runs: dict[tuple[Any, ...], Any] = {}
    for (more, method), (target, base), seed in itertools.product(
        enumerate(("fedavg", "local")), (("a", 0.5), ("b", 0.7)), (0, 1, 2)
    ):
        value = base + 0.1 * (seed % 2) + 0.05 * more
        rounds = {0: accuracy((0.1, 0.1), ood=0.1), 5: accuracy((value, value), ood=value / 2)}
        runs[method, target, seed] = None if seed == 2 and (method, target) != ("local", "a") else rounds
    plot = curves(project, project.trained(runs))
    panels = plot.frame.groupby("y_axis", sort=False)["panel"].unique()
    assert [[*row] for row in panels] == [["held out: a", "held out: b", "average"]] * 2
    average = {"y_axis": ID, "panel": "average", "mark": "mean"}
    assert line(plot, **average, label="fedavg") == [(0, 10), (5, 65)]  # targets 55 and 75
    assert line(plot, **average, label="local") == [(0, 10), (5, 70)]  # of seeds with both targets
    assert len(draw.draw(plot, "A toy").axes) == 6


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


def test_rows_come_in_the_order_of_the_file_with_the_held_out_domains_of_their_own_runs(
    project: Project,
) -> None:
    """As of two data sets: none has empty panels for the other's domains, and one domain alone no average."""
    axes = {"d": domains_per_client(2, 1), "target": ["ink", "plain", "texture"], "seed": [0]}
    only = {"central": {"d": [1], "target": ["texture"]}, "fedavg": {"d": [2], "target": ["ink", "plain"]}}
    scheme = {"partition": {"scheme": "domains_per_client"}}
    project.declare(methods={"central": None, "fedavg": None}, axes=axes, only=only, spec=scheme)
    plot = curves(project, project.add_all({1: accuracy((0.5, 0.5), ood=0.4)}))
    panels = plot.frame.groupby("row", sort=False)["panel"].unique().map(list).to_dict()
    assert [*panels.items()] == [
        ("d = 2", ["held out: ink", "held out: plain", "average"]), ("d = 1", ["held out: texture"])
    ]  # fmt: skip


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
    assert "grey: 2 others" in plot.note
