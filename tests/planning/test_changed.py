"""Finished runs whose method or model has changed since: named, and trained again where that is asked for."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from fedshift.cli import main
from fedshift.cli.status import describe
from fedshift.common.files import write_bytes
from fedshift.planning import planfile
from fedshift.planning.plan import plan
from fedshift.planning.planfile import Run
from fedshift.planning.request import Request
from fedshift.planning.settle import changed, warnings
from fedshift.storage.rundir import State
from fedshift.storage.workspace import Workspace

BOTH = ("one", "paper/two")
OLD = "0dd00001"


def finish(workspace: Workspace, run: Run, code: str) -> None:
    """By a method of this fingerprint; "": as earlier versions did."""
    place = workspace.run_at(run.directory)
    write_bytes(place.metrics, b"PAR1PAR1")
    place.finish({"digest": run.digest} | ({"method_code": code} if code else {}))


def said(workspace: Workspace, *words: str) -> str:
    done = CliRunner().invoke(main, ["--root", str(workspace.root), *words])
    assert done.exit_code == 0, done.output
    return done.output


def missing(workspace: Workspace, runs: list[Run]) -> set[str]:
    return {run.digest for run in runs if workspace.run_at(run.directory).outcome() is State.MISSING}


@pytest.fixture
def runs(workspace: Workspace) -> list[Run]:
    """All finished: those of FedProx before it changed, of FedAvg one by an earlier version."""
    found = planfile.runs(plan(workspace, Request(BOTH, pack=2)))
    first = next(run for run in found if run.method == "fedavg")
    for run in found:
        finish(workspace, run, "" if run is first else OLD if run.method == "fedprox" else run.code)
    return found


def test_they_are_named_by_plan_and_status(workspace: Workspace, runs: list[Run]) -> None:
    (line,) = warnings(changed(workspace, runs))
    others = [run for run in runs if run.method == "fedprox"]
    assert line.startswith("The file of method fedprox or its model has changed since 6 runs were trained: ")
    assert f"{others[0].directory}, {others[1].directory}, {others[2].directory} and 3 more." in line
    assert "fedshift plan --retrain-changed" in line
    for verb in ("plan", "status"):
        (line,) = [line for line in said(workspace, verb, *BOTH).splitlines() if "has changed" in line]
        assert (
            "fedprox or its model has changed since 6 runs" in line
            and line.count(" results/runs/digits/fedprox/") == 3
        )
    assert "has changed" not in said(workspace, "plan", "paper/two") + said(workspace, "status", "paper/two")
    assert (
        describe(workspace, others[0])[1] == "its method or model has changed since: plan --retrain-changed"
    )
    assert describe(workspace, next(run for run in runs if run.method == "fedavg")) == ("finished", "")
    assert missing(workspace, runs) == set()


def test_exactly_they_are_trained_again_where_that_is_asked_for(
    workspace: Workspace, runs: list[Run]
) -> None:
    plan(workspace, Request(("one",), pack=1))  # a stamp for each run, beside those of pairs
    stamps = [stamp.digests() for stamp in workspace.packs()]
    again = {run.digest for run in runs if run.method == "fedprox"}
    assert again <= set().union(*stamps)
    told = said(workspace, "plan", *BOTH, "--retrain-changed")
    assert "6 runs of changed methods are trained again" in told and "has changed since" not in told
    assert missing(workspace, runs) == again
    left = [stamp.digests() for stamp in workspace.packs()]
    assert not any(digests & again for digests in left)
    assert all(digests in left for digests in stamps if not digests & again)
    aside = {path.parent.name for path in workspace.results.rglob(f"*-{OLD}/summary.json")}
    assert aside == {f"{digest}-{OLD}" for digest in again}
    assert "0 runs of changed methods" in said(workspace, "plan", *BOTH, "--retrain-changed")
    assert missing(workspace, runs) == again
