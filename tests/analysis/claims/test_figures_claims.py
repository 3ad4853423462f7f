"""Claims about figures, in miniature: what methods record, single clients, a range over rows, confidences."""

import itertools
from typing import Any

import pytest

from fedshift.analysis.clients import leading
from fedshift.analysis.collect import collect
from fedshift.analysis.collected import Collected
from fedshift.analysis.evaluated import measured
from fedshift.common.errors import FedshiftError
from fedshift.experiments.column import column
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from tests.analysis.conftest import Project, accuracy
from tests.analysis.figures.recording import recorded

from ..evaluating import evaluate
from ..judging import Verdict, verdicts

SPREAD = {
    "metric": "recorded.gradalign.spread",
    "rows": {"last round": "hfedf", "first rounds": {"row": "hfedf", "rounds": "round 1"}},
}
FINAL = {
    "metric": "recorded.gradalign.of=a",
    "rows": {
        "art_painting": "hfedf",
        "photo": {"row": "hfedf", "metric": "recorded.gradalign.of=b"},
        "sketch": {"row": "hfedf", "metric": "recorded.gradalign.of=c"},
    },
}
ENDS = {"a": 0.5, "b": 0.3, "c": 0.25, "d": 0.2}  # weight of the client that holds it, after the last round


def weights(
    project: Project, name: str, claim: dict[str, Any], seeds: int = 3, swapped: bool = False
) -> Verdict:
    """hfedf on four held-out domains; weights lie apart in the first round, and at ENDS in the last."""
    held = {target: tuple(domain for domain in ENDS if domain != target) for target in ENDS}
    order = slice(None, None, -1 if swapped else 1)
    of = {}
    for target, seed in itertools.product(ENDS, range(seeds)):
        last = tuple(ENDS[domain] + 0.01 * (seed % 3 - 1) * (domain == "a") for domain in held[target])
        of[target, seed] = {1: (0.9, 0.05, 0.05)[order], 2: last[order]}
    (verdict,) = verdicts(project.workspace, recorded(project, "gradalign", of, held, claims={name: claim}))
    return verdict


@pytest.mark.parametrize(("seeds", "word"), [(3, "as published"), (1, "open")])
def test_weights_that_come_together(project: Project, seeds: int, word: str) -> None:
    verdict = weights(project, "HF-C17.1", SPREAD, seeds)
    assert verdict.verdict == word and verdict.differences[0].difference < -20  # points: weights are shares


@pytest.mark.parametrize("swapped", [False, True])
def test_weights_of_two_domains_are_compared_where_neither_is_held_out(
    project: Project, swapped: bool
) -> None:
    """Two clients swapped are noticed."""
    verdict = weights(project, "HF-C18.1", FINAL, swapped=swapped)
    assert (verdict.verdict == "as published") != swapped
    if not swapped:
        assert [round(gap.difference, 3) for gap in verdict.differences] == [20, 25]
        assert verdict.differences[0].seeds == 3


def varied(
    project: Project, rows: dict[str, list[float]], name: str, claim: dict[str, Any], **declared: Any
) -> Collected:
    """FedAvg's rows, which differ in their learning rate: the accuracy of each by seed."""
    settings = {
        label: {"method": {"name": "fedavg"}, "local": {"lr": 0.1 * n}} for n, label in enumerate(rows, 1)
    }
    claims, seeds = {name: claim}, max(map(len, rows.values()))
    project.declare(methods=settings, axes={"seed": [*range(seeds)]}, claims=claims, **declared)
    for cell in expand(project.workspace, load(project.workspace, "toy")):
        value = rows[cell.label][cell.axes["seed"]]
        project.add(cell.label, {1: accuracy((value, value))}, spec=cell.spec, **cell.axes)
    return project.collect()


def of_fdse(tau: dict[str, Any], beta: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"metric": "all", "rows": {"FDSE (tau varied)": tau, "FDSE (beta varied)": beta}, **more}


