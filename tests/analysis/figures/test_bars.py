"""Bars: a bar for each value and label, from 0, with its seeds."""

import itertools

import pytest

from fedshift.analysis.figures import draw
from fedshift.analysis.figures.bars import Bars
from fedshift.spec.block import params
from tests.analysis.conftest import Project
from tests.analysis.figures.recording import trained

OOD = {("fedavg", "a"): 0.4, ("fedavg", "b"): 0.6, ("local", "a"): 0.5, ("local", "b"): 0.3}


def test_a_bar_for_each_method_and_domain_begins_at_zero(project: Project) -> None:
    """Two seeds, the second 2 points above."""
    values = {(*place, seed): value + 0.02 * seed for place, value in OOD.items() for seed in (0, 1)}
    plot = Bars(params(Bars, {"x": "target"})).plot(project.workspace, trained(project, values))
    means = plot.frame[plot.frame["mark"] == "mean"].set_index(["label", "x"])["y"]
    assert means.to_dict() == pytest.approx({place: 100 * value + 1 for place, value in OOD.items()})
    (axes,) = draw.draw(plot, "A toy").axes
    bars = [bar for container in axes.containers for bar in container]
    assert sorted(bar.get_height() for bar in bars) == pytest.approx([31, 41, 51, 61])
    assert axes.get_ylim()[0] == 0
    ends = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(ends))
