"""Learning curves: what is drawn, where, and that the same results give the same files."""

import itertools
import json
from typing import Any, Literal

import pytest
from click.testing import CliRunner

from fedshift.analysis.collected import Collected
from fedshift.analysis.figures import draw
from fedshift.analysis.figures.base import Plot
from fedshift.analysis.figures.curves import Curves, _steps
from fedshift.cli import main
from fedshift.spec import RunSpec
from tests.analysis.conftest import Project, accuracy
from tests.analysis.figures.recording import trained


def curves(project: Project, collected: Collected, **given: Any) -> Plot:
    return Curves(Curves.Params(**given)).plot(project.workspace, collected)


def line(plot: Plot, **where: Any) -> list[tuple[float, float]]:
    """x and y of the values that have these in their columns."""
    values = plot.frame[plot.frame[[*where]].eq([*where.values()]).all(axis=1)]
    return [*zip(values["x"], values["y"].round(6), strict=True)]


def two_targets(project: Project) -> Collected:
    """Untrained 10, after five rounds 50 on a and 70 on b, 10 more at seed 1, 5 more with local."""
    axes = {"target": {"a": 0.5, "b": 0.7}, "seed": [0, 1]}
    project.declare(
        methods={"fedavg": None, "local": None}, axes={**axes, "target": ["a", "b"]}, tables={"t": {}}
    )
    for (place, method), (target, base), seed in itertools.product(
        enumerate(("fedavg", "local")), axes["target"].items(), axes["seed"]
    ):
        value = base + 0.1 * seed + 0.05 * place
        rounds = {0: accuracy((0.1, 0.1), ood=0.1), 5: accuracy((value, value), ood=value / 2)}
        project.add(method, rounds, target=target, seed=seed)
    return project.collect()


ID = "in-distribution\naccuracy (%)"


def test_a_row_of_panels_for_each_metric_with_the_average_of_held_out_domains(project: Project) -> None:
    plot = curves(project, two_targets(project))
    panels = plot.frame.groupby("y_axis", sort=False)["panel"].unique()
    assert [[*row] for row in panels] == [["held out: a", "held out: b", "average"]] * 2
    average = {"y_axis": ID, "panel": "average", "mark": "mean"}
    assert line(plot, **average, label="fedavg") == [(0, 10), (5, 65)]  # targets 55 and 75
    assert line(plot, **average, label="local") == [(0, 10), (5, 70)]
    assert len(draw.draw(plot, "A toy").axes) == 6


def test_an_average_needs_all_targets(project: Project) -> None:
    values = {
        ("fedavg", "a", 0): 0.4,
        ("fedavg", "b", 0): 0.6,
        ("fedavg", "a", 1): 0.9,
        ("fedavg", "b", 1): None,
    }
    assert line(curves(project, trained(project, values)), y_axis=ID, panel="average") == [(1, 50)]


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
    project.declare(
        protocol="fdse",
        spec={"data": {"dataset": "office_caltech10"}, "federation": {"rounds": rounds}},
        methods={"fedavg": None},
        axes={"seed": [2]},
        published={"*": OFFICE},
    )
    collected = project.add_all({0: accuracy((0.1, 0.1)), 1: accuracy((0.8, 0.8))})
    plot = curves(project, collected)
    assert [y for _, y in line(plot, style="level")] == values
    assert ("dashed: published" in plot.note) == bool(values)


@pytest.mark.parametrize("seeds", [3, 2])
def test_three_seeds_have_a_band_and_two_are_there_themselves(project: Project, seeds: int) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [*range(seeds)]})
    for seed in range(seeds):
        rounds = {1: accuracy((0.6 + 0.05 * seed,)), 2: accuracy((0.7,))}
        project.add("fedavg", rounds, sizes=(10,), seed=seed)
    frame = curves(project, project.collect()).frame
    single = frame[frame["mark"] == "seed 1"]
    if seeds == 3:
        assert frame.loc[0, ["low", "high"]].tolist() == pytest.approx([60, 70]) and single.empty
    else:
        assert frame["low"].isna().all() and single["y"].tolist() == pytest.approx([65, 70])


