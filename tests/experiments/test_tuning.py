"""The search of an experiment as an experiment of its own: its points, seeds and places."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load, protocol, trials
from fedshift.experiments.schema import Experiment
from fedshift.experiments.tuning import Choice, Chosen, Trial, check_places, place, stage, unequal
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT

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
    return stage(experiment, protocol(WORKSPACE, experiment.protocol), found(experiment))


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


def test_a_row_with_too_few_points_is_refused() -> None:
    space = {"fedavg": {"local.lr": [0.1, 0.2]}}
    with pytest.raises(FedshiftError, match=r"toy\.yaml: tune: fedavg: has 2 points"):
        found(declared(tune={"space": space}))


def test_a_file_searches_what_it_likes() -> None:
    space = {"*": {"local.lr": [0.1, 0.2, 0.3, 0.4]}, "fedprox": {"method.params.mu": None}}
    tried = found(declared(tune={"space": space}))
    assert {tuple(trial.values) for trial in tried} == {("local.lr",)}
    assert {trial.values["local.lr"] for trial in tried if trial.row == "fedprox"} == {0.1, 0.2, 0.3, 0.4}


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
        ({"tune": {"seeds": [1]}}, "tune.seeds: 1 is a seed of the final runs, too"),
        ({"tune": {"seeds": [15]}, "protocol": "fdse", "axes": {"seed": "all"}}, "15 is a seed of the final"),
        ({"tune": {"axes": {"seed": [1]}}}, "unknown axis that may be tuned together 'seed'"),
        ({"tune": {"axes": {"target": []}}}, r"tune.axes.target: has no value\n  List values"),
        ({"tune": {"like": {"fedavg": "fedporx"}}}, "unknown row of this experiment 'fedporx'"),
        ({"tune": {"like": {"fedavg": "fedprox", "fedprox": "fedavg"}}}, "is not tuned itself"),
        ({"tune": {"space": {"fedporx": {}}}}, "Did you mean 'fedprox'"),
        ({"methods": {"any": None}, "axes": {"method.name": ["fedavg"], "seed": [0]}}, "varies the method"),
    ],
)
def test_a_search_that_cannot_be_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(FedshiftError, match=message):
        found(declared(**keys))


def test_axes_that_are_tuned_together_have_one_choice() -> None:
    together = declared(tune={"axes": {"target": ["ink"]}})
    point = {"target": "plain", "validation": "ink", "d": 1, "seed": 0}
    assert place(together, point) == {"d": 1}
    assert place(declared(), point) == {"target": "plain", "validation": "ink", "d": 1}


def test_a_final_run_without_a_search_at_its_place_is_refused() -> None:
    experiment = declared(tune={"axes": {"target": ["plain"]}})
    final = [("fedavg", {"target": "plain", "data": "a"}), ("fedavg", {"target": "ink", "data": "b"})]
    with pytest.raises(FedshiftError, match=r"tune.axes: leaves no run to tune 'fedavg' at \{'data': 'b'\}"):
        check_places(experiment, final, [("fedavg", {"target": "plain", "data": "a"})])
    check_places(experiment, final[:1], [("fedavg", {"target": "plain", "data": "a"})])


def test_chosen_values_enter_the_final_runs_specifications() -> None:
    experiment = declared(tune={"like": {"fedavg": "fedprox"}})
    entries = [
        Chosen(
            row="fedprox",
            where={"target": target},
            values={"local.lr": rate},
            validation=50.0,
            points=4,
            failed=0,
            runs=[],
        )
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
