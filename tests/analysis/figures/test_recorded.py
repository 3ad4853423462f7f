"""Embeddings and weights: what methods recorded of their clients, over rounds and after the last."""

import pytest

from fedshift.analysis.clients import last_recorded
from fedshift.analysis.figures.base import Plot
from fedshift.analysis.figures.draw import svg
from fedshift.analysis.figures.embeddings import Embeddings
from fedshift.analysis.figures.weights import LEAST, Weights
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


# ---- weights of each client, by the domain that it holds

NOBODY = float("nan")
WEIGHTS: Of = {
    ("a", 0): {1: (0.7, 0.3), 2: (0.6, 0.4)},
    ("a", 1): {1: (0.1, 0.9), 2: (0.4, 0.6)},
    ("b", 0): {1: (0.5, 0.5), 2: (0.5, 0.5)},
    ("b", 1): {1: (0.5, 0.5), 2: (0.5, 0.5)},
}


def weights(project: Project, of: Of) -> Plot:
    collected = recorded(project, "gradalign", of)
    return Weights(params(Weights, {"at": "rounds"})).plot(project.workspace, collected)


def means(plot: Plot, panel: str, label: str) -> list[tuple[object, float]]:
    values = plot.frame
    values = values[(values["mark"] == "mean") & (values["label"] == label) & (values["panel"] == panel)]
    return [(x, round(y, 4)) for x, y in zip(values["x"], values["y"], strict=True)]


def test_weights_over_rounds_and_after_the_last(project: Project) -> None:
    plot = weights(project, WEIGHTS)
    assert means(plot, "held out: a", "domain0") == [(1, 40), (2, 50)]
    assert means(plot, "held out: a", LEAST) == [(1, 20), (2, 40)]  # of 30 and 10, of 40 and 40
    assert plot.rules == {"y": [50]}
    end = Weights(params(Weights, {"at": "end"})).plot(project.workspace, project.collect())
    assert means(end, "", "domain1") == [("a", 50), ("b", 50)]


@pytest.mark.parametrize(("second", "rules"), [((NOBODY, 0.5, 0.5), {"y": [50]}), ((0.2, 0.3, 0.5), {})])
def test_the_rule_is_of_a_rounds_participants(
    project: Project, second: tuple[float, ...], rules: dict[str, list[float]]
) -> None:
    """Of three clients two take part in the first round; where rounds differ in how many, there is none."""
    plot = weights(project, {("a", 0): {1: (0.5, 0.5, NOBODY), 2: second}})
    assert plot.rules == rules


def test_many_rounds_are_a_median_in_the_band_of_most(project: Project) -> None:
    """A client's weight is 40 in one seed and 60 in the other, and 100 in one round, which the median passes by."""
    of: Of = {
        ("a", seed): {at: (1.0, 0.0) if at == 50 else (share, 1 - share) for at in range(1, 101)}
        for seed, share in ((0, 0.4), (1, 0.6))
    }
    plot = weights(project, of)
    values = plot.frame.set_index(["label", "x"]).loc["domain0"]
    assert {*values["mark"]} == {"median"} and len(values) == 100
    assert values.loc[[1, 100], "y"].tolist() == pytest.approx([50, 50])
    assert values.loc[50, ["y", "low", "high"]].tolist() == pytest.approx([60, 40, 60])
    assert values.loc[[39, 40, 60, 61], "y"].tolist() == pytest.approx([50, 60, 60, 50])  # ten rounds around
