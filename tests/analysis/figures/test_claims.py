"""The figure of claims: intervals, pairs and printed differences, where they are."""

from __future__ import annotations

import itertools

import pytest
from matplotlib.figure import Figure

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing import static
from fedshift.analysis.drawing.panels import table
from fedshift.analysis.figures.claims import Claims
from tests.analysis.conftest import Project, accuracy


def drawn(project: Project, collected: Collected) -> Figure:
    return static.draw(Claims(Claims.Params()).panels(project.workspace, collected), "A toy")


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
    collected = project.collect()
    figure = drawn(project, collected)
    (panel,) = figure.axes
    assert [label.get_text() for label in panel.get_yticklabels()] == [
        "HF-C04.1: hfedf > fedavg, ood",
        "HF-C05.1: hfedf > fedprox, id",
    ]
    assert [text.get_text() for text in panel.texts] == ["as published", "against"]
    marks = {(line.get_marker(), float(line.get_ydata()[0])): line.get_xdata() for line in panel.get_lines()}
    assert marks["s", 0].tolist() == pytest.approx([3]) and marks["s", 1].tolist() == pytest.approx([-3])
    assert marks["o", 0].tolist() == pytest.approx([3, 2, 4])  # the seeds
    assert marks["D", 0].tolist() == pytest.approx([54.6 - 51.3])
    assert "square: mean; rings: seeds" in " ".join(figure.get_supxlabel().split())
    half = (
        2.776445 * (2 / 3) ** 0.5
    )  # rows (0, 0, 0), (-3, -2, -4), (3, 2, 4) leave a variance of 1, 4 degrees of freedom
    bars = {line.get_ydata()[0]: line for line in panel.get_lines() if line.get_linewidth() > 2}
    assert bars[0].get_xdata() == pytest.approx([3 - half, 3 + half])
    assert bars[0].get_linestyle() == "-"
    names = [path.name for path in static.write(project.workspace, collected)]
    assert names[4:] == ["claims.svg", "claims.pdf", "claims.png", "claims.csv"]


@pytest.mark.parametrize(("better", "mean"), [("hfedf", 3.0), ("fedavg", -3.0)], ids=["right", "swapped"])
def test_a_planted_error_is_noticed(project: Project, better: str, mean: float) -> None:
    """Two methods with each other's runs."""
    axes = {"target": ["a", "b"], "seed": [0, 1]}
    project.declare(
        methods=dict.fromkeys(("hfedf", "fedavg")), axes=axes, claims={"HF-C04.1": {"metric": "ood"}}
    )
    for method, target, seed in itertools.product(("hfedf", "fedavg"), *axes.values()):
        value = 0.53 if method == better else 0.5
        project.add(method, {1: accuracy((0.5, 0.5), ood=value)}, target=target, seed=seed)
    values = table(Claims(Claims.Params()).panels(project.workspace, project.collect()))
    assert values[values["mark"] == "mean"]["x"].tolist() == pytest.approx([mean])


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
    (panel,) = drawn(project, project.collect()).axes
    assert panel.get_xlim() == pytest.approx((-12.8, 12.8))
    (bar,) = (line for line in panel.get_lines() if line.get_label() == "_interval")
    assert bar.get_linestyle() == "-"  # what is dashed is published
    assert bar.get_xdata() == pytest.approx([-12.8, 12.8])
    arrows = {
        line.get_marker(): float(line.get_xdata()[0])
        for line in panel.get_lines()
        if line.get_marker() in "<>"
    }
    assert arrows == pytest.approx({"<": -12.8, ">": 12.8})


def test_claims_without_a_finished_run_are_named_and_empty(project: Project) -> None:
    project.declare(
        methods=dict.fromkeys(("hfedf", "fedavg", "fedprox")),
        axes={"target": ["a"]},
        claims={"HF-C04.1": {"metric": "ood"}},
    )
    for method in ("hfedf", "fedavg"):
        project.add(method, None, target="a")
    project.add("fedprox", {1: accuracy((0.5, 0.5), ood=0.5)}, target="a")
    (panel,) = drawn(project, project.collect()).axes
    assert [text.get_text() for text in panel.texts] == ["not run"]


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
    figure = drawn(project, project.collect())
    (panel,) = figure.axes
    assert [label.get_text() for label in panel.get_yticklabels()] == ["HF-C04.1: hfedf > fedavg, ood"]
    assert "not shown: 1 without runs" in figure.get_supxlabel()


def test_a_long_name_is_broken_and_leaves_room_for_the_axis(project: Project) -> None:
    """A name of some ninety letters takes two lines, which leaves room for the axis."""
    long = "a-method-of-which-the-name-alone-fills-most-of-a-line-of-a-picture"
    project.declare(
        methods={"hfedf": None, long: {"method": {"name": "fedavg"}}},
        axes={"seed": [0, 1]},
        claims={"HF-C04.1": {"metric": "ood", "rows": {"FedAvg": long}}},
    )
    for seed in (0, 1):
        for method, value in (("hfedf", 0.6), (long, 0.5)):
            project.add(method, {1: accuracy((0.5, 0.5), ood=value)}, seed=seed)
    figure = drawn(project, project.collect())
    (panel,) = figure.axes
    (name,) = (label.get_text() for label in panel.get_yticklabels())
    assert name.replace("\n", " ").startswith("HF-C04.1: hfedf > a-method") and "\n" in name
    figure.canvas.draw()
    assert panel.get_position().width > 0.4
