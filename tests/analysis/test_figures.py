"""Learning curves: what is drawn, where, and that the same results give the same files."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from fedshift.analysis import report_plots
from fedshift.analysis.claims import verdicts
from fedshift.analysis.claims_figure import claims_figure
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


OFFICE = "office_caltech10/alexnet_bn/personal_all_clients/domain_per_client/{method}/default/all_clients"


@pytest.mark.parametrize(("rounds", "values"), [(500, [86.26]), (10, [])])
def test_published_values_of_the_same_experiment_are_dashed(
    project: Project, rounds: int, values: list[float]
) -> None:
    project.declare(
        protocol="fdse",
        spec={"data": {"dataset": "office_caltech10"}, "federation": {"rounds": rounds}},
        methods={"fedavg": None},
        axes={"seed": [2]},
        published={"*": OFFICE},
    )
    collected = project.add_all({0: accuracy((0.1, 0.1)), 1: accuracy((0.8, 0.8))})
    figure = learning_curves(project.workspace.root, collected)
    dashed = [line for line in figure.axes[0].get_lines() if line.get_linestyle() == "--"]
    assert [line.get_ydata()[0] for line in dashed] == values
    assert ("dashed: published" in figure.get_supxlabel()) == bool(values)
    shown, _ = report_plots.learning_curves(project.workspace.root, collected)
    dotted = [trace for trace in shown[""].data if trace.line.dash == "dot"]
    assert [trace.y[0] for trace in dotted] == values


@pytest.mark.parametrize(
    ("seeds", "low", "high", "words"),
    [
        ([0, 1, 2], 60.0, 70.0, "band: ± one standard deviation over seeds"),
        ([0, 1], 60.0, 65.0, "band of two seeds: from the lower to the higher"),
        ([0], None, None, "no band: one seed"),
    ],
)
def test_few_seeds_have_no_standard_deviation(
    project: Project, seeds: list[int], low: float | None, high: float | None, words: str
) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": seeds})
    for seed in seeds:
        value = 0.6 + 0.05 * seed
        project.add("fedavg", {1: accuracy((value, value)), 2: accuracy((value, value))}, seed=seed)
    collected = project.collect()
    figure = learning_curves(project.workspace.root, collected)
    assert f"({words})" in figure.get_supxlabel()
    bands = [band.get_paths()[0].vertices[:, 1] for band in figure.axes[0].collections]
    assert [(band.min(), band.max()) for band in bands] == [pytest.approx((low, high))] * (low is not None)
    shown, said = report_plots.learning_curves(project.workspace.root, collected)
    filled = [trace.y for trace in shown[""].data if trace.fill]
    assert said == words
    assert [(min(band), max(band)) for band in filled] == [pytest.approx((low, high))] * (low is not None)


def test_rows_and_panels_come_in_the_order_of_the_file(project: Project) -> None:
    project.declare(
        methods={"central": None, "fedavg": None},
        axes={
            "d": {"key": "partition.params.d", "values": [2, 3, 1]},
            "target": ["ink", "plain"],
            "seed": [0],
        },
        only={"central": {"d": [1], "target": ["plain"]}},
        spec={"partition": {"scheme": "domains_per_client"}},
    )
    collected = project.add_all({1: accuracy((0.5, 0.5), ood=0.4)})
    axes = learning_curves(project.workspace.root, collected).axes
    assert [panel.get_title() for panel in axes[:3]] == ["held out: ink", "held out: plain", "average"]
    assert [panel.get_ylabel()[:5] for panel in axes[::6]] == ["d = 2", "d = 3", "d = 1"]
    assert [*report_plots.learning_curves(project.workspace.root, collected)[0]] == [
        "d = 2",
        "d = 3",
        "d = 1",
    ]


def test_the_same_results_give_the_same_files(project: Project) -> None:
    two_targets(project)
    collected = project.collect()
    first = [path.read_bytes() for path in write(project.workspace, collected)]
    assert [path.read_bytes() for path in write(project.workspace, collected)] == first
    assert [path.name for path in write(project.workspace, collected)] == ["curves.svg", "curves.png"]


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
    found = verdicts(project.workspace.root, collected)
    (panel,) = claims_figure("A toy", found).axes
    assert [label.get_text() for label in panel.get_yticklabels()] == [
        "HF-C04.1: hfedf > fedavg, ood   fedavg",
        "HF-C05.1: hfedf > fedprox, id   fedprox",
    ]
    assert [text.get_text() for text in panel.texts] == ["confirmed", "refuted"]
    drawn = {(line.get_marker(), float(line.get_ydata()[0])): line.get_xdata() for line in panel.get_lines()}
    assert drawn["s", 0].tolist() == pytest.approx([3]) and drawn["s", 1].tolist() == pytest.approx([-3])
    assert drawn["o", 0].tolist() == pytest.approx([3, 3, 3, 3])
    assert drawn["D", 0].tolist() == pytest.approx([54.6 - 51.3])
    half = 4.302653 / 3**0.5  # t of 2 degrees of freedom, standard deviation 1
    bars = {line.get_ydata()[0]: line for line in panel.get_lines() if line.get_linewidth() > 2}
    assert bars[0].get_xdata() == pytest.approx([3 - half, 3 + half])
    assert bars[0].get_linestyle() == "-"
    assert [path.name for path in write(project.workspace, collected)][2:] == ["claims.svg", "claims.png"]


def test_an_interval_that_is_too_long_is_cut_with_an_arrow(project: Project) -> None:
    """One seed: +8 and -2 make +3 [-60.5, +66.5] over the two domains, and the axis ends at 1.6 times 8."""
    project.declare(
        methods=dict.fromkeys(("hfedf", "fedavg")),
        axes={"target": ["a", "b"]},
        claims={"HF-C04.1": {"metric": "ood"}},
    )
    for method, values in (("hfedf", (0.5, 0.5)), ("fedavg", (0.42, 0.52))):
        for target, value in zip("ab", values, strict=True):
            project.add(method, {1: accuracy((0.5, 0.5), ood=value)}, target=target)
    (panel,) = claims_figure("A toy", verdicts(project.workspace.root, project.collect())).axes
    assert panel.get_xlim() == pytest.approx((-12.8, 12.8))
    (bar,) = (line for line in panel.get_lines() if line.get_linestyle() == "--")
    assert bar.get_xdata() == pytest.approx([-12.8, 12.8])
    arrows = {
        line.get_marker(): float(line.get_xdata()[0])
        for line in panel.get_lines()
        if line.get_marker() in "<>"
    }
    assert arrows == pytest.approx({"<": -12.8, ">": 12.8})


def test_claims_without_a_finished_run_are_named_and_empty(project: Project) -> None:
    project.declare(
        methods=dict.fromkeys(("hfedf", "fedavg")),
        axes={"target": ["a"]},
        claims={"HF-C04.1": {"metric": "ood"}},
    )
    for method in ("hfedf", "fedavg"):
        project.add(method, None, target="a")
    (panel,) = claims_figure("A toy", verdicts(project.workspace.root, project.collect())).axes
    assert [text.get_text() for text in panel.texts] == ["undecided"]


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
