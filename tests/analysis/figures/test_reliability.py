"""Reliability: samples by confidence, right and wrong, of the reported round and the right sets."""

from __future__ import annotations

import numpy as np
import pytest

from fedshift.analysis.drawing import static
from fedshift.analysis.drawing.panels import Panels
from fedshift.analysis.figures.reliability import CURVE, RIGHT, WRONG, Reliability
from fedshift.common.errors import FedshiftError
from fedshift.federation.records import BINS, Statistics
from tests.analysis.conftest import Project, accuracy


def sets(*counts: tuple[int, int, int]) -> Statistics:
    """One set each of (bin, right, wrong): all its samples in one bin, with its middle as confidence."""
    n, right, wrong = np.zeros((len(counts), 2)), np.zeros((len(counts), BINS)), np.zeros((len(counts), BINS))
    for place, (at, rights, wrongs) in enumerate(counts):
        n[place, 0] = rights + wrongs
        right[place, at], wrong[place, at] = rights, wrongs
    return Statistics(n, n * 0, n * 0, wrong, right, (right + wrong) * (np.arange(BINS) + 0.5) / BINS)


def drawn(project: Project, own: int = 19, held_out: int = 10, last: int = 2) -> Panels:
    """One client and a held-out domain after two rounds; what is reported lies in bins `own` and `held_out`."""
    project.declare(methods={"fedavg": None}, axes={"target": ["a"], "seed": [0]})
    now, before = [(own, 6, 2), (own, 1, 1), (held_out, 3, 9)], [(0, 1, 1)] * 3
    rounds = {1: accuracy((0.5,), 0.5), 2: accuracy((0.5,), 0.5)}
    counts = [*before, *now] if last == 2 else [*now, *before]
    project.add("fedavg", rounds, sizes=(10,), statistics=sets(*counts), target="a", seed=0)
    return Reliability(Reliability.Params()).panels(project.workspace, project.collect())


def shares(panels: Panels, row: int, label: str) -> dict[float, float]:
    """Bar -> percent of all samples, where it is not 0."""
    (series,) = [one for one in panels.rows[row].panels[0].series if one.label == label]
    return {round(x, 3): round(y, 3) for x, y in zip(series.x, series.y, strict=True) if y}


def test_right_and_wrong_in_and_out_of_distribution(project: Project) -> None:
    panels = drawn(project)
    assert [row.panels[0].y.label.split("\n")[0] for row in panels.rows] == [
        "in-distribution", "out-of-distribution", "in-distribution", "out-of-distribution"
    ]  # fmt: skip
    assert (shares(panels, 0, RIGHT), shares(panels, 0, WRONG)) == ({0.925: 75.0}, {0.975: 25.0})
    assert (shares(panels, 1, RIGHT), shares(panels, 1, WRONG)) == ({0.525: 25.0}, {0.575: 75.0})
    curve, few = [one for one in panels.rows[2].panels[0].series if one.label == CURVE]
    assert (few.x, few.y) == (curve.x, curve.y)  # of eight samples
    assert (curve.x, curve.y) == ([pytest.approx(0.975)], [pytest.approx(75)])
    assert panels.rows[2].panels[0].inside == "ECE 22.5%"  # 97.5 sure, 75 right
    assert panels.rows[3].panels[0].inside == "ECE 27.5%"
    _, few = [one for one in panels.rows[3].panels[0].series if one.label == CURVE]
    assert not few.x  # of twelve
    assert len(static.draw(panels, "A toy").axes) == 4


@pytest.mark.parametrize("error", [{"own": 10, "held_out": 19}, {"last": 1}], ids=["sets", "the wrong round"])
def test_a_planted_error_is_noticed(project: Project, error: dict[str, int]) -> None:
    panels = drawn(project, **error)
    assert shares(panels, 0, RIGHT) != {0.925: 75.0}


def test_runs_without_statistics_are_an_error(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    project.add("fedavg", {1: accuracy((0.5,))}, seed=0)
    with pytest.raises(FedshiftError, match="how sure its models are"):
        Reliability(Reliability.Params()).panels(project.workspace, project.collect())
