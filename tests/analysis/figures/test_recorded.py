"""Embeddings and weights: what methods recorded of their clients, over rounds and after the last."""

import pytest

from fedshift.analysis.clients import last_recorded
from fedshift.analysis.figures.draw import svg
from fedshift.analysis.figures.embeddings import Embeddings
from fedshift.analysis.figures.weights import Weights
from fedshift.spec.block import params
from tests.analysis.conftest import Project
from tests.analysis.figures.recording import Numbers, recorded

Of = dict[tuple[str, int], Numbers]
EMBEDDINGS: Of = {
    ("a", 0): {1: (0.0, 0.0), 2: (1.0, 3.0)},
    ("a", 1): {1: (0.0, 0.0), 2: (2.0, 4.0)},
    ("b", 0): {1: (0.0, 0.0), 2: (5.0, 9.0)},
    ("b", 1): {1: (0.0, 0.0), 2: (5.0, 7.0)},
}


def test_embeddings_after_the_last_round_are_a_dot_for_each_client_and_seed(project: Project) -> None:
    collected = recorded(project, "embeddings", EMBEDDINGS)
    plot = Embeddings(params(Embeddings, {"at": "end"})).plot(project.workspace, collected)
    found = plot.frame[["panel", "label", "y", "x"]].itertuples(index=False, name=None)
    last = {(target, seed): rounds[2] for (target, seed), rounds in EMBEDDINGS.items()}
    assert {*found} == {
        (f"held out: {target}", f"domain{k}", f"seed {seed}", x)
        for (target, seed), of in last.items()
        for k, x in enumerate(of)
    }
    assert svg(plot).startswith("<?xml")  # columns once had a pivot's names, and stopped the drawer


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
    collected = recorded(project, "embeddings", EMBEDDINGS)
    assert last_recorded(project.workspace, collected, text).tolist() == pytest.approx(numbers)


# ---- weights: golden results have the values

NOBODY = float("nan")


@pytest.mark.parametrize(("second", "rules"), [((NOBODY, 0.5, 0.5), {"y": [50]}), ((0.2, 0.3, 0.5), {})])
def test_the_rule_is_of_a_rounds_participants(
    project: Project, second: tuple[float, ...], rules: dict[str, list[float]]
) -> None:
    """Of three clients two take part in the first round; where rounds differ in how many, there is none."""
    collected = recorded(project, "gradalign", {("a", 0): {1: (0.5, 0.5, NOBODY), 2: second}})
    plot = Weights(params(Weights, {"at": "rounds"})).plot(project.workspace, collected)
    assert plot.rules == rules
