"""Reliability: samples by confidence, right and wrong, of the reported round and the right sets."""

import numpy as np
import pytest

from fedshift.analysis.figures.base import Plot
from fedshift.analysis.figures.reliability import CURVE, RIGHT, WRONG, Reliability
from fedshift.federation.records import BINS, Statistics
from tests.analysis.conftest import Project, accuracy


def sets(*counts: tuple[int, int, int]) -> Statistics:
    """One set each of (bin, right, wrong): all its samples in one bin, with its middle as confidence."""
    n, right, wrong = np.zeros((len(counts), 2)), np.zeros((len(counts), BINS)), np.zeros((len(counts), BINS))
    for place, (at, rights, wrongs) in enumerate(counts):
        n[place, 0] = rights + wrongs
        right[place, at], wrong[place, at] = rights, wrongs
    return Statistics(n, n * 0, n * 0, wrong, right, (right + wrong) * (np.arange(BINS) + 0.5) / BINS)


def drawn(project: Project) -> Plot:
    """One client and a held-out domain after two rounds; what is reported lies in the bins 19 and 10."""
    project.declare(methods={"fedavg": None}, axes={"target": ["a"], "seed": [0]})
    rounds = {1: accuracy((0.5,), 0.5), 2: accuracy((0.5,), 0.5)}
    counts = sets(*[(0, 1, 1)] * 3, (19, 6, 2), (19, 1, 1), (10, 3, 9))
    project.add("fedavg", rounds, sizes=(10,), statistics=counts, target="a", seed=0)
    return Reliability(Reliability.Params()).plot(project.workspace, project.collect())


def shares(plot: Plot, where: str, label: str) -> dict[float, float]:
    """Bar -> percent of all samples, where it is not 0."""
    frame = plot.frame[(plot.frame["y_axis"] == f"{where}\nsamples (%)") & (plot.frame["label"] == label)]
    return {round(x, 3): round(y, 3) for x, y in zip(frame["x"], frame["y"], strict=True) if y}


def test_right_and_wrong_in_and_out_of_distribution(project: Project) -> None:
    plot = drawn(project)
    inside, outside = "in-distribution", "out-of-distribution"
    assert (shares(plot, inside, RIGHT), shares(plot, inside, WRONG)) == ({0.925: 75.0}, {0.975: 25.0})
    assert (shares(plot, outside, RIGHT), shares(plot, outside, WRONG)) == ({0.525: 25.0}, {0.575: 75.0})
    curve = plot.frame[plot.frame["label"] == CURVE].set_index(["y_axis", "mark"])[["x", "y"]]
    for mark in ("bin", "of few samples"):  # of eight
        assert curve.loc[(f"{inside}\naccuracy (%)", mark)].squeeze().tolist() == pytest.approx([0.975, 75])
    assert (f"{outside}\naccuracy (%)", "of few samples") not in curve.index  # of twelve
    assert [*plot.texts.values()] == ["ECE 22.5%", "ECE 27.5%"]  # 97.5 sure, 75 right
