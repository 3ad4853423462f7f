"""Sides of claims: values of an axis, sums, rounds, rows of another experiment, costs."""

import itertools
import math
from typing import Any

import pandas as pd
import pytest

from fedshift.analysis.claims.comparison import Comparison, Printed
from fedshift.analysis.claims.judge import UNSHARED, estimate, outcome, summed
from fedshift.common.errors import FedshiftError
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.storage.workspace import Workspace

from ..conftest import REFERENCE, Project, accuracy
from ..judging import Verdict, judged, less_by, told, verdicts

SAMPLES = {"samples": [0, 20], "seed": [0, 1, 2]}
ZERO, MANY = [0.40, 0.41, 0.42], [0.50, 0.52, 0.51]


def side(**where: Any) -> dict[str, Any]:
    return {"row": "fedavg", "where": where}


def sampled(project: Project, name: str, rows: dict[str, Any], **claim: Any) -> Verdict:
    return judged(project, name, {"fedavg": ZERO + MANY}, SAMPLES, rows=rows, **claim)


@pytest.mark.parametrize(
    ("more", "less", "mean", "verdict"), [(20, 0, 10, "as published"), (0, 20, -10, "against")]
)
def test_a_value_of_an_axis_against_another(
    project: Project, more: int, less: int, mean: float, verdict: str
) -> None:
    rows = {"FedAvg (many shots)": side(samples=more), "FedAvg (0 shots)": side(samples=less)}
    one = sampled(project, "HF-C33.1", rows)
    (against,) = one.differences
    assert (against.difference, against.seeds, one.verdict) == (pytest.approx(mean), 3, verdict)
    assert one.statement == f"fedavg (samples {more}) > fedavg (samples {less}), ood"


def test_a_gain_of_gains_against_a_number(project: Project) -> None:
    """HF-C34.1: ood grows by 10 points, id by none, as the toy has it: 10 less 0 is above 0."""
    gain = {
        **side(samples=20),
        "plus": [{**side(samples=0), "metric": "id"}],
        "minus": [side(samples=0), {**side(samples=20), "metric": "id"}],
    }
    one = sampled(project, "HF-C34.1", {"FedAvg": gain})
    (against,) = one.differences
    assert (against.difference, against.right, one.verdict) == (pytest.approx(10), "0", "as published")


@pytest.mark.parametrize(("margin", "verdict"), [(12.0, "as published"), (9.0, "open"), (5.0, "against")])
def test_a_gain_that_is_as_large_as_a_number(project: Project, margin: float, verdict: str) -> None:
    """HF-C38.1: ~ +1.3. Gains of 10, 11 and 9 points: 8.7 more, between 6.2 and 11.2."""
    less = {**side(samples=20), "minus": [side(samples=0)]}
    one = sampled(project, "HF-C38.1", {"w/o EMA": less}, margin=margin)
    assert (one.differences[0].difference, one.verdict) == (pytest.approx(8.7), verdict)


def test_what_a_subtracted_side_subtracts_is_added(project: Project) -> None:
    """HF-C38.1: ~ +1.3. Of 51 points, (41 - 41) are subtracted."""
    less = {**side(samples=20), "minus": [{**side(samples=0), "minus": [side(samples=0)]}]}
    one = sampled(project, "HF-C38.1", {"w/o EMA": less})
    assert one.differences[0].difference == pytest.approx(51 - 1.3)


@pytest.mark.parametrize(
    ("shifts", "verdict"),
    [
        # What rows and seeds leave is 0.505 of 10 degrees of freedom: of five, 1% is at 1.31, 5% at 0.92.
        ([(-1, -1.2, -1.1)] + [(5, 4, 6)] * 4, "open"),
        ([(-1, -2, -1.5)] + [(5, 4, 6)] * 4, "as published"),  # below one of five
        ([(5, 4, 6)] * 5, "against"),
        ([(0.1, -0.1, 0)] + [(5, 4, 6)] * 4, "open"),
    ],
)
def test_less_than_the_best_is_less_than_one(
    project: Project, shifts: list[tuple[float, ...]], verdict: str
) -> None:
    """HF-C03.1: hFedF < max(...): it falls short of the best, not of each."""
    others = ("fedavg", "fedprox", "pfedhn", "fedsr", "fedgma")
    ood = {name: less_by(*shift) for name, shift in zip(others, shifts, strict=True)}
    one = judged(project, "HF-C03.2", {"hfedf": less_by(0, 0, 0), **ood})
    assert (one.verdict, one.statement) == (verdict, "hfedf < the best of 5, ood")


