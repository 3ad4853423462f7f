"""Embeddings: where each client's lies after the last round, and on its way."""

import pytest

from fedshift.analysis.clients import last_recorded
from fedshift.analysis.figures.base import Plot
from fedshift.analysis.figures.draw import svg
from fedshift.analysis.figures.embeddings import Embeddings
from fedshift.spec.block import params
from tests.analysis.conftest import Project
from tests.analysis.figures.recording import Numbers, recorded

OF: dict[tuple[str, int], Numbers] = {
    ("a", 0): {1: (0.0, 0.0), 2: (1.0, 3.0)},
    ("a", 1): {1: (0.0, 0.0), 2: (2.0, 4.0)},
    ("b", 0): {1: (0.0, 0.0), 2: (5.0, 9.0)},
    ("b", 1): {1: (0.0, 0.0), 2: (5.0, 7.0)},
}


def ends(plot: Plot) -> dict[tuple[str, str], list[tuple[object, object]]]:
    found: dict[tuple[str, str], list[tuple[object, object]]] = {}
    for row in plot.frame.to_dict("records"):
        found.setdefault((row["panel"], row["label"]), []).append((row["x"], row["y"]))
    return found


def drawn(project: Project, of: dict[tuple[str, int], Numbers], at: str = "end") -> Plot:
    collected = recorded(project, "embeddings", of)
    return Embeddings(params(Embeddings, {"at": at})).plot(project.workspace, collected)


RIGHT = {
    ("held out: a", "domain0"): [(1, "seed 0"), (2, "seed 1")],
    ("held out: a", "domain1"): [(3, "seed 0"), (4, "seed 1")],
    ("held out: b", "domain0"): [(5, "seed 0"), (5, "seed 1")],
    ("held out: b", "domain1"): [(9, "seed 0"), (7, "seed 1")],
}


def test_after_the_last_round_a_dot_for_each_client_and_seed(project: Project) -> None:
    plot = drawn(project, OF)
    assert ends(plot) == RIGHT and "held out: a" in plot.text
    assert svg(plot).startswith(
        "<?xml"
    )  # the names of its columns were once those of a pivot, and stopped the drawer


def test_over_rounds_a_line_for_each_seed(project: Project) -> None:
    lines = drawn(project, OF, "rounds").frame
    one = lines[
        (lines["panel"] == "held out: a") & (lines["label"] == "domain1") & (lines["mark"] == "seed 0")
    ]
    assert one[["x", "y"]].to_numpy().tolist() == [[1, 0], [2, 3]]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("embeddings.spread", [1, 1, 2, 1]),
        ("embeddings.range", [2, 2, 4, 2]),
        ("embeddings.of=domain1", [3, 4, 9, 7]),
        ("embeddings.apart=seed", [1, 1, 1, 1]),  # 1 and 1, 1 and 1; 0 and 2, 0 and 2
        ("embeddings.apart=target", [5, 3, 5, 3]),  # 4 and 6, 3 and 3
    ],
)
def test_numbers_that_claims_are_about(project: Project, text: str, numbers: list[float]) -> None:
    collected = recorded(project, "embeddings", OF)
    assert last_recorded(project.workspace, collected, text).tolist() == pytest.approx(numbers)
