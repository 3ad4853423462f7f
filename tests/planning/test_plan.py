"""The plan: every run once, packs by configuration, its key, stamps, states, changed methods, and experiments that claims compare with."""

import json
import math
import os
import socket
import time
from itertools import groupby
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedshift.cli import main
from fedshift.cli.plan import describe
from fedshift.common.files import hold, sha256, write_bytes, write_json
from fedshift.planning import planfile
from fedshift.planning.plan import plan
from fedshift.planning.planfile import Run
from fedshift.planning.request import Request
from fedshift.storage.rundir import State
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT
from tests.planning.conftest import ONE, TWO, finish


def test_runs_shared_by_experiments_are_planned_once(workspace: Workspace) -> None:
    path = plan(workspace, Request(("one", "paper/two")))
    runs, cells = planfile.runs(path), planfile.cells(path)
    assert len(runs) == 12 + 1  # two's seed 2 on plain is in one already
    assert [sum(cell.experiment == name for cell in cells) for name in ("one", "paper/two")] == [12, 2]
    assert {cell.digest for cell in cells} == {run.digest for run in runs}
    assert len(planfile.runs(path, experiment="paper/two")) == 2
    assert planfile.load(path).images == [planfile.Images(runs[0].prepared, "digits", "original", 32)]


def test_packs_are_chunks_of_seeds_of_one_configuration(workspace: Workspace) -> None:
    runs = planfile.runs(plan(workspace, Request(("one",), pack=2)))
    packs = [list(members) for _, members in groupby(runs, key=lambda run: run.pack)]
    assert sorted([run.seed for run in members] for members in packs) == [[0, 1]] * 4 + [[2]] * 4
    for members in packs:
        assert len({(run.method, run.target) for run in members}) == 1
        assert members[0].pack == sha256("\n".join(sorted(run.digest for run in members)))[:16]


def test_what_is_not_worth_a_job_shares_one_of_its_method_and_data_set(workspace: Workspace) -> None:
    """Of one method no job but the last lasts less than was asked for; seeds of a configuration stay together."""
    alone = planfile.runs(plan(workspace, Request(("one",), pack=2)))
    least = math.ceil(4 * max(run.minutes for run in alone))
    runs = planfile.runs(plan(workspace, Request(("one",), pack=2, minutes=least)))
    assert {run.digest for run in runs} == {run.digest for run in alone}
    packs = [list(members) for _, members in groupby(runs, key=lambda run: run.pack)]
    assert 1 < len(packs) < len({run.pack for run in alone})
    assert any(len({run.target for run in members}) > 1 for members in packs)
    assert all(len({run.method for run in members}) == 1 for members in packs)
    short = [members[0].method for members in packs if sum(run.minutes for run in members) < least]
    assert len(short) == len({*short})
    together = {run.digest: run.pack for run in runs}
    for _, chunk in groupby(alone, key=lambda run: run.pack):
        assert len({together[run.digest] for run in chunk}) == 1


def test_key_covers_what_decides_the_runs_and_not_what_is_finished(workspace: Workspace) -> None:
    request = Request(("one",))
    first = plan(workspace, request)
    for run in planfile.runs(first):
        finish(workspace, run)
    assert planfile.location(workspace, request) == first
    (workspace.root / "experiments" / "paper" / "two.yaml").write_text(TWO.replace("Two", "2"))
    assert planfile.location(workspace, request) == first
    (workspace.root / "reference" / "published.csv").write_text("x")
    assert planfile.location(workspace, request) == first
    assert planfile.location(workspace, Request(("one",), pack=3)) != first
    (workspace.root / "reference" / "presets").mkdir()
    (workspace.root / "reference" / "presets" / "fedavg.yaml").write_text("digits: {}\n")
    assert (second := planfile.location(workspace, request)) != first
    (workspace.root / "reference" / "presets" / "moon.yaml").write_text("digits: [\n")  # half-written
    assert planfile.location(workspace, request) not in (first, second)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    "groups", ["groups: {file: 'my patients.csv'}", "groups.file: [apart.csv, my patients.csv]"]
)
def test_key_covers_files_of_groups(workspace: Workspace, groups: str, encoding: str) -> None:
    experiment = workspace.root / "experiments" / "one.yaml"
    experiment.write_text(f"{experiment.read_text()}\nmore: {{{groups}}}\n", encoding=encoding)
    seen = set()
    for content in ("path,group\na.png,P1\n", "path,group\na.png,P2\n"):
        (workspace.root / "my patients.csv").write_text(content)
        seen.add(planfile.location(workspace, Request(("one",))))
    assert len(seen) == 2


