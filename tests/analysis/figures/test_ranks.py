"""The figure of methods by their difference from one of them."""

from __future__ import annotations

import math

import pytest

from fedshift.analysis.drawing.panels import Panels
from fedshift.analysis.figures.ranks import ALIKE, APART, Ranks
from fedshift.common.errors import FedshiftError
from tests.analysis.conftest import Project, accuracy


def drawn(project: Project, values: dict[str, float], seeds: int = 2) -> Panels:
    """Methods on two held-out domains, whose seeds differ by a point in other directions."""
    project.declare(methods=dict.fromkeys(values), axes={"target": ["a", "b"], "seed": [*range(seeds)]})
    for place, (method, value) in enumerate(values.items()):
        for target in "ab":
            for seed in range(seeds):
                shown = value + 0.005 * (seed if place % 2 else -seed)
                project.add(method, {1: accuracy((0.5, 0.5), ood=shown)}, target=target, seed=seed)
    return Ranks(Ranks.Params()).panels(project.workspace, project.collect())


def test_methods_lie_by_their_difference_from_fedavg(project: Project) -> None:
    panels = drawn(project, {"fedavg": 0.5, "fedbn": 0.51, "ditto": 0.9})
    (panel,) = panels.rows[0].panels
    assert [(mark.mark, mark.label) for mark in panel.series] == [
        ("ditto", APART), ("fedbn", ALIKE), ("fedavg", ALIKE)
    ]  # fmt: skip
    assert [mark.x[0] for mark in panel.series] == pytest.approx([40, 1.5, 0])
    first, second, base = (mark.spread for mark in panel.series)
    assert first is not None and second is not None and base is None
    assert first.high[0] - first.low[0] == pytest.approx(second.high[0] - second.low[0])
    assert panel.x.label.endswith("less fedavg's") and "2 seeds" in panels.note


def test_one_seed_has_no_bar(project: Project) -> None:
    (panel,) = drawn(project, {"fedavg": 0.5, "fedbn": 0.6}, seeds=1).rows[0].panels
    assert [mark.spread for mark in panel.series] == [None, None]
    assert not any(math.isnan(mark.x[0]) for mark in panel.series)


def test_an_unknown_metric_is_refused_when_planned(project: Project) -> None:
    with pytest.raises(FedshiftError):
        Ranks(Ranks.Params(metric="odd")).check(None, {}, "figures")  # type: ignore[arg-type]