def curve(*ood: float) -> Any:
    return {place: accuracy((0.5, 0.5), ood=value) for place, value in enumerate(ood, 1)}


CURVES = {
    "hfedf": curve(0.1, 0.5, 0.6, 0.6),  # mean 45, steps 40, 10, 0
    "fedavg": curve(0.3, 0.3, 0.5, 0.3),  # mean 35, steps 0, 20, -20
}


@pytest.mark.parametrize(
    ("rounds", "metric", "difference"),
    [
        ("round 1", "ood", -20),
        ("round 2", "ood", 20),
        ("mean", "ood", 10),
        ("selected", "ood", 30),
        ("fluctuation", "ood", math.sqrt(2600 / 9) - math.sqrt(800 / 3)),
        ("selected", "rounds_to.ood=45", -1),
        ("round 9", "ood", math.nan),
    ],
)
def test_what_curves_say(project: Project, rounds: str, metric: str, difference: float) -> None:
    runs = {(method, seed): points for method, points in CURVES.items() for seed in (0, 1)}
    found = project.trained(runs, ("seed",), claims={"HF-C04.1": {"metric": metric, "rounds": rounds}})
    (one,) = verdicts(Workspace(REFERENCE.parent), found)
    (against,) = one.differences
    assert against.difference == pytest.approx(difference, nan_ok=True)
    assert against.seeds == (0 if math.isnan(difference) else 2)


@pytest.mark.parametrize(
    ("metric", "mean", "late"), [("rounds_to.ood=55", 3 - 5, 2), ("rounds_to.ood=90", 0, 4)]
)
def test_a_run_that_never_gets_there_is_later_than_one_that_does(
    project: Project, metric: str, mean: float, late: int
) -> None:
    """hfedf gets to 55% in its third of four rounds, fedavg in none: that counts as the fifth. To 90% gets neither."""
    runs = {(method, seed): rounds for method, rounds in CURVES.items() for seed in (0, 1)}
    runs |= {(method, 2): None for method in CURVES}
    found = project.trained(runs, ("seed",), claims={"HF-C04.1": {"metric": metric}})
    (one,) = verdicts(Workspace(REFERENCE.parent), found)
    (against,) = one.differences
    assert (against.seeds, against.planned, against.late) == (2, 3, late)
    assert against.difference == pytest.approx(mean)
    if metric == "rounds_to.ood=55":
        said = "fedavg -2.0, 2 seeds of 3: the others lack a run (2 runs never get there): the same in each"
        assert told(one).startswith(said)


@pytest.mark.parametrize("collect", [True, False])
def test_a_row_of_another_experiment(project: Project, collect: bool) -> None:
    """SF-C06.1: more than in another table. Not collected, it is no seed; what it has on target b does not count."""
    axes = {"target": ["a", "b"], "seed": [0, 1, 2]}
    project.declare("other", methods={"fedavg": None}, axes=axes)
    for target, values in (("a", ZERO), ("b", [0.9] * 3)):
        for seed, value in enumerate(values):
            project.add("fedavg", {1: accuracy((0.5, 0.5), ood=value)}, target=target, seed=seed)
    if collect:
        project.collect()
    project.runs, project.cells = [], []
    there = {"row": "fedavg", "experiment": "other", "where": {"target": "a"}}
    claim = {"metric": "ood", "rows": {"item 2b:FedAvg": "fedprox", "item 1a:FedAvg": there}}
    many = {("fedprox", seed): value for seed, value in enumerate(MANY)}
    found = project.trained(many, ("seed",), claims={"SF-C06.1": claim})
    (one,) = verdicts(project.workspace, found)
    (against,) = one.differences
    assert against.right == "fedavg (a, other)"
    if collect:
        assert (against.difference, against.seeds, one.verdict) == (pytest.approx(10), 3, "as published")
    else:
        assert (against.seeds, against.planned, one.verdict) == (0, 0, "not run")


