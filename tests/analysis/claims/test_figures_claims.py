"""Claims about figures, in miniature: what methods record, single clients, a range over rows, confidences."""

import itertools
from typing import Any

import numpy as np
import pytest

from fedshift.analysis.claims.judge import Verdict, verdicts
from fedshift.analysis.clients import leading
from fedshift.analysis.collect import collect
from fedshift.analysis.collected import Collected
from fedshift.analysis.metrics.confidence_right import ConfidenceRight
from fedshift.analysis.metrics.confidence_wrong import ConfidenceWrong
from fedshift.common.errors import FedshiftError
from fedshift.experiments.column import column
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.federation.records import DiagnosticsTable
from tests.analysis.conftest import Project, accuracy

SPREAD = {
    "HF-C17.1": {
        "metric": "recorded.gradalign.spread",
        "rows": {"last round": "hfedf", "first rounds": {"row": "hfedf", "rounds": "round 1"}},
    }
}
FINAL = {
    "HF-C18.1": {
        "metric": "recorded.gradalign.of=a",
        "rows": {
            "art_painting": "hfedf",
            "photo": {"row": "hfedf", "metric": "recorded.gradalign.of=b"},
            "sketch": {"row": "hfedf", "metric": "recorded.gradalign.of=c"},
        },
    }
}
DOMAINS = ("a", "b", "c", "d")
ENDS = {"a": 0.5, "b": 0.3, "c": 0.25, "d": 0.2}  # weight of the client that holds it, after the last round


def recorded(project: Project, claims: dict[str, Any], seeds: int = 3, swapped: bool = False) -> Verdict:
    """hfedf on four held-out domains; weights lie apart in the first round, and at ENDS in the last."""
    axes = {"target": [*DOMAINS], "seed": [*range(seeds)]}
    project.declare(methods={"hfedf": None}, axes=axes, claims=claims)
    for target, seed in itertools.product(*axes.values()):
        held = [domain for domain in DOMAINS if domain != target]
        rounds = {1: accuracy((0.5,) * 3, 0.5)}
        run = project.add("hfedf", rounds, sizes=(10,) * 3, target=target, seed=seed)
        text = (run / "summary.json").read_text()
        for place, domain in enumerate(held):
            text = text.replace(f'"domain{place}"', f'"{domain}"')
        (run / "summary.json").write_text(text)
        last = np.array([ENDS[domain] + 0.01 * (seed % 3 - 1) * (domain == "a") for domain in held])
        table = DiagnosticsTable(3)
        for finished, values in {1: np.array([0.9, 0.05, 0.05]), 2: last}.items():
            table.add(finished, "gradalign", ("K",), [2, 1, 0] if swapped else [0, 1, 2], values)
        (run / "diagnostics.parquet").write_bytes(table.pack())
    (verdict,) = verdicts(project.workspace, project.collect())
    return verdict


def test_weights_that_come_together(project: Project) -> None:
    verdict = recorded(project, SPREAD)
    assert verdict.verdict == "as published"
    assert verdict.differences[0].mean < -20  # points: weights are shares


def test_one_seed_decides_nothing(project: Project) -> None:
    assert recorded(project, SPREAD, seeds=1).verdict == "open"


def test_weights_of_two_domains_are_compared_where_neither_is_held_out(project: Project) -> None:
    verdict = recorded(project, FINAL)
    assert [round(gap.mean, 3) for gap in verdict.differences] == [20, 25]
    assert verdict.differences[0].seeds == 3
    assert verdict.verdict == "as published"


def test_two_clients_swapped_are_noticed(project: Project) -> None:
    assert recorded(project, FINAL, swapped=True).verdict != "as published"


def varied(
    project: Project, rows: dict[str, list[float]], name: str, claim: dict[str, Any], **declared: Any
) -> Collected:
    """FedAvg's rows, which differ in their learning rate: the accuracy of each by seed."""
    settings = {
        label: {"method": {"name": "fedavg"}, "local": {"lr": 0.1 * (place + 1)}}
        for place, label in enumerate(rows)
    }
    claims, seeds = {name: claim}, max(map(len, rows.values()))
    project.declare(methods=settings, axes={"seed": [*range(seeds)]}, claims=claims, **declared)
    for cell in expand(project.workspace, load(project.workspace, "toy")):
        value = rows[cell.label][cell.axes["seed"]]
        project.add(cell.label, {1: accuracy((value, value))}, spec=cell.spec, **cell.axes)
    return project.collect()


