"""The figure of claims: intervals, pairs and printed differences, where they are."""

import itertools
from typing import Any

import pytest

from fedshift.analysis.figures import draw
from fedshift.analysis.figures.base import Plot
from fedshift.analysis.figures.claims import Claims
from tests.analysis.conftest import Project
from tests.analysis.figures.recording import trained

ONE = {"HF-C04.1": {"metric": "ood"}}


def drawn(project: Project, values: dict[tuple[Any, ...], float | None], **declared: Any) -> Plot:
    found = trained(project, values, **{"claims": ONE} | declared)
    return Claims(Claims.Params()).plot(project.workspace, found)


def test_claims_are_drawn_where_an_experiment_tests_some(project: Project) -> None:
    """Three seeds: hFedF is 3, 2 and 4 points above FedAvg on each of four domains, and as far below FedProx."""
    claims = ONE | {"HF-C05.1": {"metric": "id", "rows": {"FedAvg": "fedprox"}}}
    bases = {"art_painting": 0.5, "cartoon": 0.7, "photo": 0.6, "sketch": 0.4}
    signs, points = {"hfedf": 0, "fedavg": -1, "fedprox": 1}, (3, 2, 4)
    values: dict[tuple[Any, ...], float | None] = {
        (method, target, seed): bases[target] + signs[method] * points[seed] / 100
        for method, target, seed in itertools.product(signs, bases, (0, 1, 2))
    }
    plot = drawn(project, values, protocol="hfedf", spec={"data": {"dataset": "pacs"}}, claims=claims)
    found = plot.frame.set_index(["y", "mark"]).sort_index()
    first, second = "HF-C04.1: hfedf > fedavg, ood", "HF-C05.1: hfedf > fedprox, id"
    assert plot.axes[0].names == [first, second]
    assert found.loc[[(first, "mean"), (second, "mean")], "label"].tolist() == ["as published", "against"]
    assert found.loc[(first, "seed"), "x"].tolist() == pytest.approx([3, 2, 4])
    assert found.loc[(first, "printed"), "x"] == pytest.approx(54.6 - 51.3)
    # rows (0, 0, 0), (-3, -2, -4), (3, 2, 4) leave a variance of 1, 4 degrees of freedom
    half = 2.776445 * (2 / 3) ** 0.5
    mean = found.loc[[(first, "mean"), (second, "mean")], ["x", "low", "high"]].to_numpy().ravel()
    assert mean.tolist() == pytest.approx([3, 3 - half, 3 + half, -3, -3 - half, -3 + half])


def test_an_interval_that_is_too_long_is_cut_with_an_arrow(project: Project) -> None:
    """Two seeds: +8 and -2 make +3 [-60.5, +66.5], and the axis ends at 1.6 times 8."""
    seeds = {"hfedf": (0.5, 0.5), "fedavg": (0.42, 0.52)}
    values = {(method, "a", seed): of[seed] for method, of in seeds.items() for seed in (0, 1)}
    plot = drawn(project, values)
    mean = plot.frame[plot.frame["mark"] == "mean"]
    assert mean["style"].tolist() == ["square"] and mean["low"].tolist() == [pytest.approx(-60.5, abs=0.1)]
    (axes,) = draw.draw(plot, "A toy").axes
    assert axes.get_xlim() == pytest.approx((-12.8, 12.8))
    arrows = {line.get_marker(): line.get_xdata() for line in axes.get_lines() if line.get_marker() in "<>"}
    assert (arrows["<"].tolist(), arrows[">"].tolist()) == ([pytest.approx(-12.8)], [pytest.approx(12.8)])


def test_claims_without_a_finished_run_are_named_and_empty(project: Project) -> None:
    plot = drawn(project, {("hfedf", "a", 0): None, ("fedavg", "a", 0): None, ("fedprox", "a", 0): 0.5})
    assert plot.axes[0].names == ["HF-C04.1: hfedf > fedavg, ood"]
    (axes,) = draw.draw(plot, "A toy").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == plot.axes[0].names


def test_comparisons_without_runs_are_counted_beside_those_that_have_some(project: Project) -> None:
    claims = ONE | {"HF-C05.1": {"metric": "ood", "rows": {"FedAvg": "fedprox"}}}
    accuracies = {"hfedf": 0.6, "fedavg": 0.5, "fedprox": None}
    values = {(method, "a", seed): value for method, value in accuracies.items() for seed in (0, 1)}
    plot = drawn(project, values, claims=claims)
    assert plot.axes[0].names == ["HF-C04.1: hfedf > fedavg, ood"]
    assert "not shown: 1 without runs" in plot.note