def test_each_of_several_with_each_of_several(project: Project) -> None:
    """SF-C17.1: any value of alpha, against all baselines."""
    shifts = {"fedavg": (3, 2, 4), "fedprox": (2, 3, 2), "hfedf": (0, 0, 0), "fedsr": (1, 1, 1)}
    ood = {name: less_by(*of) for name, of in shifts.items()}
    rows = {"StableFDG (any alpha)": ["hfedf", "fedsr"], "baselines": ["fedavg", "fedprox"]}
    one = judged(project, "SF-C17.1", ood, rows=rows)
    assert one.statement == "each of 2 > each of 2, ood"
    assert [(each.right, round(each.difference, 6)) for each in one.differences] == [
        ("hfedf and fedavg", 3),
        ("hfedf and fedprox", pytest.approx(7 / 3, abs=1e-5)),
        ("fedsr and fedavg", 2),
        ("fedsr and fedprox", pytest.approx(4 / 3, abs=1e-5)),
    ]


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({"rounds": "last"}, "rounds"),
        ({"rounds": "round 40x"}, "rounds"),
        ({"rounds": "meaningless"}, "rounds"),
        ({"rows": {"FedAvg": {"row": "fedavg", "rounds": "round 40x"}}}, "rounds"),
        ({"rows": {"FedAvg": {"row": "fedagv"}}}, "'fedagv'"),
        ({"rows": {"FedAvg": side(smples=0)}}, "'samples'"),
        ({"rows": {"FedAvg": {**side(), "minus": [side(samples=2)]}}}, "unknown value of this axis '2'"),
        ({"metric": "rounds_to.oodd=40"}, "'oodd'"),
    ],
)
def test_a_side_that_is_nowhere_is_refused(project: Project, claim: dict[str, Any], said: str) -> None:
    axes = {"samples": {"key": "local.epochs", "values": [1, 20]}}
    project.declare(
        methods={"fedavg": None, "hfedf": None}, axes=axes, claims={"HF-C04.1": {"metric": "id", **claim}}
    )
    with pytest.raises(FedshiftError, match=said):
        expand(project.workspace, load(project.workspace, "toy"))


# ---- paired differences: which runs are pairs, and what their sums are


def test_pairs_are_named_by_the_axes_that_vary() -> None:
    pairs = pd.DataFrame({"d": 1, "target": ["a", "b"], "seed": 0, "difference": [10.0, 20.0]})
    assert estimate(pairs)["pairs"] == {"a": 10, "b": 20}
    assert estimate(pairs[:1])["pairs"] == {"1, a": 10}
    assert estimate(pairs.assign(d=[1, 2]))["pairs"] == {"1, a": 10, "2, b": 20}
    assert estimate(pairs.assign(target=["", "b"]))["pairs"] == {"": 10, "b": 20}  # an empty value is one


def runs_of(values: list[float], **axes: list[Any]) -> pd.DataFrame:
    """One row for each combination of axes, the last fastest."""
    points = itertools.product(*axes.values())
    rows = [dict(zip(axes, point, strict=True)) for point in points]
    return pd.DataFrame(rows).assign(value=values)


def paired(*sides: tuple[float, pd.DataFrame], constant: float = 0.0) -> pd.DataFrame:
    """The sum of factors times frames, without the axes that are none of the sum."""
    cells = [str(place) for place in range(len(sides))]
    factors = [factor for factor, _ in sides]
    terms = pd.DataFrame({"pair": 0, "cell": cells, "method": "m", "factor": factors, "constant": constant})
    runs = pd.concat(
        [of.astype(object).assign(cell=cell, method="m") for cell, (_, of) in zip(cells, sides, strict=True)]
    )
    found = summed(terms, runs.astype({"value": float}), ["pair"]).drop(columns="pair")
    return found.loc[:, (found != UNSHARED).all()]


