"""The figure of differences from a method on each held-out domain."""

from __future__ import annotations

import pytest

from fedshift.analysis.figures import draw
from fedshift.analysis.figures.base import Plot
from fedshift.analysis.figures.differences import Differences
from fedshift.common.errors import FedshiftError
from fedshift.experiments.load import load
from tests.analysis.conftest import Project, accuracy

VALUES = {  # on the held-out domains near and far
    "fedavg": (0.50, 0.40),
    "fedbn": (0.45, 0.39),
    "ditto": (0.52, 0.50),
}


def drawn(
    project: Project,
    seeds: int,
    without: tuple[str, str, int] | None = None,
) -> Plot:
    """Each seed beyond the first adds 0.02 to `ditto` on `far` alone, and 0.1 to all methods.

    without: a run that is missing.
    """
    project.declare(methods=dict.fromkeys(VALUES), axes={"target": ["near", "far"], "seed": [*range(seeds)]})
    for seed in range(seeds):
        for method, values in VALUES.items():
            for target, value in zip(("near", "far"), values, strict=True):
                own = value + 0.1 * seed + 0.02 * seed * (method == "ditto" and target == "far")
                found = None if without == (method, target, seed) else {1: accuracy((0.5, 0.5), ood=own)}
                project.add(method, found, target=target, seed=seed)
    return Differences(Differences.Params()).plot(project.workspace, project.collect())


def test_a_difference_is_paired_by_seed_and_the_best_mean_is_on_top(project: Project) -> None:
    """What all methods have in common in a seed is no difference; two seeds span 10 to 12 points."""
    plot = drawn(project, 2)
    values = plot.frame.set_index(["label", "y"])
    far, near = values.loc["far"], values.loc["near"]
    assert far["x"].round(6).to_dict() == {"ditto": 11.0, "fedbn": -1.0}
    assert near["x"].round(6).to_dict() == {"ditto": 2.0, "fedbn": -5.0}
    assert (far.loc["ditto", "low"], far.loc["ditto", "high"]) == (pytest.approx(10), pytest.approx(12))
    assert values.loc["mean"]["x"].round(6).to_dict() == {"ditto": 6.5, "fedbn": -3.0}
    (axes,) = draw.draw(plot, "A toy").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ditto", "fedbn"]
    assert "thin line: the lower to the higher of two seeds" in plot.note


def test_three_seeds_have_a_standard_deviation(project: Project) -> None:
    values = drawn(project, 3).frame.set_index(["label", "y"]).loc[("far", "ditto")].squeeze()
    ddof = project.collect().protocol.ddof
    std = (8 / (3 - ddof)) ** 0.5  # of 10, 12 and 14
    assert (values["low"], values["high"]) == (pytest.approx(12 - std), pytest.approx(12 + std))


def test_a_domain_with_two_seeds_beside_three_has_no_line(project: Project) -> None:
    """It was drawn from the lower to the higher, and noted as a standard deviation."""
    plot = drawn(project, 3, without=("ditto", "near", 2))
    values = plot.frame.set_index(["label", "y"])
    assert values.loc[[("near", "ditto")], "low"].isna().all()
    assert values.loc[[("near", "fedbn"), ("far", "ditto")], "low"].notna().all()
    assert plot.note.endswith("; thin line: ± one standard deviation over seeds")


def test_a_method_that_lacks_a_domain_has_no_mean(project: Project) -> None:
    values = drawn(project, 1, without=("ditto", "far", 0)).frame.set_index(["label", "y"])
    assert {*values.loc["mean"].index} == {"fedbn"}
    assert {*values.loc["near"].index} == {"ditto", "fedbn"}
    assert values["low"].loc[["near", "far"]].isna().all()  # one seed spans nothing


def test_nothing_to_compare_with_is_said(project: Project) -> None:
    project.declare(methods=dict.fromkeys(VALUES), axes={"target": ["near"], "seed": [0]})
    project.add("ditto", {1: accuracy((0.5, 0.5), ood=0.5)}, target="near", seed=0)
    with pytest.raises(FedshiftError, match="beside one of fedavg"):
        Differences(Differences.Params()).plot(project.workspace, project.collect())


@pytest.mark.parametrize(
    ("params", "axes", "place"),
    [
        ({"to": "fedagv"}, {"target": ["near"]}, "figures.to"),
        ({"metric": "odd"}, {"target": ["near"]}, "figures.metric"),
        ({}, {"seed": [0]}, "target"),
    ],
)
def test_what_it_cannot_draw_is_refused_when_planned(
    project: Project, params: dict[str, str], axes: dict[str, list[object]], place: str
) -> None:
    project.declare(methods=dict.fromkeys(VALUES), axes=axes)
    experiment = load(project.workspace, project.name)
    with pytest.raises(FedshiftError, match=place):
        Differences(Differences.Params(**params)).check(experiment, axes, "figures")
