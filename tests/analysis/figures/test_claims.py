"""The figure of claims: intervals, pairs and printed differences, where they are."""

from __future__ import annotations

import pytest

from fedshift.analysis.collected import Collected
from fedshift.analysis.figures import draw
from fedshift.analysis.figures.base import Plot
from fedshift.analysis.figures.claims import Claims
from tests.analysis.conftest import Project, accuracy


def drawn(project: Project, collected: Collected) -> Plot:
    return Claims(Claims.Params()).plot(project.workspace, collected)


def test_claims_are_drawn_where_an_experiment_tests_some(project: Project) -> None:
    """Three seeds: hFedF is 3, 2 and 4 points above FedAvg on each of four domains, and as far below FedProx."""
    axes = {"target": ["art_painting", "cartoon", "photo", "sketch"], "seed": [0, 1, 2]}
    said = {"HF-C04.1": {"metric": "ood"}, "HF-C05.1": {"metric": "id", "rows": {"FedAvg": "fedprox"}}}
    project.declare(
        protocol="hfedf",
        spec={"data": {"dataset": "pacs"}},
        methods=dict.fromkeys(("hfedf", "fedavg", "fedprox")),
        axes=axes,
        claims=said,
    )
    for method, sign in (("hfedf", 0), ("fedavg", -1), ("fedprox", 1)):
        for target, base in zip(axes["target"], (0.5, 0.7, 0.6, 0.4), strict=True):
            for seed, points in enumerate((3, 2, 4)):
                value = base + sign * points / 100
                project.add(method, {1: accuracy((value, value), ood=value)}, target=target, seed=seed)
    plot = drawn(project, project.collect())
    values = plot.frame.set_index(["y", "mark"]).sort_index()
    first, second = "HF-C04.1: hfedf > fedavg, ood", "HF-C05.1: hfedf > fedprox, id"
    assert plot.axes[0].names == [first, second]
    assert values.loc[[(first, "mean"), (second, "mean")], "label"].tolist() == ["as published", "against"]
    assert values.loc[(first, "seed"), "x"].tolist() == pytest.approx([3, 2, 4])
    assert values.loc[(first, "printed"), "x"] == pytest.approx(54.6 - 51.3)
    half = (
        2.776445 * (2 / 3) ** 0.5
    )  # rows (0, 0, 0), (-3, -2, -4), (3, 2, 4) leave a variance of 1, 4 degrees of freedom
    mean = values.loc[[(first, "mean"), (second, "mean")], ["x", "low", "high"]].to_numpy().ravel()
    assert mean.tolist() == pytest.approx([3, 3 - half, 3 + half, -3, -3 - half, -3 + half])


def test_an_interval_that_is_too_long_is_cut_with_an_arrow(project: Project) -> None:
    """Two seeds: +8 and -2 make +3 [-60.5, +66.5], and the axis ends at 1.6 times 8."""
    project.declare(
        methods=dict.fromkeys(("hfedf", "fedavg")),
        axes={"seed": [0, 1]},
        claims={"HF-C04.1": {"metric": "ood"}},
    )
    for method, values in (("hfedf", (0.5, 0.5)), ("fedavg", (0.42, 0.52))):
        for seed, value in enumerate(values):
            project.add(method, {1: accuracy((0.5, 0.5), ood=value)}, seed=seed)
    plot = drawn(project, project.collect())
    mean = plot.frame[plot.frame["mark"] == "mean"]
    assert mean["style"].tolist() == ["square"] and mean["low"].tolist() == [pytest.approx(-60.5, abs=0.1)]
    (axes,) = draw.draw(plot, "A toy").axes
    assert axes.get_xlim() == pytest.approx((-12.8, 12.8))
    arrows = {line.get_marker(): line.get_xdata() for line in axes.get_lines() if line.get_marker() in "<>"}
    assert (arrows["<"].tolist(), arrows[">"].tolist()) == ([pytest.approx(-12.8)], [pytest.approx(12.8)])


def test_claims_without_a_finished_run_are_named_and_empty(project: Project) -> None:
    project.declare(
        methods=dict.fromkeys(("hfedf", "fedavg", "fedprox")),
        axes={"target": ["a"]},
        claims={"HF-C04.1": {"metric": "ood"}},
    )
    for method in ("hfedf", "fedavg"):
        project.add(method, None, target="a")
    project.add("fedprox", {1: accuracy((0.5, 0.5), ood=0.5)}, target="a")
    plot = drawn(project, project.collect())
    assert plot.axes[0].names == ["HF-C04.1: hfedf > fedavg, ood"]
    (axes,) = draw.draw(plot, "A toy").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == plot.axes[0].names


def test_comparisons_without_runs_are_counted_beside_those_that_have_some(project: Project) -> None:
    project.declare(
        methods=dict.fromkeys(("hfedf", "fedavg", "fedprox")),
        axes={"target": ["a"], "seed": [0, 1]},
        claims={
            "HF-C04.1": {"metric": "ood"},
            "HF-C05.1": {"metric": "ood", "rows": {"FedAvg": "fedprox"}},
        },
    )
    for method, value in (("hfedf", 0.6), ("fedavg", 0.5), ("fedprox", None)):
        for seed in (0, 1):
            rounds = None if value is None else {1: accuracy((value, value), ood=value)}
            project.add(method, rounds, target="a", seed=seed)
    plot = drawn(project, project.collect())
    assert plot.axes[0].names == ["HF-C04.1: hfedf > fedavg, ood"]
    assert "not shown: 1 without runs" in plot.note
