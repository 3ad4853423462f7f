"""Learning curves: what is drawn, where, and that the same results give the same files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing import static
from fedshift.analysis.drawing.panels import Panels
from fedshift.analysis.figures.curves import Curves, _steps
from fedshift.cli import main
from fedshift.spec import RunSpec
from tests.analysis.conftest import Project, accuracy


def curves(project: Project, collected: Collected) -> Panels:
    return Curves(Curves.Params()).panels(project.workspace, collected)


def drawn(project: Project, collected: Collected) -> Figure:
    return static.draw(curves(project, collected), "A toy")


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
    figure = drawn(project, project.collect())
    assert [axes.get_title() for axes in figure.axes[:3]] == ["held out: a", "held out: b", "average"]
    assert len(figure.axes) == 6
    lines = {line.get_label(): line for line in figure.axes[2].get_lines()}
    assert [label for label in lines if label[0] != "_"] == ["fedavg", "local"]
    assert lines["fedavg"].get_xdata().tolist() == [0, 5]
    assert lines["fedavg"].get_ydata().tolist() == pytest.approx([10, 65])  # targets 55 and 75
    assert [text.get_text() for text in figure.axes[2].texts] == ["fedavg", "local"]


def test_an_average_needs_all_targets(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": ["a", "b"], "seed": [0, 1]})
    for target, seed, value in (("a", 0, 0.4), ("b", 0, 0.6), ("a", 1, 0.9), ("b", 1, None)):
        project.add("fedavg", value and {1: accuracy((value, value), ood=value)}, target=target, seed=seed)
    average = drawn(project, project.collect()).axes[2]
    assert average.get_lines()[0].get_ydata().tolist() == [pytest.approx(50)]


def test_what_holds_nothing_out_is_beside_the_average(project: Project) -> None:
    """As in tables, whose average is over held-out domains."""
    project.declare(methods={"fedavg": None}, axes={"target": [None, "a", "b"], "seed": [0]})
    for target, value in (("none", 0.95), ("a", 0.5), ("b", 0.6)):
        project.add("fedavg", {1: accuracy((value, value))}, target=target, seed=0)
    figure = drawn(project, project.collect())
    titles = ["nothing held out", "held out: a", "held out: b", "average"]
    assert [axes.get_title() for axes in figure.axes[:4]] == titles
    assert figure.axes[3].get_lines()[0].get_ydata().tolist() == [pytest.approx(55)]


def test_steps_are_those_that_are_taken() -> None:
    """drop_last: of fewer images than a batch one batch; keep_last: no single image before batch normalisation."""
    spec = {
        "data": {"dataset": "digits"},
        "model": {"name": "digits_cnn"},
        "method": {"name": "fedavg"},
        "federation": {"rounds": 1},
    }

    def steps(size: int, batch_norm: bool, **local: Any) -> float:
        text = RunSpec.model_validate({**spec, "local": {"lr": 0.1, "epochs": 2, **local}}).model_dump_json()
        return _steps(text, [{"train": size}, {"train": size}], batch_norm)

    assert steps(20, False, batch=32, batch_rule="drop_last") == 2
    assert steps(17, True, batch=8, batch_rule="keep_last") == 4
    assert steps(17, False, batch=8, batch_rule="keep_last") == 6


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
    figure = drawn(project, collected)
    dashed = [line for line in figure.axes[0].get_lines() if line.get_linestyle() == "--"]
    assert [line.get_ydata()[0] for line in dashed] == values
    assert ("dashed: published" in figure.get_supxlabel()) == bool(values)


@pytest.mark.parametrize(
    ("seeds", "low", "high", "words"),
    [
        ([0, 1, 2], 60.0, 70.0, "(band: ± one standard deviation over seeds)"),
        ([0, 1], None, None, "(thin lines: single seeds)"),
        ([0], None, None, "(one seed)"),
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
    figure = drawn(project, collected)
    assert figure.get_supxlabel() == "    ".join(filter(None, ["round", words]))
    bands = [band.get_paths()[0].vertices[:, 1] for band in figure.axes[0].collections]
    assert [(band.min(), band.max()) for band in bands] == [pytest.approx((low, high))] * (low is not None)
    thin = [line.get_ydata()[0] for line in figure.axes[0].get_lines() if line.get_linewidth() < 1]
    assert thin == ([pytest.approx(60), pytest.approx(65)] if len(seeds) == 2 else [])


@pytest.mark.parametrize(("x", "end"), [("bytes", 160e-6), ("seconds", 1.5), ("steps", 6.0)])
def test_along_what_rounds_took_a_run_that_stopped_early_ends_at_its_total(
    project: Project, x: Literal["bytes", "seconds", "steps"], end: float
) -> None:
    """One round of two declared: 80 bytes up and down; clients of 40 and 56 images in batches of 8."""
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    rounds = {0: accuracy((0.1, 0.1)), 1: accuracy((0.8, 0.8))}
    path = project.add("fedavg", rounds, sizes=(40, 56), seed=0) / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rounds": 1}))
    panels = Curves(Curves.Params(x=x)).panels(project.workspace, project.collect())
    (line,) = panels.rows[0].panels[0].series
    assert line.x == pytest.approx([0, end])


LOSSES = {"fedavg": {1: 2.3, 2: 1.5, 3: 0.9}, "local": {1: 2.4, 2: 1.8, 3: 1.4}}


def losses(project: Project, of: Mapping[str, Mapping[int, float]]) -> dict[str, list[tuple[float, float]]]:
    """The points of each method's mean line; the second seed loses 0.2 more."""
    project.declare(methods=dict.fromkeys(of), axes={"seed": [0, 1]})
    for method, values in of.items():
        for seed in (0, 1):
            rounds = dict.fromkeys(values, accuracy((0.5, 0.5)))
            loss = {number: value + 0.2 * seed for number, value in values.items()}
            project.add(method, rounds, loss=loss, seed=seed)
    panels = Curves(Curves.Params(metrics=("loss.all",))).panels(project.workspace, project.collect())
    assert panels.rows[0].panels[0].y.label == "loss ALL (nats)"
    means = [line for line in panels.rows[0].panels[0].series if line.mark == "mean"]
    return {line.label: [*zip(line.x, (round(y, 6) for y in line.y), strict=True)] for line in means}