def test_a_range_over_rows(project: Project) -> None:
    """tau moves accuracy by 20, 21 and 22 points, beta by 5."""
    rows = {"tau-1": 0.5, "tau-2": 0.7, "tau-3": 0.6, "beta-1": 0.60, "beta-2": 0.65}
    by_seed = {label: [value] * 3 for label, value in rows.items()} | {"tau-2": [0.7, 0.71, 0.72]}
    tau, beta = {"row": "tau-1", "range": ["tau-2", "tau-3"]}, {"row": "beta-1", "range": ["beta-2"]}
    (verdict,) = verdicts(project.workspace, varied(project, by_seed, "FDSE-C15.1", of_fdse(tau, beta)))
    assert verdict.statement == "range of tau-1, tau-2, tau-3 > range of beta-1, beta-2, all"
    assert (round(verdict.differences[0].difference, 3), verdict.verdict) == (16, "as published")
    path = project.workspace.root / "experiments" / "toy.yaml"
    path.write_text(path.read_text().replace("- beta-2", "- beta-9"))
    with pytest.raises(FedshiftError, match="beta-9"):
        collect(project.workspace, "toy")


@pytest.mark.parametrize(("best", "mean"), [("beta-2", -50), ("beta-1", 0)])
def test_where_rows_have_their_peak(project: Project, best: str, mean: float) -> None:
    """tau's is in the middle; beta's at its end, or in the middle; in each seed, which decides nothing."""
    rows = {
        "tau-1": 0.5,
        "tau-2": 0.7,
        "tau-3": 0.6,
        "beta-0": 0.5,
        "beta-1": 0.55,
        "beta-2": 0.55,
        best: 0.6,
    }
    tau, beta = {"row": "tau-1", "peak": ["tau-2", "tau-3"]}, {"row": "beta-0", "peak": ["beta-1", "beta-2"]}
    by_seed = {label: [value] * 3 for label, value in rows.items()}
    found = varied(project, by_seed, "FDSE-C31.1", of_fdse(tau, beta, margin=34))
    (verdict,) = verdicts(project.workspace, found)
    assert verdict.statement == "peak of tau-1, tau-2, tau-3 ~ peak of beta-0, beta-1, beta-2, all"
    assert (verdict.differences[0].difference, verdict.verdict) == (mean, "open")


@pytest.mark.parametrize(("kind", "name"), [("peak", "FDSE-C31.1"), ("range", "FDSE-C15.1")])
def test_rows_that_are_not_all_planned_have_neither_peak_nor_range(
    project: Project, kind: str, name: str
) -> None:
    """At seed 1 one row of three is planned: there is no difference there."""
    several, one = {"row": "a", kind: ["b", "c"]}, {"seed": [0]}
    rows = {label: [0.5, 0.5] for label in "abc"}
    found = varied(project, rows, name, of_fdse(several, several), only={"b": one, "c": one})
    (verdict,) = verdicts(project.workspace, found)
    assert [(one.seeds, one.planned) for one in verdict.differences] == [(1, 2)]


@pytest.mark.parametrize(
    ("clients", "shares"),
    [
        # equals lead together
        ({"fedavg": [(0.5, 0.7), (0.5, 0.7)], "local": [(0.4, 0.9), (0.5, 0.6)]}, [50, 100, 50, 50]),
        # at seed 1 the third, which may be the best, is still to come
        (
            {"fedavg": [(0.5, 0.7)] * 2, "local": [(0.4, 0.6)] * 2, "fedprox": [(0.6, 0.6), None]},
            [50, -1, 0, -1, 50, -1],
        ),
        ({"fedavg": [(0.5, 0.5)]}, [-1]),  # a row alone leads nobody
    ],
)
def test_the_share_of_clients_that_a_row_leads(
    project: Project, clients: dict[str, list[tuple[float, ...] | None]], shares: list[float]
) -> None:
    runs = {
        (method, seed): of and {1: accuracy(of)}
        for method, seeds in clients.items()
        for seed, of in enumerate(seeds)
    }
    found = leading(project.trained(runs, ("seed",)), "accuracy")
    assert found.fillna(-1).tolist() == shares


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("recorded.gradalign.width", "number of a diagnostic"),
        ("recorded.gradalign.of", "does not say of what"),
        ("recorded.gradalign.spread=photo", "does not say of what"),
        ("leads.acuracy", "metric"),
    ],
)
def test_a_column_that_says_nothing_is_refused(text: str, error: str) -> None:
    with pytest.raises(FedshiftError, match=error):
        column(text)


# ---- claims about features, weights and filters, in miniature: runs whose evaluations have known numbers


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
