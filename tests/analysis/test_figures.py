"""Learning curves: what is drawn, where, and that the same results give the same files."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from fedshift.analysis.figures import learning_curves, write
from fedshift.cli import main
from fedshift.errors import FedshiftError

from .conftest import Project, accuracy


def two_targets(project: Project) -> None:
    project.declare(
        methods={"fedavg": None, "local": None}, axes={"target": ["a", "b"], "seed": [0, 1]}, tables={"t": {}}
    )
    for index, method in enumerate(("fedavg", "local")):
        for target, base in (("a", 0.5), ("b", 0.7)):
            for seed in (0, 1):
                value = base + 0.1 * seed + 0.05 * index
                project.add(
                    method,
                    {0: accuracy((0.1, 0.1), ood=0.1), 5: accuracy((value, value), ood=value / 2)},
                    target=target,
                    seed=seed,
                )


def test_panels_and_lines(project: Project) -> None:
    two_targets(project)
    figure = learning_curves(project.workspace.root, project.collect())
    assert [axes.get_title() for axes in figure.axes[:3]] == ["held out: a", "held out: b", "average"]
    assert len(figure.axes) == 6
    lines = {line.get_label(): line for line in figure.axes[2].get_lines()}
    assert list(lines) == ["fedavg", "local"]
    assert lines["fedavg"].get_xdata().tolist() == [0, 5]
    assert lines["fedavg"].get_ydata().tolist() == pytest.approx([10, 65])  # targets 55 and 75
    assert [text.get_text() for text in figure.axes[2].texts] == ["fedavg", "local"]


def test_an_average_needs_all_targets(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": ["a", "b"], "seed": [0, 1]})
    for target, seed, value in (("a", 0, 0.4), ("b", 0, 0.6), ("a", 1, 0.9), ("b", 1, None)):
        project.add("fedavg", value and {1: accuracy((value, value), ood=value)}, target=target, seed=seed)
    average = learning_curves(project.workspace.root, project.collect()).axes[2]
    assert average.get_lines()[0].get_ydata().tolist() == [pytest.approx(50)]


def test_published_values_are_dashed(project: Project) -> None:
    project.declare(
        methods={"fedavg": None},
        axes={"seed": [0]},
        published={
            "*": "office_caltech10/alexnet_bn/personal_all_clients/domain_per_client/{method}/default/all_clients"
        },
    )
    project.add("fedavg", {0: accuracy((0.1, 0.1)), 1: accuracy((0.8, 0.8))}, seed=0)
    (axes,) = learning_curves(project.workspace.root, project.collect()).axes
    dashed = [line for line in axes.get_lines() if line.get_linestyle() == "--"]
    assert [line.get_ydata()[0] for line in dashed] == [86.26]


def test_the_same_results_give_the_same_files(project: Project) -> None:
    two_targets(project)
    collected = project.collect()
    first = [path.read_bytes() for path in write(project.workspace, collected)]
    assert [path.read_bytes() for path in write(project.workspace, collected)] == first
    assert [path.name for path in write(project.workspace, collected)] == ["curves.svg", "curves.png"]


def test_nothing_to_draw(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    project.add("fedavg", None, seed=0)
    with pytest.raises(FedshiftError, match="no finished run"):
        learning_curves(project.workspace.root, project.collect())


def test_verbs_from_collect_to_figure(project: Project) -> None:
    two_targets(project)
    root, plan = ["--root", str(project.workspace.root)], str(project.plan())
    invoke = CliRunner().invoke
    assert "8 of 8 runs" in invoke(main, [*root, "collect", "toy", "--plan", plan]).output
    assert "| fedavg | 65.0 ± 7.1 |" in invoke(main, [*root, "table", "toy"]).output
    assert "curves.svg" in invoke(main, [*root, "figure", "toy"]).output
    assert invoke(main, [*root, "check", "toy"]).exit_code == 0
