"""A tuned experiment: its search is planned as an experiment of its own, its runs are planned from the chosen settings."""

from pathlib import Path

import pytest

from fedshift.analysis.collect import planned
from fedshift.common.errors import FedshiftError
from fedshift.common.yaml_file import written
from fedshift.experiments.load import load
from fedshift.planning import planfile
from fedshift.planning.plan import plan, specs
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT
from tests.verbs import fedshift, refused

TUNED = """\
title: Tuned
protocol: digits
tune: {budget: 3, seeds: [100, 101]}
methods: {fedavg: , fedprox: }
axes: {target: [plain, ink], seed: [0, 1]}
"""
FINAL, SEARCH = Request(("tuned",)), Request(("tuned.tuning",))
RATES = {"fedavg": 0.25, "fedprox": 0.35}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "reference" / "presets").mkdir(parents=True)
    for name in ("protocols", "presets/fedprox.yaml"):
        (tmp_path / "reference" / name).symlink_to(ROOT / "reference" / name)
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "tuned.yaml").write_text(TUNED)
    return Workspace(tmp_path)


def choose(workspace: Workspace, rates: dict[str, float]) -> None:
    """Write what the search is said to have chosen."""
    chosen = [
        {"row": row, "where": {"target": target}, "values": {"local.lr": rate}, "validation": 50.0, "points": 3,
         "failed": 0, "runs": []}
        for row, rate in rates.items()
        for target in ("plain", "ink")
    ]  # fmt: skip
    workspace.tuned("tuned").parent.mkdir(exist_ok=True)
    workspace.tuned("tuned").write_text(written({"rule": "last", "chosen": chosen}))


def final(workspace: Workspace) -> set[tuple[str, float, int]]:
    """Method, learning rate and seed of what is trained for the experiment itself."""
    plan(workspace, FINAL)
    return {(spec.method.name, spec.local.lr, spec.seed) for spec in specs(workspace, FINAL)}


def test_the_search_is_an_experiment_of_its_own(workspace: Workspace) -> None:
    path = plan(workspace, SEARCH)
    assert len(planfile.runs(path)) == 2 * 3 * 2 * 2  # rows, points, targets, seeds
    assert {cell.experiment for cell in planfile.cells(path)} == {"tuned.tuning"}
    assert {run.seed for run in planfile.runs(path)} == {100, 101}


def test_without_chosen_settings_nothing_is_planned_and_no_untuned_run_stands_in(
    workspace: Workspace,
) -> None:
    for verb in ("plan", "status", "table"):
        refused(
            fedshift(workspace.root, verb, "tuned"),
            "reference/presets/tuned/tuned.yaml",
            "fedshift run tuned.tuning, then fedshift tune tuned",
        )
    with pytest.raises(FedshiftError):
        planned(workspace, load(workspace, "tuned"), None)


def test_a_folder_is_planned_without_what_is_not_chosen(workspace: Workspace) -> None:
    (workspace.experiments / "plain.yaml").write_text(TUNED.replace("tune:", "# tune:"))
    assert Request.of({"experiments": ["*"]}, workspace.root).experiments == ("plain",)
    choose(workspace, RATES)
    assert Request.of({"experiments": ["*"]}, workspace.root).experiments == ("plain", "tuned")


def test_the_choice_makes_the_final_runs_and_another_makes_others(workspace: Workspace) -> None:
    choose(workspace, RATES)
    assert final(workspace) == {(row, rate, seed) for row, rate in RATES.items() for seed in (0, 1)}
    path = planfile.location(workspace, FINAL)
    names = {use.run.digest for use in planned(workspace, load(workspace, "tuned"), path)}
    assert names == {use.run.digest for use in planned(workspace, load(workspace, "tuned"), None)}
    assert names == {run.digest for run in planfile.runs(path)}
    before = final(workspace)
    choose(workspace, {**RATES, "fedavg": 0.3})
    assert planfile.location(workspace, FINAL) != path
    assert final(workspace) - before == {("fedavg", 0.3, 0), ("fedavg", 0.3, 1)}


def test_a_row_without_a_choice_is_refused(workspace: Workspace) -> None:
    choose(workspace, {"fedavg": 0.25})
    refused(
        fedshift(workspace.root, "plan", "tuned"), "nothing was chosen for 'fedprox'", "fedshift tune tuned"
    )
