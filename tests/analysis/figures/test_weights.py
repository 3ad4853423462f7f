"""Weights: of each client, by the domain that it holds, over rounds and after the last."""

import pytest

from fedshift.analysis.figures.base import Plot
from fedshift.analysis.figures.weights import LEAST, Weights
from fedshift.spec.block import params
from tests.analysis.conftest import Project
from tests.analysis.figures.recording import Numbers, recorded

NOBODY = float("nan")
OF: dict[tuple[str, int], Numbers] = {
    ("a", 0): {1: (0.7, 0.3), 2: (0.6, 0.4)},
    ("a", 1): {1: (0.1, 0.9), 2: (0.4, 0.6)},
    ("b", 0): {1: (0.5, 0.5), 2: (0.5, 0.5)},
    ("b", 1): {1: (0.5, 0.5), 2: (0.5, 0.5)},
}


def drawn(project: Project, of: dict[tuple[str, int], Numbers], at: str) -> Plot:
    collected = recorded(project, "gradalign", of)
    return Weights(params(Weights, {"at": at})).plot(project.workspace, collected)


def means(plot: Plot, panel: str, label: str) -> list[tuple[object, float]]:
    values = plot.frame
    values = values[(values["mark"] == "mean") & (values["label"] == label) & (values["panel"] == panel)]
    return [(x, round(y, 4)) for x, y in zip(values["x"], values["y"], strict=True)]


def test_over_rounds(project: Project) -> None:
    plot = drawn(project, OF, "rounds")
    assert means(plot, "held out: a", "domain0") == [(1, 40), (2, 50)]
    assert means(plot, "held out: a", LEAST) == [(1, 20), (2, 40)]  # of 30 and 10, of 40 and 40
    assert plot.rules == {"y": [50]}
    assert plot.note == "thin lines: single seeds; grey rule: all clients equally"


@pytest.mark.parametrize(("second", "rules"), [((NOBODY, 0.5, 0.5), {"y": [50]}), ((0.2, 0.3, 0.5), {})])
def test_the_rule_is_of_a_rounds_participants(
    project: Project, second: tuple[float, ...], rules: dict[str, list[float]]
) -> None:
    """Of three clients two take part in the first round; where rounds differ in how many, there is none."""
    plot = drawn(project, {("a", 0): {1: (0.5, 0.5, NOBODY), 2: second}}, "rounds")
    assert plot.rules == rules


def test_after_the_last_round(project: Project) -> None:
    assert means(drawn(project, OF, "end"), "", "domain1") == [("a", 50), ("b", 50)]


def test_many_rounds_are_a_median_in_the_band_of_most(project: Project) -> None:
    """A client's weight is 40 in one seed and 60 in the other, and 100 in one round, which the median passes by."""
    of: dict[tuple[str, int], Numbers] = {
        ("a", seed): {at: (1.0, 0.0) if at == 50 else (share, 1 - share) for at in range(1, 101)}
        for seed, share in ((0, 0.4), (1, 0.6))
    }
    plot = drawn(project, of, "rounds")
    values = plot.frame.set_index(["label", "x"]).loc["domain0"]
    assert {*values["mark"]} == {"median"} and len(values) == 100
    assert values.loc[[1, 100], "y"].tolist() == pytest.approx([50, 50])
    assert values.loc[50, ["y", "low", "high"]].tolist() == pytest.approx([60, 40, 60])
    assert values.loc[[39, 40, 60, 61], "y"].tolist() == pytest.approx([50, 60, 60, 50])  # ten rounds around
    assert plot.note.startswith("line: median of all seeds in 21 rounds; band: the middle 90% of these")