def test_a_plan_keeps_its_request_and_its_runs_whatever_is_edited(
    workspace: Workspace, capfd: pytest.CaptureFixture[str]
) -> None:
    """A comment in another method's preset, an experiment, params.yaml: a job that waits goes on with the plan that it was given."""
    request = Request(("one",), pack=2)
    path = plan(workspace, request)
    before = planfile.runs(path)
    (workspace.root / "reference" / "presets").mkdir()
    (workspace.root / "reference" / "presets" / "moon.yaml").write_text("# another day\n")
    (workspace.root / "experiments" / "one.yaml").write_text(ONE.replace("[0, 1, 2]", "[0, 1]"))
    (workspace.root / "params.yaml").write_text("experiments: [one, paper/two]\n")
    assert planfile.location(workspace, request) != path  # who starts the workflow plans anew
    assert planfile.request(workspace, path) == request
    assert planfile.runs(path) == before
    told = CliRunner().invoke(
        main, ["--root", str(workspace.root), "train-pack", "--plan", str(path), "--pack", before[0].pack]
    )
    assert told.exit_code == 1 and "older" not in told.output
    assert (
        "Run: fedshift prepare digits" in capfd.readouterr().err
    )  # so far it came: there are no images here


def test_planning_stamps_packs_whose_runs_are_all_finished(workspace: Workspace) -> None:
    request = Request(("one",), pack=2)
    runs = planfile.runs(plan(workspace, request))
    packs = workspace.results / "packs"
    assert not packs.exists()
    full = next(run.pack for run in runs if sum(other.pack == run.pack for other in runs) == 2)
    members = [run for run in runs if run.pack == full]
    finish(workspace, members[0])
    plan(workspace, request)
    assert not packs.exists()
    finish(workspace, members[1])
    again = planfile.runs(plan(workspace, request), pack=full)
    assert {run.digest for run in again} == {run.digest for run in members}
    (stamp,) = packs.rglob("*.json")
    assert stamp == packs / "digits" / members[0].method / f"{full}.json"
    assert set(json.loads(stamp.read_text())["finished"]) == {run.digest for run in members}


@pytest.mark.parametrize("lost", ["metrics.parquet", ""])
def test_a_lost_run_takes_stamps_and_the_marks_of_all_experiments_that_use_it(
    workspace: Workspace, lost: str
) -> None:
    """Whichever command looks first; a run of only one experiment leaves the other's mark."""
    planned = plan(workspace, Request(("one", "paper/two")))
    runs = planfile.runs(planned)
    for run in runs:
        finish(workspace, run)
    marks = {name: workspace.results / "metrics" / f"{name}.collected" for name in ("one", "paper/two")}
    asked = ["--root", str(workspace.root), "status", "one", "paper/two", "--json"]

    def missing_and_marked() -> tuple[int, set[str]]:
        for mark in marks.values():
            write_bytes(mark, b"")
        told = json.loads(CliRunner().invoke(main, asked).stdout)
        missing = {run["directory"] for one in told for run in one["runs"] if run["state"] == "missing"}
        return len(missing), {name for name, mark in marks.items() if mark.exists()}

    assert missing_and_marked() == (0, {*marks})
    stamps = len(workspace.packs())
    path = workspace.root / runs[0].directory / lost
    path.rename(workspace.root / "elsewhere")
    users = {cell.experiment for cell in planfile.cells(planned) if cell.digest == runs[0].digest}
    assert missing_and_marked() == (1, {*marks} - users)
    assert len(workspace.packs()) == stamps - 1
    (workspace.root / "elsewhere").rename(path)
    assert missing_and_marked() == (0, {*marks})
    assert len(workspace.packs()) == stamps


def test_status_tells_finished_running_failed_and_missing_apart(workspace: Workspace) -> None:
    runs = planfile.runs(plan(workspace, Request(("one",))))
    finished, running, failed, dead, missing, begun = runs[:6]
    finish(workspace, finished)
    assert hold(workspace.run_at(running.directory).lock)
    write_json(workspace.run_at(dead.directory).lock, {"host": "here", "pid": 1, "job": None})  # was killed
    write_json(
        workspace.root / failed.directory / "failure.json",
        {"kind": "diverged", "text": "loss is NaN", "retry": False},
    )
    assert describe(workspace, finished) == ("finished", "")
    assert describe(workspace, running) == ("running", f"{socket.gethostname()}:{os.getpid()}")
    assert describe(workspace, failed) == (
        "failed",
        "diverged: loss is NaN (fix it, then plan --retry-failed)",
    )
    assert describe(workspace, dead) == ("missing", "")
    assert describe(workspace, missing) == ("missing", "")
    write_bytes(workspace.run_at(begun.directory).checkpoint, b"")
    assert describe(workspace, begun) == ("interrupted", "")
    shown = CliRunner().invoke(main, ["--root", str(workspace.root), "status", "one"]).output.splitlines()
    assert shown[1].split() == ["one", "12", "1", "1", "1", "1", "8", "0"]
    assert any(failed.directory in line and "loss is NaN" in line for line in shown)


