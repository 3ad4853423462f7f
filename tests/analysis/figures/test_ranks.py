"""The figure of methods by their difference from one of them."""

import pytest

from fedshift.analysis.figures.base import Plot
from fedshift.analysis.figures.ranks import ALIKE, APART, Ranks
from tests.analysis.conftest import Project
from tests.analysis.figures.recording import trained


def drawn(project: Project, values: dict[str, float], seeds: int = 2) -> Plot:
    """Methods on two held-out domains, whose seeds differ by half a point in other directions."""
    found = {
        (method, target, seed): value + 0.005 * (seed if place % 2 else -seed)
        for place, (method, value) in enumerate(values.items())
        for target in "ab"
        for seed in range(seeds)
    }
    return Ranks(Ranks.Params()).plot(project.workspace, trained(project, found))


def test_methods_lie_by_their_difference_from_fedavg(project: Project) -> None:
    plot = drawn(project, {"fedavg": 0.5, "fedbn": 0.51, "ditto": 0.9})
    frame = plot.frame.set_index("y")
    assert frame["label"].to_dict() == {"ditto": APART, "fedbn": ALIKE, "fedavg": ALIKE}
    assert frame["x"].tolist() == pytest.approx([40, 1.5, 0])
    widths = frame["high"] - frame["low"]
    assert widths["ditto"] == pytest.approx(widths["fedbn"]) and widths.isna()["fedavg"]
    assert plot.x.label.endswith("less fedavg's") and "2 seeds" in plot.note


def test_one_seed_has_no_bar(project: Project) -> None:
    frame = drawn(project, {"fedavg": 0.5, "fedbn": 0.6}, seeds=1).frame
    assert frame["low"].isna().all() and frame["x"].notna().all()
