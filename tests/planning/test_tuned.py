"""The plan of a tuned experiment: both stages, what waits, and that a choice makes the final runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedshift.analysis.collection.uses import UNKNOWN, planned
from fedshift.common.errors import FedshiftError
from fedshift.experiments.choice import Choice, Chosen
from fedshift.experiments.load import load
from fedshift.planning import planfile
from fedshift.planning.plan import plan, specs
from fedshift.planning.request import Request
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT
from tests.verbs import done, fedshift, refused

TUNED = """\
title: Tuned
protocol: digits
tune: {budget: 3, seeds: [100, 101]}
methods: {fedavg: , fedprox: }
axes: {target: [plain, ink], seed: [0, 1]}
"""
REQUEST = Request(("tuned",))
RATES = {"fedavg": 0.25, "fedprox": 0.35}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "reference").symlink_to(ROOT / "reference")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "tuned.yaml").write_text(TUNED)
    return Workspace(tmp_path)


def choose(workspace: Workspace, path: Path, rates: dict[str, float]) -> Path:
    """Write what the plan's search is said to have chosen."""
    (choosing,) = planfile.choices(path)
    found = workspace.choices("tuned") / f"{choosing.key}.json"
    entries = [
        Chosen(row, {"target": target}, {"local.lr": rate}, 50.0, 3, 0)
        for row, rate in rates.items()
        for target in ("plain", "ink")
    ]
    Choice("last", entries).write(found)
    return found


def final(path: Path) -> set[tuple[str, float, int]]:
    """Method, learning rate and seed of what the plan trains for the experiment itself."""
    runs = planfile.runs(path, experiments=("tuned",))
    loaded = [RunSpec.model_validate_json(run.spec) for run in runs]
    return {(spec.method.name, spec.local.lr, spec.seed) for spec in loaded}


def test_before_the_choice_the_search_is_planned_and_the_rest_waits(workspace: Workspace) -> None:
    path = plan(workspace, REQUEST)
    assert len(planfile.runs(path)) == 2 * 3 * 2 * 2  # rows, points, targets, seeds
    assert {cell.experiment for cell in planfile.cells(path)} == {"tuned.tuning"}
    assert [(one.experiment, one.made) for one in planfile.choices(path)] == [("tuned", False)]
    assert {name: len(runs) for name, runs in planfile.waiting(path).items()} == {"tuned": 8}
    assert {run.seed for run in planfile.runs(path)} == {100, 101}
    assert len(specs(workspace, REQUEST)) == 24 + 8
    with pytest.raises(FedshiftError, match="wait for what its tuning chooses"):
        planned(workspace, load(workspace, "tuned"), path)


def test_without_a_choice_no_untuned_run_stands_in_for_a_tuned_one(workspace: Workspace) -> None:
    uses = planned(workspace, load(workspace, "tuned"), None)
    assert len(uses) == 8 and all(use.name.startswith(UNKNOWN) for use in uses)


def test_the_choice_makes_the_final_runs_and_another_makes_others(workspace: Workspace) -> None:
    before = plan(workspace, REQUEST)
    choose(workspace, before, RATES)
    assert planfile.last(workspace, REQUEST) is None  # the plan of before is not that of now
    path = plan(workspace, REQUEST)
    assert final(path) == {(row, rate, seed) for row, rate in RATES.items() for seed in (0, 1)}
    assert {run.digest for run in planfile.runs(before)} < {run.digest for run in planfile.runs(path)}
    assert planfile.waiting(path) == {} and planfile.choices(path)[0].made
    names = {use.name for use in planned(workspace, load(workspace, "tuned"), path)}
    assert names == {run.digest for run in planfile.runs(path, experiments=("tuned",))}
    assert {use.name for use in planned(workspace, load(workspace, "tuned"), None)} == names
    choose(workspace, before, {**RATES, "fedavg": 0.3})
    other = plan(workspace, REQUEST)
    assert other != path
    assert final(other) - final(path) == {("fedavg", 0.3, 0), ("fedavg", 0.3, 1)}


def test_another_search_does_not_meet_this_choice(workspace: Workspace) -> None:
    choose(workspace, plan(workspace, REQUEST), RATES)
    assert not planfile.waiting(plan(workspace, REQUEST))
    text = TUNED.replace("[100, 101]", "[100, 102]")
    (workspace.experiments / "tuned.yaml").write_text(text)
    assert len(planfile.waiting(plan(workspace, REQUEST))["tuned"]) == 8


def test_an_experiment_without_tune_has_neither(workspace: Workspace) -> None:
    text = TUNED.replace("tune: {budget: 3, seeds: [100, 101]}\n", "")
    (workspace.experiments / "plain.yaml").write_text(text)
    path = plan(workspace, Request(("plain",)))
    assert (planfile.choices(path), planfile.waiting(path)) == ([], {})
    assert len(planfile.runs(path)) == 8


def test_plan_and_status_count_both_stages(workspace: Workspace) -> None:
    (workspace.root / "params.yaml").write_text("experiments: [tuned]\n")
    told = done(fedshift(workspace.root, "plan"))
    lines = {line.split()[0]: line.split() for line in told.splitlines() if line}
    assert lines["tuned.tuning"][1:4] == ["24", "0", "12"]
    assert lines["tuned"][1:4] == ["8", "0", "4"] and lines["tuned"][-1] == "(wait)"
    assert lines["all,"][4:6] == ["32", "0"]
    assert "tuned: 8 final runs wait for what tuned.tuning chooses" in told
    hours = [float(lines[name][place].lstrip("~")) for name, place in (("tuned.tuning", 6), ("tuned", 6))]
    assert sum(hours) == pytest.approx(float(lines["all,"][9].lstrip("~")), abs=0.11)
    assert "8 wait for what its tuning chooses" in done(fedshift(workspace.root, "status"))
    choose(workspace, plan(workspace, REQUEST), RATES)
    told = done(fedshift(workspace.root, "plan"))
    assert "wait" not in told and "tuned: its settings are chosen" in told
    assert "(wait)" not in done(fedshift(workspace.root, "status"))


def test_unequal_budgets_are_said(workspace: Workspace) -> None:
    text = TUNED.replace("budget: 3", "budget: grid, space: {'*': {local.lr: [0.1, 0.2]}}")
    (workspace.experiments / "tuned.yaml").write_text(text)
    told = done(fedshift(workspace.root, "plan", "tuned"))
    assert "rows are tuned with different budgets (points): fedavg 2, fedprox 10" in told


def test_a_place_that_is_not_tuned_is_refused_before_anything_is_trained(workspace: Workspace) -> None:
    text = TUNED.replace("seeds: [100, 101]", "seeds: [100], axes: {target: [ink]}")
    (workspace.experiments / "tuned.yaml").write_text(text)
    assert len(planfile.runs(plan(workspace, REQUEST))) == 6  # one choice for both targets
    text = text.replace("methods: {", "only: {fedprox: {d: [2]}}\nmethods: {")
    text = text.replace(
        "axes: {target: [plain", "axes: {d: {key: local.epochs, values: [1, 2]}, target: [plain"
    )
    text = text.replace("axes: {target: [ink]}}", "axes: {target: [ink]}, like: {fedavg: fedprox}}")
    (workspace.experiments / "tuned.yaml").write_text(text)
    refused(fedshift(workspace.root, "plan", "tuned"), "leaves no run to tune 'fedprox' at {'d': 1}")