@pytest.mark.parametrize(("x", "end"), [("bytes", 160e-6), ("seconds", 1.5), ("steps", 6.0)])
def test_along_what_rounds_took_a_run_that_stopped_early_ends_at_its_total(
    project: Project, x: Literal["bytes", "seconds", "steps"], end: float
) -> None:
    """One round of two declared: 80 bytes up and down; clients of 40 and 56 images in batches of 8."""
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    rounds = {0: accuracy((0.1, 0.1)), 1: accuracy((0.8, 0.8))}
    path = project.add("fedavg", rounds, sizes=(40, 56), seed=0) / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rounds": 1}))
    values = curves(project, project.collect(), x=x).frame["x"]
    assert values.tolist() == pytest.approx([0, end])


def test_losses_are_means_over_seeds_in_nats(project: Project) -> None:
    """The second seed loses 0.2 more."""
    project.declare(methods={"fedavg": None, "local": None}, axes={"seed": [0, 1]})
    for method, least in (("fedavg", 1.5), ("local", 1.8)):
        for seed in (0, 1):
            loss = {1: 2.3 + 0.2 * seed, 2: least + 0.2 * seed}
            project.add(method, dict.fromkeys(loss, accuracy((0.5, 0.5))), loss=loss, seed=seed)
    plot = curves(project, project.collect(), metrics=("loss.all",))
    assert line(plot, label="fedavg", mark="mean") == [(1, 2.4), (2, 1.6)]
    assert line(plot, label="local", mark="mean") == [(1, 2.4), (2, 1.9)]
    assert plot.axes[0].label == "loss ALL (nats)"


def by_d(project: Project, values: list[int], targets: list[str], only: dict[str, Any]) -> None:
    axes = {"d": {"key": "partition.params.d", "values": values}, "target": targets, "seed": [0]}
    scheme = {"partition": {"scheme": "domains_per_client"}}
    project.declare(methods={"central": None, "fedavg": None}, axes=axes, only=only, spec=scheme)


def test_rows_and_panels_come_in_the_order_of_the_file(project: Project) -> None:
    by_d(project, [2, 3, 1], ["ink", "plain"], {"central": {"d": [1], "target": ["plain"]}})
    collected = project.add_all({1: accuracy((0.5, 0.5), ood=0.4)})
    frame = curves(project, collected).frame
    assert [*frame["row"].unique()] == ["d = 2", "d = 3", "d = 1"]
    assert [*frame["panel"].unique()] == ["held out: ink", "held out: plain", "average"]


def test_a_row_has_the_held_out_domains_of_its_own_runs(project: Project) -> None:
    """As of two data sets: none has empty panels for the other's domains, and both have their average."""
    of = {"central": {"d": [1], "target": ["texture"]}, "fedavg": {"d": [2], "target": ["ink", "plain"]}}
    by_d(project, [1, 2], ["ink", "plain", "texture"], of)
    plot = curves(project, project.add_all({1: accuracy((0.5, 0.5), ood=0.4)}))
    axes = draw.draw(plot, "A toy").axes
    titles = [[panel.get_title() for panel in axes[row : row + 3] if panel.get_visible()] for row in (0, 6)]
    assert titles == [["held out: texture"], ["held out: ink", "held out: plain", "average"]]


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


def test_verbs_from_collect_to_figure(project: Project) -> None:
    two_targets(project)
    root, plan = ["--root", str(project.workspace.root)], str(project.plan())
    invoke = CliRunner().invoke
    assert "8 of 8 runs" in invoke(main, [*root, "collect", "toy", "--plan", plan]).output
    assert "| fedavg | 65.0 ± 7.1 |" in invoke(main, [*root, "table", "toy"]).output
    assert "curves.svg" in invoke(main, [*root, "figure", "toy"]).output
