"""Declared hypotheses, judged by their runs: intervals by hand, verdicts, what is refused."""

import math

import numpy as np
import pytest
from scipy.stats import t as student

from fedshift.analysis import hypotheses
from fedshift.analysis.verdicts import Interval
from fedshift.common.errors import FedshiftError
from fedshift.experiments.load import load
from fedshift.experiments.schema import Hypothesis
from tests.verbs import done, fedshift

from .conftest import Project

DOMAINS, SEEDS = ("ink", "plain"), (0, 1, 2)
OOD = {  # method -> domain by seed
    "fedavg": [[0.50, 0.52, 0.48], [0.60, 0.61, 0.58]],
    "fedbn": [[0.58, 0.59, 0.57], [0.66, 0.69, 0.66]],
    "ditto": [[0.49, 0.53, 0.49], [0.60, 0.62, None]],  # the last run is missing
}
DECLARED = {
    "above": {"text": "FedBN is above FedAvg.", "compare": "fedbn > fedavg"},
    "own": {"text": "The same.", "compare": "fedbn > fedavg", "spread": "pair", "level": 0.01},
    "level": {"text": "Ditto is level.", "compare": "ditto ~ fedavg", "margin": {"digits": 9}},
    "below": {"text": "FedAvg is above FedBN.", "compare": "fedavg > fedbn"},
}


def test_intervals_and_verdicts(project: Project) -> None:
    values = {
        (method, domain, seed): OOD[method][place][seed]
        for method in OOD
        for place, domain in enumerate(DOMAINS)
        for seed in SEEDS
    }
    collected = project.trained(values, tables={"t": {}}, hypotheses=DECLARED)
    above, own, level, below = hypotheses.judge(collected).itertuples()

    means = {
        method: [100 * np.mean([of[seed] for of in OOD[method]]) for seed in SEEDS]
        for method in ("fedavg", "fedbn")
    }
    gaps = np.subtract(means["fedbn"], means["fedavg"])
    # two rows that are whole, three seeds: what methods and seeds leave, (2 - 1)(3 - 1) degrees of freedom
    table = np.array([*means.values()])
    left = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
    half = student.ppf(0.975, 2) * math.sqrt((left**2).sum() / 2) * math.sqrt(2 / 3)
    assert (above.difference, above.low, above.high) == pytest.approx(
        (gaps.mean(), gaps.mean() - half, gaps.mean() + half)
    )
    assert (above.seeds, above.planned, above.verdict) == (3, 3, "confirmed")
    half = student.ppf(0.995, 2) * gaps.std(ddof=1) / math.sqrt(3)
    assert (own.difference, own.low, own.high) == pytest.approx(
        (gaps.mean(), gaps.mean() - half, gaps.mean() + half)
    )
    assert (level.seeds, level.verdict) == (2, "confirmed") and below.verdict == "refuted"
    assert level.difference == pytest.approx(100 * (0.5600 - 0.5575))

    shown = done(fedshift(project.workspace.root, "table", "toy"))
    assert f"confirmed: fedbn > fedavg on digits: {gaps.mean():+.1f}" in shown and "(2 of 3 seeds)" in shown
    page = (project.workspace.tables("toy") / "table.md").read_text()
    assert "## Hypotheses" in page and "| fedavg > fedbn" in page


@pytest.mark.parametrize(
    ("relation", "low", "high", "word"),
    [
        (">", 0.1, 2.0, "confirmed"),
        (">", -2.0, -0.1, "refuted"),
        (">", -0.1, 2.0, "open"),
        ("~", -2.9, 2.9, "confirmed"),
        ("~", 0.5, 2.9, "confirmed"),  # different, and within the margin
        ("~", -3.1, 2.9, "open"),
        ("~", 3.1, 9.0, "refuted"),
        ("~", -9.0, -3.1, "refuted"),
        ("~", math.nan, math.nan, "open"),  # one seed
    ],
)
def test_the_word(relation: str, low: float, high: float, word: str) -> None:
    hypothesis = Hypothesis(text="", compare=f"a {relation} b", margin={"pacs": 3})
    assert hypotheses.outcome(hypothesis, "pacs", Interval(1.0, low, high)) == word
    assert hypotheses.outcome(hypothesis, "pacs", Interval(math.nan)) == "not run"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"compare": "fedbn > fedvag"}, "'fedvag' is not a row"),
        ({"compare": "fedbn ~ fedavg"}, "requires a margin"),
        ({"compare": "fedbn = fedavg"}, "compare"),
    ],
)
def test_mistakes(project: Project, keys: dict[str, str], message: str) -> None:
    declared = {"wrong": {"text": "Wrong.", **keys}}
    project.declare(methods={"fedavg": None, "fedbn": None}, axes={"target": ["ink"]}, hypotheses=declared)
    with pytest.raises(FedshiftError, match=message):
        load(project.workspace, "toy")


def test_rows_are_compared_where_both_are_planned(project: Project) -> None:
    """FedBN is planned on `plain` alone, where it is 10 points below FedAvg, whose mean over domains is lower."""
    ood = {
        ("fedavg", "ink"): 0.3,
        ("fedavg", "texture"): 0.5,
        ("fedavg", "plain"): 0.9,
        ("fedbn", "plain"): 0.8,
    }
    values = {(*place, seed): value + seed / 100 for place, value in ood.items() for seed in SEEDS}
    declared = {"above": DECLARED["above"], "own": DECLARED["own"]}
    for one in hypotheses.judge(project.trained(values, hypotheses=declared)).itertuples():
        assert (one.difference, one.seeds) == (pytest.approx(-10), 3)


def test_an_experiment_without_seeds(project: Project) -> None:
    values = {("fedavg", "ink"): 0.5, ("fedbn", "ink"): 0.6}
    (one,) = hypotheses.judge(
        project.trained(values, ("target",), hypotheses={"above": DECLARED["above"]})
    ).itertuples()
    assert (one.difference, one.seeds, one.verdict) == (pytest.approx(10), 1, "open")


def test_a_row_that_is_not_planned(project: Project) -> None:
    methods, level = dict.fromkeys(("fedavg", "ditto")), {"level": DECLARED["level"]}
    found = project.trained({("fedavg", "ink", 0): 0.5}, methods=methods, hypotheses=level)
    (one,) = hypotheses.judge(found).itertuples()
    assert (one.seeds, one.verdict) == (0, "not run")