def of_fdse(tau: dict[str, Any], beta: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"metric": "all", "rows": {"FDSE (tau varied)": tau, "FDSE (beta varied)": beta}, **more}


@pytest.fixture
def ranges(project: Project) -> Collected:
    """tau moves accuracy by 20 points, beta by 5."""
    rows = {"tau-1": 0.5, "tau-2": 0.7, "tau-3": 0.6, "beta-1": 0.60, "beta-2": 0.65}
    by_seed = {label: [value] * 3 for label, value in rows.items()} | {"tau-2": [0.7, 0.71, 0.72]}
    tau, beta = {"row": "tau-1", "range": ["tau-2", "tau-3"]}, {"row": "beta-1", "range": ["beta-2"]}
    return varied(project, by_seed, "FDSE-C15.1", of_fdse(tau, beta))


def test_a_range_over_rows(project: Project, ranges: Collected) -> None:
    (verdict,) = verdicts(project.workspace, ranges)
    assert verdict.statement == "range of tau-1, tau-2, tau-3 > range of beta-1, beta-2, all"
    mean = round(verdict.differences[0].mean, 3)
    assert (mean, verdict.verdict) == (16, "as published")  # 20, 21, 22 less 5


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
    assert (verdict.differences[0].mean, verdict.verdict) == (mean, "open")


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


def test_a_row_of_a_range_that_is_not_there(project: Project, ranges: Collected) -> None:
    path = project.workspace.root / "experiments" / "toy.yaml"
    path.write_text(path.read_text().replace("- beta-2", "- beta-9"))
    with pytest.raises(FedshiftError, match="beta-9"):
        collect(project.workspace, "toy")


def test_the_share_of_clients_that_a_row_leads(project: Project) -> None:
    project.declare(methods={"fedavg": None, "local": None}, axes={"seed": [0, 1]})
    values = [{"fedavg": (0.5, 0.7), "local": (0.4, 0.9)}, {"fedavg": (0.5, 0.7), "local": (0.5, 0.6)}]
    for seed, methods in enumerate(values):
        for method, clients in methods.items():
            project.add(method, {1: accuracy(clients)}, seed=seed)
    assert leading(project.collect(), "accuracy").tolist() == [50, 50, 100, 50]  # equals lead together


def test_no_row_leads_where_a_planned_one_has_not_finished(project: Project) -> None:
    """At seed 1 fedprox, which may be the best, is still to come."""
    project.declare(methods=dict.fromkeys(["fedavg", "local", "fedprox"]), axes={"seed": [0, 1]})
    for method, clients in (("fedavg", (0.5, 0.7)), ("local", (0.4, 0.6)), ("fedprox", (0.6, 0.6))):
        for seed in (0, 1):
            finished = {1: accuracy(clients)} if (method, seed) != ("fedprox", 1) else None
            project.add(method, finished, seed=seed)
    shares = leading(project.collect(), "accuracy")
    assert shares.fillna(-1).tolist() == [50, -1, 0, -1, 50, -1]


def test_a_row_alone_leads_nobody(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    project.add("fedavg", {1: accuracy((0.5, 0.5))}, seed=0)
    assert leading(project.collect(), "accuracy").isna().tolist() == [True]


def test_confidence_when_right_and_when_wrong() -> None:
    wrong, right, confidence = np.zeros((1, 20)), np.zeros((1, 20)), np.zeros((1, 20))
    wrong[0, 4], right[0, 4], confidence[0, 4] = 3, 1, 0.92  # mean 0.23
    right[0, 18], confidence[0, 18] = 1, 0.93
    assert ConfidenceWrong.compute(wrong, right, confidence).tolist() == [pytest.approx(0.23)]
    assert ConfidenceRight.compute(wrong, right, confidence).tolist() == [pytest.approx((0.23 + 0.93) / 2)]


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
