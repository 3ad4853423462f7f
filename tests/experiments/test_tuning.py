"""The search of an experiment: what a space holds, which points are tried, and the search as an experiment of its own."""

import itertools
from collections import Counter
from typing import Any

import pytest
from pydantic import ValidationError

from fedshift.common.errors import FedshiftError
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.experiments.protocols import Space
from fedshift.experiments.schema import Experiment
from fedshift.experiments.tuning import Choice, Chosen, Trial, check_places, points, stage, trials, unequal
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT

RATE = Space(low=0.001, high=1.0)
MU = Space(values=[0.01, 0.1, 1.0])


@pytest.mark.parametrize(
    "wrong",
    [{}, {"values": []}, {"low": 1.0}, {"low": 1.0, "high": 0.5}, {"low": 0.0, "high": 1.0}, {"values": [1], "low": 1.0}, {"low": 1.0, "high": 2.0, "scale": "log2"}],
)  # fmt: skip
def test_what_is_no_space_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Space.model_validate(wrong)


def test_a_grid_is_all_points_in_the_order_of_its_lists() -> None:
    found = points({"a": MU, "b": Space(values=[1, 2])}, "grid", "x")
    assert found == [{"a": a, "b": b} for a, b in itertools.product(MU.values, [1, 2])]
    assert points({}, "grid", "x") == [{}]


@pytest.mark.parametrize("budget", [1, 4, 9])
def test_as_many_different_points_as_the_budget(budget: int) -> None:
    for spaces in ({"a": MU, "b": MU}, {"rate": RATE}, {"rate": RATE, "a": MU}):
        found = points(spaces, budget, "x")
        assert len(found) == budget == len({str(point) for point in found})
        assert all(point[key] in space for point in found for key, space in spaces.items())


def test_a_space_with_fewer_points_than_the_budget_is_refused() -> None:
    """Else its row would be tuned less than the others, and nobody would see it."""
    with pytest.raises(FedshiftError, match=r"row: has 9 points to search \(a, b\), and the budget is 10"):
        points({"a": MU, "b": MU}, 10, "row")
    with pytest.raises(FedshiftError, match="has 1 points"):
        points({}, 2, "row")
    with pytest.raises(FedshiftError, match="and the budget is 1000"):
        points({"rate": Space(low=0.1, high=0.2)}, 1000, "row")  # two digits: eleven values


def test_a_larger_budget_keeps_the_points_of_a_smaller_one() -> None:
    """The runs of a search that is made larger are there already."""
    spaces = {"rate": RATE, "a": MU}
    assert points(spaces, 5, "x") == points(spaces, 12, "x")[:5]


def test_points_cover_a_range_evenly() -> None:
    """Each quarter of a range has a quarter of 16 points, give or take one that rounding moves over an edge."""
    rates = [point["v"] for point in points({"v": Space(low=0.001, high=10.0)}, 16, "x")]
    assert all(3 <= sum(10.0**k <= rate < 10.0 ** (k + 1) for rate in rates) <= 5 for k in range(-3, 1))
    linear = [point["v"] for point in points({"v": Space(low=0.0, high=4.0, scale="linear")}, 16, "x")]
    assert all(3 <= sum(k <= value < k + 1 for value in linear) <= 5 for k in range(4))
    assert all(float(f"{value:.2g}") == value for value in (*rates, *linear))


WORKSPACE = Workspace(ROOT)


def declared(**keys: Any) -> Experiment:
    """An experiment on digits, tuned with four points a row."""
    tune = {"budget": 4, "seeds": [100, 101], **keys.pop("tune", {})}
    plain: dict[str, Any] = {
        "name": "toy",
        "title": "Toy",
        "protocol": "digits",
        "methods": {"fedavg": None, "fedprox": None},
        "axes": {"target": ["plain", "ink"], "seed": [0, 1]},
    }
    return Experiment.model_validate({**plain, "tune": tune, **keys})


def found(experiment: Experiment) -> list[Trial]:
    return trials(WORKSPACE, experiment)


def staged(experiment: Experiment) -> Experiment:
    return stage(WORKSPACE, experiment)


