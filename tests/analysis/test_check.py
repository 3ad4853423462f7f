"""The check fails for what did not learn, is missing or is not finite, and passes for the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from fedshift.analysis.check import check, write
from fedshift.cli.check import command
from fedshift.storage.rundir import Failure

from .conftest import Project, accuracy

LEARNED = {0: accuracy((0.1, 0.1), ood=0.1), 1: accuracy((0.8, 0.7), ood=0.5)}
CHANCE = {0: accuracy((0.1, 0.12), ood=0.1), 1: accuracy((0.1, 0.12), ood=0.1)}


def results(project: Project, fedavg: Any, local: Any, **run: Any) -> dict[str, bool]:
    project.declare(
        methods={"fedavg": None, "local": None},
        axes={"target": ["a"]},
        expect={"id": 6, "ood": 3, "exempt": ["local"]},
    )
    project.add("fedavg", fedavg, target="a", **run)
    project.add("local", local, target="a")
    return {comparison.what: comparison.passed for comparison in check(project.collect())}


def test_a_good_experiment_passes(project: Project) -> None:
    found = results(project, LEARNED, {1: accuracy((0.8, 0.7), ood=0.1)})  # local is exempt from ood
    expected = ["finished runs", "records that are not finite", "fedavg: id", "fedavg: ood", "local: id"]
    assert found == dict.fromkeys(expected, True)
    assert list(found) == expected


def test_a_method_at_chance_fails(project: Project) -> None:
    found = results(project, CHANCE, LEARNED)
    assert [what for what, passed in found.items() if not passed] == ["fedavg: id", "fedavg: ood"]


def test_values_and_bounds(project: Project) -> None:
    results(project, CHANCE, LEARNED)
    collected = project.collect()
    comparisons = check(collected)
    write(project.workspace, collected, comparisons)
    told = json.loads((project.workspace.tables("toy") / "check.json").read_text())
    assert not told["passed"]
    one = next(item for item in told["comparisons"] if item["what"] == "fedavg: id")
    assert one == {
        "what": "fedavg: id",
        "value": pytest.approx(11),
        "relation": ">=",
        "bound": 60.0,
        "passed": False,
    }


def test_a_missing_run_fails(project: Project) -> None:
    assert not results(project, None, LEARNED)["finished runs"]


def test_a_value_that_is_not_finite_fails(project: Project) -> None:
    assert not results(project, LEARNED, LEARNED, loss=float("nan"))["records that are not finite"]


def test_the_command_names_the_runs_that_are_not_finite(project: Project) -> None:
    results(project, LEARNED, LEARNED, loss=float("nan"))
    result = CliRunner().invoke(command, ["toy"], obj=project.workspace)
    assert result.exit_code == 1
    assert "not finite: fedavg target=a: from round 0 on" in result.output
    assert "not finite: local" not in result.output and "Lower local.lr" in result.output


def test_the_command_says_why_a_run_failed(project: Project) -> None:
    results(project, None, LEARNED)
    (run,) = project.collect().missing
    failure = Failure(kind="ValueError", text="no such layer", trace="", retry=False)
    project.workspace.run_at(run).fail(failure)
    result = CliRunner().invoke(command, ["toy"], obj=project.workspace)
    assert f"not finished: {run}  ValueError: no such layer" in result.output


def test_the_command_ends_with_1_and_names_what_falls_short(project: Project) -> None:
    results(project, CHANCE, LEARNED)
    result = CliRunner().invoke(command, ["toy"], obj=project.workspace)
    assert result.exit_code == 1
    assert "FAIL fedavg: id: 11 (must be >= 60)" in result.output
    assert "ok   local: id: 75 (must be >= 60)" in result.output
