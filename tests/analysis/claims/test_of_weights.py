"""Claims about features, weights and filters, in miniature: runs whose evaluations have known numbers."""

import itertools
from typing import Any

import pytest

from fedshift.analysis.claims.judge import verdicts
from fedshift.analysis.collected import Collected
from fedshift.analysis.evaluated import measured
from fedshift.common.errors import FedshiftError
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load

from ..conftest import Project
from ..evaluating import evaluate


def trained(project: Project, methods: list[str], **declared: Any) -> Collected:
    places = itertools.product(methods, (0, 1, 2))
    return project.trained(dict.fromkeys(places, 0.5), ("seed",), **declared)


def features(project: Project, claim: str, metric: str, gap: float) -> str:
    """The verdict where FDSE's distance is larger by `gap` than FedBN's, and that larger than FedAvg's; seeds alike."""
    methods = ["fedavg", "fedbn", "fdse"]
    rows: dict[str, list[str] | str] = {"baselines shown": ["fedavg", "fedbn"]}
    declared = {claim: {"metric": f"evaluated.distances.{metric}", "rows": rows}}
    found = trained(project, methods, evaluations=["distances"], claims=declared)

    def distances(run: dict[str, Any]) -> list[dict[str, Any]]:
        value = {"fedavg": 0.9, "fedbn": 1.0, "fdse": 1.0 + gap}[run["method"]] + 0.01 * run["seed"] ** 2
        value += 0.001 * run["seed"] * len(run["method"])
        return [{"images": 10, "inter": value, "intra": value, "domains": value}]

    evaluate(project, found, "distances", "distances", distances)
    (verdict,) = verdicts(project.workspace, found)
    assert [gap.seeds for gap in verdict.differences] == [3, 3]
    return verdict.verdict


@pytest.mark.parametrize(
    ("claim", "metric", "gap", "verdict"),
    [
        ("FDSE-C07.2", "inter", 0.2, "as published"),
        ("FDSE-C07.2", "inter", -0.05, "against"),  # between the two, but not above both
        ("FDSE-C08.2", "intra", -0.3, "as published"),
        ("FDSE-C08.2", "intra", 0.2, "against"),
        ("FDSE-C08.2", "intra", -0.1, "open"),  # as near as FedAvg, but for the seeds
    ],
)
def test_distances_of_features(project: Project, claim: str, metric: str, gap: float, verdict: str) -> None:
    """C07: FDSE farther than the best baseline; C08: nearer than each, of which the least decides."""
    assert features(project, claim, metric, gap) == verdict


@pytest.mark.parametrize(("own", "verdict"), [(0.1, "as published"), (3.0, "against")])
def test_spread_of_weights(project: Project, own: float, verdict: str) -> None:
    """HF-C16.1: hFedF's clients are nearer to each other than clients that train alone, over all layers alike."""
    claims = {"HF-C16.1": {"metric": "evaluated.spread.mean"}}
    found = trained(project, ["local", "hfedf"], evaluations=["spread"], claims=claims)

    def spread(run: dict[str, Any]) -> list[dict[str, Any]]:
        level = (own if run["method"] == "hfedf" else 1.0) + 0.01 * run["seed"] * (run["method"] == "hfedf")
        return [{"layer": str(n), "place": n, "entries": 10**n, "deviation": n * level} for n in (1, 2)]

    evaluate(project, found, "spread", "spread", spread)
    (judged,) = verdicts(project.workspace, found)
    assert judged.verdict == verdict
    values = measured(project.workspace, found, "spread.mean")
    level = [1.0] * 3 + [own + 0.01 * seed for seed in range(3)]
    assert values.tolist() == pytest.approx([1.5 * value for value in level])


@pytest.mark.parametrize(("low", "high", "verdict"), [(2.0, 1.0, "as published"), (1.0, 2.0, "against")])
def test_divergence_of_filters(project: Project, low: float, high: float, verdict: str) -> None:
    """FRD-C12.1: two low stages diverge more than two high ones, of the same runs."""
    rows = {"layers 2, 4": "fedrd", "layers 5, 7": {"row": "fedrd", "metric": "evaluated.activations.high"}}
    claims = {"FRD-C12.1": {"metric": "evaluated.activations.low", "rows": rows}}
    found = trained(project, ["fedrd"], evaluations=["activations"], claims=claims)

    def activations(run: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"client": k, "layer": f"stage{n}", "place": n, "mean": [k * (gap + 0.01 * run["seed"] * n)], "variance": [1.0]}
            for n, gap in enumerate((low, low, high, high), 1)
            for k in (0, 1)
        ]  # fmt: skip

    evaluate(project, found, "activations", "activations", activations)
    (judged,) = verdicts(project.workspace, found)
    assert judged.verdict == verdict


def test_a_table_shows_numbers_of_an_evaluation(project: Project) -> None:
    """Where a run has no result the cell is empty; where none was made, all are."""
    tables = {"t": {"metrics": ["evaluated.cka.mean", "evaluated.cka.least"]}}
    found = trained(project, ["fedavg", "fedbn"], evaluations=["cka"], tables=tables)
    assert project.shown(found)["mean"].isna().all()

    def cka(run: dict[str, Any]) -> list[dict[str, Any]]:
        others = (1, 2) if run["method"] == "fedbn" else ()
        return [{"client": 0, "other": k, "cka": 0.25 * k + 0.1 * run["seed"]} for k in others]

    evaluate(project, found, "cka", "cka", cka)
    shown = project.shown(found).set_index(["method", "metric"])["mean"]
    assert shown["fedbn"].tolist() == pytest.approx([0.375 + 0.1, 0.25 + 0.1])
    assert shown["fedavg"].isna().all()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"tables": {"t": {"metrics": ["evaluated.cka.mean"]}}}, "needs the evaluation 'cka'"),
        ({"tables": {"t": {"metrics": ["evaluated.cka.maen"]}}}, "Did you mean 'mean'"),
        ({"tables": {"t": {"metrics": ["evaluated.cak.mean"]}}}, "Did you mean 'cka'"),
        ({"figures": ["tsne"], "evaluations": ["tsne"]}, "needs the evaluation 'distances'"),
        ({"figures": [{"tsne": {"at": ["1o"]}}], "evaluations": ["tsne", "distances"]}, "of an axis '1o'"),
        ({"claims": {"HF-C16.1": {"metric": "evaluated.spread.mean"}}}, "needs the evaluation 'spread'"),
    ],
)
def test_what_was_not_asked_for_is_refused_when_it_is_planned(
    project: Project, declared: dict[str, Any], message: str
) -> None:
    spec = {"data": {"dataset": "digits", "target": "plain"}}
    project.declare(methods={"local": None, "hfedf": None}, axes={"seed": [10]}, spec=spec, **declared)
    with pytest.raises(FedshiftError, match=message):
        expand(project.workspace, load(project.workspace, project.name))