RIGHT = {
    "fedavg": [(1, 2.4), (2, 1.6), (3, 1.0)],
    "local": [(1, 2.5), (2, 1.9), (3, 1.5)],
}


def test_losses_are_means_over_seeds_in_nats(project: Project) -> None:
    assert losses(project, LOSSES) == RIGHT


@pytest.mark.parametrize(
    "wrong",
    [
        {"fedavg": LOSSES["local"], "local": LOSSES["fedavg"]},
        {name: {r + 1: value for r, value in of.items()} for name, of in LOSSES.items()},
    ],
    ids=["two methods swapped", "the wrong round"],
)
def test_a_planted_error_of_losses_is_noticed(
    project: Project, wrong: Mapping[str, Mapping[int, float]]
) -> None:
    assert losses(project, wrong) != RIGHT


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
    axes = drawn(project, collected).axes
    assert [panel.get_title() for panel in axes[:3]] == ["held out: ink", "held out: plain", "average"]
    assert [panel.get_ylabel()[:5] for panel in axes[::6]] == ["d = 2", "d = 3", "d = 1"]


def test_a_row_has_the_held_out_domains_of_its_own_runs(project: Project) -> None:
    """As of two data sets: none has empty panels for the other's domains, and both have their average."""
    project.declare(
        methods={"central": None, "fedavg": None},
        axes={
            "d": {"key": "partition.params.d", "values": [1, 2]},
            "target": ["ink", "plain", "texture"],
            "seed": [0],
        },
        only={
            "central": {"d": [1], "target": ["texture"]},
            "fedavg": {"d": [2], "target": ["ink", "plain"]},
        },
        spec={"partition": {"scheme": "domains_per_client"}},
    )
    axes = drawn(project, project.add_all({1: accuracy((0.5, 0.5), ood=0.4)})).axes
    assert [panel.get_title() for panel in axes[::3]] == ["held out: texture", "", "held out: ink", ""]
    assert [panel.get_title() for panel in axes[6:9]] == ["held out: ink", "held out: plain", "average"]
    assert [len(panel.lines) for panel in axes[6:9]] == [1, 1, 1]
    assert [len(panel.lines) for panel in axes[:3]] == [1, 0, 0]


def test_rows_that_are_not_highlighted_are_grey_behind_the_others_and_have_no_name(project: Project) -> None:
    project.declare(methods=dict.fromkeys(["central", "fedavg", "local"]), axes={"seed": [0, 1]})
    collected = project.add_all({1: accuracy((0.5, 0.5)), 2: accuracy((0.6, 0.6))})
    panels = Curves(Curves.Params(highlight=("fed*",))).panels(project.workspace, collected)
    assert panels.labels == ["fedavg", "central", "local"]
    series = [(line.label, line.mark, line.style) for line in panels.rows[0].panels[0].series]
    seeds = [("fedavg", f"seed {seed}", "thin") for seed in (0, 1)]
    grey = [(name, "mean", "thin") for name in ("central", "local")]
    assert series == [*grey, *seeds, ("fedavg", "mean", "line")]
    assert panels.colour("central") == panels.colour("local") != panels.colour("fedavg")
    figure = static.draw(panels, "A toy")
    assert [text.get_text() for text in figure.axes[0].texts] == ["fedavg"]
    assert "grey: 2 others" in figure.get_supxlabel()


def test_verbs_from_collect_to_figure(project: Project) -> None:
    two_targets(project)
    root, plan = ["--root", str(project.workspace.root)], str(project.plan())
    invoke = CliRunner().invoke
    assert "8 of 8 runs" in invoke(main, [*root, "collect", "toy", "--plan", plan]).output
    assert "| fedavg | 65.0 ± 7.1 |" in invoke(main, [*root, "table", "toy"]).output
    assert "curves.svg" in invoke(main, [*root, "figure", "toy"]).output