def test_a_sum_has_the_signs_of_its_factors_and_its_constant() -> None:
    left, right = runs_of([5.0, 7.0], seed=[0, 1]), runs_of([2.0, 1.0], seed=[0, 1])
    pairs = paired((1.0, left), (-1.0, right), constant=-0.5)
    assert pairs["difference"].tolist() == [2.5, 5.5]
    assert paired((0.5, left), (2.0, right))["difference"].tolist() == [6.5, 5.5]
    assert paired((1.0, left), constant=1.0)["difference"].tolist() == [6.0, 8.0]


def test_pairs_share_the_axes_on_which_they_share_values() -> None:
    """Targets a and b against b and c: b alone is a pair. Methods at other values of d are averaged over it."""
    left = runs_of([1.0, 2.0], target=["a", "b"], seed=[0])
    right = runs_of([10.0, 20.0], target=["b", "c"], seed=[0])
    pairs = paired((1.0, left), (-1.0, right))
    assert pairs.to_dict("records") == [{"target": "b", "seed": 0, "difference": -8.0}]
    many, few = runs_of([3.0, 5.0, 4.0], d=[1, 2, 3], seed=[0]), runs_of([1.0], d=[4], seed=[0])
    pairs = paired((1.0, many), (-1.0, few))
    assert pairs.to_dict("records") == [{"seed": 0, "difference": 3.0}]
    elsewhere = runs_of([1.0, 3.0], epochs=[1, 5], seed=[0])  # an axis that the left side has not
    assert paired((1.0, left), (-1.0, elsewhere))["difference"].tolist() == [-0.5]


def test_a_missing_run_makes_its_average_missing_and_another_seed_no_pair() -> None:
    left = runs_of([1.0, math.nan, 3.0, 4.0], seed=[0, 1], epochs=[1, 5])
    right = runs_of([1.0, 1.0], seed=[1, 2])
    pairs = paired((1.0, left), (-1.0, right))
    assert pairs.to_dict("records") == [{"seed": 1, "difference": 2.5}]
    both = paired((1.0, left), (-1.0, runs_of([1.0, 1.0], seed=[0, 1])))
    assert both["difference"].isna().tolist() == [True, False]


def test_nothing_collected_is_no_seed() -> None:
    nothing = pd.DataFrame({"seed": [], "value": []})
    pairs = paired((1.0, runs_of([1.0], seed=[0])), (-1.0, nothing))
    against = estimate(pairs)
    assert (against["seeds"], against["planned"]) == (0, 0)
    assert math.isnan(against["difference"]) and math.isnan(against["low"])


NOISE = (0.1 + 0.2) - 0.3


@pytest.mark.parametrize("by_seed", [(3.0, 3.0), (NOISE, NOISE), (0.0, 0.0, 0.0)])
def test_seeds_that_are_alike_have_an_interval_only_of_what_is_counted(by_seed: tuple[float, ...]) -> None:
    pairs = pd.DataFrame({"seed": range(len(by_seed)), "difference": by_seed})
    measured, counted = estimate(pairs), estimate(pairs, exact=True)
    assert math.isnan(measured["low"]) and math.isnan(measured["high"])
    assert counted["low"] == counted["high"] == counted["difference"] == by_seed[0]


@pytest.mark.parametrize(
    ("relation", "word"), [(">", "open"), ("<", "open"), (">=", "as published"), ("~", "as published")]
)
def test_a_tie_of_counted_values_is_no_lead(relation: str, word: str) -> None:
    tie = estimate(pd.DataFrame({"seed": [0, 1], "difference": [0.0, 0.0]}), exact=True)
    comparison = Comparison({"relation": relation, "right": "x"}, [], 0.1, tuple)
    assert outcome(comparison, [tie], Printed(math.nan, False, "not printed")) == word
