"""Weights: of each client, by the domain that it holds, over rounds and after the last."""

from __future__ import annotations

import pandas as pd
import pytest

from fedshift.analysis.drawing import static
from fedshift.analysis.drawing.panels import Panels, table
from fedshift.analysis.figures._recorded import points
from fedshift.analysis.figures.weights import LEAST, Weights
from fedshift.common.errors import FedshiftError
from fedshift.spec.block import params
from tests.analysis.conftest import Project, accuracy
from tests.analysis.figures.recording import Numbers, recorded

NOBODY = float("nan")
OF: dict[tuple[str, int], Numbers] = {
    ("a", 0): {1: (0.7, 0.3), 2: (0.6, 0.4)},
    ("a", 1): {1: (0.1, 0.9), 2: (0.4, 0.6)},
    ("b", 0): {1: (0.5, 0.5), 2: (0.5, 0.5)},
    ("b", 1): {1: (0.5, 0.5), 2: (0.5, 0.5)},
}


def drawn(project: Project, of: dict[tuple[str, int], Numbers], at: str) -> Panels:
    collected = recorded(project, "gradalign", of)
    return Weights(params(Weights, {"at": at})).panels(project.workspace, collected)


def means(panels: Panels, panel: str, label: str) -> list[tuple[object, float]]:
    values = table(panels)
    values = values[(values["mark"] == "mean") & (values["label"] == label) & (values["panel"] == panel)]
    return [(x, round(y, 4)) for x, y in zip(values["x"], values["y"], strict=True)]


def test_over_rounds(project: Project) -> None:
    panels = drawn(project, OF, "rounds")
    assert means(panels, "held out: a", "domain0") == [(1, 40), (2, 50)]
    assert means(panels, "held out: a", LEAST) == [(1, 20), (2, 40)]  # of 30 and 10, of 40 and 40
    assert panels.rows[0].panels[0].rules == [("y", 50)]
    assert panels.note == "thin lines: single seeds; grey rule: all clients alike"
    static.draw(panels, "A toy")


@pytest.mark.parametrize(("second", "rules"), [((NOBODY, 0.5, 0.5), [("y", 50)]), ((0.2, 0.3, 0.5), [])])
def test_the_rule_is_of_a_rounds_participants(
    project: Project, second: tuple[float, ...], rules: list[tuple[str, float]]
) -> None:
    """Of three clients two take part in the first round; where rounds differ in how many, there is none."""
    panels = drawn(project, {("a", 0): {1: (0.5, 0.5, NOBODY), 2: second}}, "rounds")
    assert panels.rows[0].panels[0].rules == rules


def test_after_the_last_round(project: Project) -> None:
    assert means(drawn(project, OF, "end"), "", "domain1") == [("a", 50), ("b", 50)]


def test_many_rounds_are_a_median_in_the_band_of_most(project: Project) -> None:
    """A client's weight is 40 in one seed and 60 in the other, and 100 in one round, which the median passes by."""
    of: dict[tuple[str, int], Numbers] = {
        ("a", seed): {at: (1.0, 0.0) if at == 50 else (share, 1 - share) for at in range(1, 101)}
        for seed, share in ((0, 0.4), (1, 0.6))
    }
    panels = drawn(project, of, "rounds")
    values = table(panels).set_index(["label", "x"]).loc["domain0"]
    assert {*values["mark"]} == {"median"} and len(values) == 100
    assert values.loc[[1, 100], "y"].tolist() == pytest.approx([50, 50])
    assert values.loc[50, ["y", "low", "high"]].tolist() == pytest.approx([60, 40, 60])
    assert values.loc[[39, 40, 60, 61], "y"].tolist() == pytest.approx([50, 60, 60, 50])  # ten rounds around
    assert panels.note.startswith("line: median of all seeds in 21 rounds; band: the middle 90% of these")


def test_domains_that_no_run_holds_out_have_no_place(project: Project) -> None:
    """Of three data sets of which one is trained, the domains of the others were empty places."""
    project.declare(methods={"hfedf": None}, axes={"target": ["a", "b"], "seed": [0]})
    collected = recorded(project, "gradalign", {("a", 0): OF["a", 0], ("b", 0): OF["b", 0]})
    frame = pd.DataFrame({"method": "hfedf", "target": ["b"]})
    assert [[target for _, target, _ in row] for row in points(collected, frame)] == [["b"]]


@pytest.mark.parametrize(
    "wrong",
    [
        {**OF, ("a", 0): {1: (0.3, 0.7), 2: (0.4, 0.6)}},  # two clients swapped
        {**OF, ("a", 0): {1: (0.6, 0.4), 2: (0.7, 0.3)}},  # two rounds
    ],
    ids=["two clients swapped", "the wrong round"],
)
def test_a_planted_error_is_noticed(project: Project, wrong: dict[tuple[str, int], Numbers]) -> None:
    assert means(drawn(project, wrong, "rounds"), "held out: a", "domain0") != [(1, 40), (2, 50)]


def test_a_method_that_records_none_is_an_error(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    project.add("fedavg", {1: accuracy((0.5,))}, seed=0)
    with pytest.raises(FedshiftError, match="recorded 'weights or gradalign'"):
        Weights(Weights.Params()).panels(project.workspace, project.collect())
