"""The figure of mean ranks."""

from __future__ import annotations

import pytest

from fedshift.analysis.figures import draw
from fedshift.analysis.figures.base import Plot
from fedshift.analysis.figures.ranks import ALIKE, APART, Ranks
from fedshift.analysis.ranking import critical
from fedshift.common.errors import FedshiftError
from tests.analysis.conftest import Project, accuracy

TARGETS = [f"d{k}" for k in range(12)]


def drawn(project: Project, values: dict[str, float]) -> Plot:
    """Methods that have one accuracy on all of twelve held-out domains."""
    project.declare(methods=dict.fromkeys(values), axes={"target": TARGETS, "seed": [0]})
    for method, value in values.items():
        for target in TARGETS:
            project.add(method, {1: accuracy((0.5, 0.5), ood=value)}, target=target, seed=0)
    return Ranks(Ranks.Params()).plot(project.workspace, project.collect())


def test_methods_lie_by_rank_with_half_a_critical_difference_to_each_side(project: Project) -> None:
    """Twelve domains that always agree: three methods have the ranks 1, 2, 3, and the third is told apart from the first."""
    plot = drawn(project, {"fedavg": 0.5, "fedbn": 0.6, "ditto": 0.7})
    half = critical(3, 12, 0.05) / 2
    assert 0.5 < 2 * half < 2
    assert plot.frame["y"].tolist() == ["ditto", "fedbn", "fedavg"]
    assert plot.frame["x"].tolist() == [1, 2, 3]
    assert plot.frame["label"].tolist() == [ALIKE, APART if 2 * half <= 1 else ALIKE, APART]
    assert plot.frame["low"].tolist() == pytest.approx([1 - half, 2 - half, 3 - half])
    (axes,) = draw.draw(plot, "A toy").axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "3"]  # there is no other rank
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ditto", "fedbn", "fedavg"]


def test_an_unknown_metric_is_refused_when_planned(project: Project) -> None:
    with pytest.raises(FedshiftError):
        Ranks(Ranks.Params(metric="odd")).check(None, {}, "figures")  # type: ignore[arg-type]
