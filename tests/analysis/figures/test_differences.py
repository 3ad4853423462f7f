"""The figure of differences from a method on each held-out domain."""

from typing import Any

import pytest

from fedshift.analysis.figures import draw
from fedshift.analysis.figures.base import Plot
from fedshift.analysis.figures.differences import Differences
from tests.analysis.conftest import Project
from tests.analysis.figures.recording import trained

VALUES = {  # on the held-out domains near and far
    "fedavg": (0.50, 0.40),
    "fedbn": (0.45, 0.39),
    "ditto": (0.52, 0.50),
}


def drawn(project: Project, seeds: int, without: tuple[str, str, int] | None = None) -> Plot:
    """Each seed beyond the first adds 0.02 to `ditto` on `far` alone, and 0.1 to all methods.

    without: a run that is missing.
    """
    found: dict[tuple[Any, ...], float | None] = {
        (method, target, seed): value + 0.1 * seed + 0.02 * seed * (method == "ditto" and target == "far")
        for method, values in VALUES.items()
        for target, value in zip(("near", "far"), values, strict=True)
        for seed in range(seeds)
    }
    collected = trained(project, found | ({without: None} if without else {}))
    return Differences(Differences.Params()).plot(project.workspace, collected)


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