def test_papers_grids_are_what_they_print() -> None:
    """FDSE: 5 learning rates by each method's own values, 210 runs a data set. hFedF: Table 10, 468."""
    grid = {"budget": "grid", "seeds": [7]}
    fdse = load(WORKSPACE, "fdse/tuned").model_copy(update={"tune": declared(tune=grid).tune})
    counts = Counter(trial.row for trial in found(fdse))
    assert counts == {
        **dict.fromkeys(["local", "fedavg", "lgfedavg", "scaffold", "partialfed", "fedbn", "fedfa"], 5),
        "fedprox": 25, "feddyn": 20, "moon": 20, "ditto": 25, "fedheal": 25, "fdse": 60,
    }  # fmt: skip
    assert counts.total() == 210
    like = {"central": "fedavg", "local": "fedavg"}
    hfedf = load(WORKSPACE, "hfedf/table2").model_copy(
        update={"tune": declared(tune={**grid, "like": like}).tune}
    )
    counts = Counter(trial.row for trial in found(hfedf))
    assert counts == {
        "fedavg": 9, "fedprox": 27, "pfedhn": 81, "fedsr": 27, "fedgma": 81, "hfedf": 243,
    }  # fmt: skip
    assert counts.total() == 468
    assert unequal(found(hfedf)) == counts and unequal(found(declared())) == {}


def test_what_a_row_or_an_axis_sets_is_not_searched() -> None:
    methods = {"fedprox-strong": {"method": {"name": "fedprox", "params": {"mu": 1.0}}}, "fedprox": None}
    tried = found(declared(methods=methods, axes={"method.params.mu": [0.1], "seed": [0]}))
    assert {tuple(trial.values) for trial in tried} == {("local.lr",)}
    tried = found(declared(methods=methods))
    assert {len(trial.values) for trial in tried if trial.row == "fedprox-strong"} == {1}
    assert {len(trial.values) for trial in tried if trial.row == "fedprox"} == {2}


def test_the_search_has_seeds_rounds_and_values_of_its_own() -> None:
    tune = {"spec": {"federation": {"rounds": 3}}, "axes": {"target": ["ink"]}}
    cells = expand(WORKSPACE, staged(declared(tune=tune)))
    assert len(cells) == 2 * 4 * 2  # rows, points, seeds; one target
    assert {(cell.axes["target"], cell.axes["seed"]) for cell in cells} == {("ink", 100), ("ink", 101)}
    assert {cell.spec.federation.rounds for cell in cells} == {3}
    assert {cell.spec.evaluation.keep for cell in cells} == {"none"}
    for trial in found(declared(tune=tune)):
        (spec, _) = (cell.spec for cell in cells if cell.label == trial.label)
        assert spec.local.lr == trial.values["local.lr"]
        assert spec.method.name == trial.row


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"tune": {"seeds": [0]}}, "tune.seeds: 0 is a seed of the final runs, too"),
        ({"tune": {"seeds": [15]}, "protocol": "fdse", "axes": {"seed": "all"}}, "15 is a seed of the final"),
        ({"tune": {"axes": {"seed": [1]}}}, "unknown axis that may be tuned together 'seed'"),
        ({"tune": {"axes": {"target": []}}}, r"tune.axes.target: has no value\n  List values"),
        ({"tune": {"like": {"fedavg": "fedporx"}}}, "unknown row of this experiment 'fedporx'"),
        ({"tune": {"like": {"fedavg": "fedprox", "fedprox": "fedavg"}}}, "is not tuned itself"),
        ({"methods": {"any": None}, "axes": {"method.name": ["fedavg"], "seed": [0]}}, "varies the method"),
    ],
)
def test_a_search_that_cannot_be_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(FedshiftError, match=message):
        found(declared(**keys))


def test_a_final_run_without_a_search_at_its_place_is_refused() -> None:
    experiment = declared(tune={"axes": {"target": ["plain"]}})
    final = [("fedavg", {"target": "plain", "data": "a"}), ("fedavg", {"target": "ink", "data": "b"})]
    with pytest.raises(FedshiftError, match=r"tune.axes: leaves no run to tune 'fedavg' at \{'data': 'b'\}"):
        check_places(experiment, final, [("fedavg", {"target": "plain", "data": "a"})])
    check_places(experiment, final[:1], [("fedavg", {"target": "plain", "data": "a"})])


def test_chosen_values_enter_the_final_runs_specifications() -> None:
    experiment = declared(tune={"like": {"fedavg": "fedprox"}})
    told: dict[str, Any] = {"row": "fedprox", "validation": 50.0, "points": 4, "failed": 0, "runs": []}
    entries = [
        Chosen(where={"target": target}, values={"local.lr": rate}, **told)
        for target, rate in (("plain", 0.3), ("ink", 0.4))
    ]
    cells = expand(WORKSPACE, experiment, Choice(rule="last", chosen=entries))
    assert {(cell.label, cell.axes["target"], cell.spec.local.lr) for cell in cells} == {
        (row, target, rate)
        for row in ("fedavg", "fedprox")
        for target, rate in (("plain", 0.3), ("ink", 0.4))
    }
    with pytest.raises(FedshiftError, match="nothing was chosen for 'fedprox'"):
        expand(WORKSPACE, experiment, Choice(rule="last", chosen=entries[:1]))
