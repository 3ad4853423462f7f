"""The figure of mean ranks."""

from __future__ import annotations

import pytest

from fedshift.analysis.drawing import static
from fedshift.analysis.drawing.panels import Panels
from fedshift.analysis.figures.ranks import ALIKE, APART, Ranks
from fedshift.analysis.ranking import critical
from fedshift.common.errors import FedshiftError
from tests.analysis.conftest import Project, accuracy

TARGETS = [f"d{k}" for k in range(12)]


def drawn(project: Project, values: dict[str, float]) -> Panels:
    """Methods that have one accuracy on all of twelve held-out domains."""
    project.declare(methods=dict.fromkeys(values), axes={"target": TARGETS, "seed": [0]})
    for method, value in values.items():
        for target in TARGETS:
            project.add(method, {1: accuracy((0.5, 0.5), ood=value)}, target=target, seed=0)
    return Ranks(Ranks.Params()).panels(project.workspace, project.collect())


def test_methods_lie_by_rank_with_half_a_critical_difference_to_each_side(project: Project) -> None:
    """Twelve domains that always agree: three methods have the ranks 1, 2, 3, and the third is told apart from the first."""
    panels = drawn(project, {"fedavg": 0.5, "fedbn": 0.6, "ditto": 0.7})
    series = panels.rows[0].panels[0].series
    assert [(mark.mark, mark.x, mark.y) for mark in series] == [
        ("ditto", [1], [0]), ("fedbn", [2], [1]), ("fedavg", [3], [2])
    ]  # fmt: skip
    half = critical(3, 12, 0.05) / 2
    assert 0.5 < 2 * half < 2
    assert [mark.label for mark in series] == [ALIKE, APART if 2 * half <= 1 else ALIKE, APART]
    assert series[1].spread is not None and series[1].spread.low == [pytest.approx(2 - half)]
    (axes,) = static.draw(panels, "A toy").axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "3"]  # there is no other rank
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ditto", "fedbn", "fedavg"]


def test_a_planted_error_is_noticed(project: Project) -> None:
    """Two methods with each other's accuracies change places."""
    (panel,) = drawn(project, {"fedavg": 0.7, "fedbn": 0.6, "ditto": 0.5}).rows[0].panels
    assert [mark.mark for mark in panel.series] == ["fedavg", "fedbn", "ditto"]


def test_an_unknown_metric_is_refused_when_planned(project: Project) -> None:
    with pytest.raises(FedshiftError):
        Ranks(Ranks.Params(metric="odd")).check(None, {}, "figures")  # type: ignore[arg-type]