BOTH = ("one", "paper/two")
OLD = "0dd00001"


def finish_by(workspace: Workspace, run: Run, code: str) -> None:
    """By a method of this fingerprint; "": as earlier versions did."""
    place = workspace.run_at(run.directory)
    write_bytes(place.metrics, b"PAR1PAR1")
    place.finish({"digest": run.digest} | ({"method_code": code} if code else {}))


def said(workspace: Workspace, *words: str) -> str:
    done = CliRunner().invoke(main, ["--root", str(workspace.root), *words])
    assert done.exit_code == 0, done.output
    return done.output


def missing(workspace: Workspace, finished_runs: list[Run]) -> set[str]:
    return {run.digest for run in finished_runs if workspace.run_at(run.directory).outcome() is State.MISSING}


@pytest.fixture
def finished_runs(workspace: Workspace) -> list[Run]:
    """All finished: those of FedProx before it changed, of FedAvg one by an earlier version."""
    found = planfile.runs(plan(workspace, Request(BOTH, pack=2)))
    first = next(run for run in found if run.method == "fedavg")
    for run in found:
        finish_by(workspace, run, "" if run is first else OLD if run.method == "fedprox" else run.code)
    return found


def test_exactly_they_are_trained_again_where_that_is_asked_for(
    workspace: Workspace, finished_runs: list[Run]
) -> None:
    plan(workspace, Request(("one",), pack=1))  # a stamp for each run, beside those of pairs
    stamps = [stamp.digests() for stamp in workspace.packs()]
    again = {run.digest for run in finished_runs if run.method == "fedprox"}
    assert again <= set().union(*stamps)
    told = said(workspace, "plan", *BOTH, "--retrain-changed")
    assert "6 runs of changed methods are trained again" in told and "has changed since" not in told
    assert missing(workspace, finished_runs) == again
    left = [stamp.digests() for stamp in workspace.packs()]
    assert not any(digests & again for digests in left)
    assert all(digests in left for digests in stamps if not digests & again)
    aside = {path.parent.name for path in workspace.results.rglob(f"*-{OLD}/summary.json")}
    assert aside == {f"{digest}-{OLD}" for digest in again}
    assert "0 runs of changed methods" in said(workspace, "plan", *BOTH, "--retrain-changed")
    assert missing(workspace, finished_runs) == again


MINE = """\
title: Mine
protocol: digits
methods: {fedprox: }
axes: {target: [plain], seed: [0]}
claims:
  SF-C18.1:
    metric: ood
    rows: {StableFDG (larger size): fedprox, StableFDG (smaller size): {row: fedavg, experiment: other}}
"""
OTHER = """\
title: Other
protocol: digits
methods: {fedavg: }
axes: {target: [plain], seed: [0]}
"""


@pytest.fixture
def pair(tmp_path: Path) -> Workspace:
    (tmp_path / "reference").symlink_to(ROOT / "reference")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "mine.yaml").write_text(MINE)
    (tmp_path / "experiments" / "other.yaml").write_text(OTHER)
    return Workspace(tmp_path)


def test_claims_that_name_another_experiment(pair: Workspace) -> None:
    both = planfile.load(plan(pair, Request(("mine", "other")))).compared
    assert both == {"mine": ["other"]}
    assert planfile.load(plan(pair, Request(("mine",)))).compared == {}


def test_plans_of_long_ago_are_removed(workspace: Workspace) -> None:
    """Each edit left one for ever."""
    folder = plan(workspace, Request(("one",))).parent
    days = {f"{age:02}": age for age in (1, 5, 31, 32, *range(40, 60))}
    for name, age in days.items():
        (folder / f"{name}.json").touch()
        os.utime(folder / f"{name}.json", (time.time() - age * 86400,) * 2)
    newest = plan(workspace, Request(("one",), pack=2))
    left = sorted(path.stem for path in folder.glob("*.json"))
    assert newest.stem in left and len(left) == 10
    assert {"01", "05", "31"} < {*left}
