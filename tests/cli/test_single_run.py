"""`fedshift run METHOD`: one run, on a terminal as a user sees it."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

import fedshift
from fedshift.analysis.collect import collect
from fedshift.analysis.quantities import selected
from fedshift.planning import planfile
from fedshift.storage.rundir import State
from fedshift.storage.workspace import Workspace
from tests.data.conftest import plant
from tests.verbs import done, refused
from tests.verbs import fedshift as called

SETTINGS = ["--protocol", "digits", "--set", "local.lr=0.1", "--set", "local.epochs=1"]
ASKED = ["train", "fedbn", "--data", "digits", "--target", "ink", "--rounds", "3", *SETTINGS]
DECLARED = """\
title: "The same"
protocol: digits
spec: {federation: {rounds: 3}, local: {lr: 0.1, epochs: 1}}
methods: {fedbn: }
axes: {target: [ink], seed: [0]}
tables: {main: {}}
"""


def on_a_terminal(root: Path, arguments: list[str], after: str = "") -> tuple[int, str]:
    """Exit status and all that `fedshift ARGUMENTS` writes; Ctrl-C as soon as `after` has been written."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    process = subprocess.Popen(
        [sys.executable, "-m", "fedshift", "--root", str(root), *arguments],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    output, interrupted = "", False
    while True:
        try:
            part = os.read(ours, 4096).decode(errors="replace")
        except OSError:  # the other end is closed
            break
        output += part
        if after and not interrupted and re.search(after, output):
            interrupted = True
            os.kill(process.pid, signal.SIGINT)
    os.close(ours)
    return process.wait(), output


@pytest.mark.slow
def test_it_is_stopped_and_goes_on_and_is_the_experiments_run(project: Path) -> None:
    status, output = on_a_terminal(project, ASKED, after=r"round 2 of 3")
    assert status == 143 and "the same command resumes from there" in output, output
    assert "Ctrl-C again: at once" in output and "Traceback" not in output
    (run,) = Workspace(project).runs()
    assert run.outcome() is State.MISSING and run.checkpoint.exists()
    status, output = on_a_terminal(project, ASKED)
    assert status == 0, output
    assert "remaining" in output  # the bar's estimate
    assert f"run:  {run.path}" in output and "see:" in output
    shown = re.search(r"id ([\d.]+), ood ([\d.]+) % in round 3 of 3", output)
    assert shown
    (project / "experiments" / "same.yaml").write_text(DECLARED)
    collected = collect(Workspace(project), "same")
    assert list(collected.runs["run"]) == [run.path.relative_to(project).as_posix()]
    (row,) = selected(collected).to_dict("records")
    assert [float(number) for number in shown.groups()] == pytest.approx([row["id"], row["ood"]], abs=0.051)
    assert fedshift.load_run(run.name[:8], root=project).accuracy()["ood"] == pytest.approx(row["ood"])
    again = done(called(project, *ASKED))  # a finished run is only read
    assert f"run:  {run.path}" in again


@pytest.mark.slow
def test_planned_runs_stop_by_ctrl_c_with_a_checkpoint(project: Path) -> None:
    (project / "experiments" / "same.yaml").write_text(DECLARED)
    plan = done(called(project, "plan", "same", "--print", "path")).strip()
    (planned,) = planfile.runs(project / plan)
    status, output = on_a_terminal(
        project, ["train-pack", "--plan", str(project / plan), planned.digest], "round 1 of 3"
    )
    assert status == 143 and "Ctrl-C again: at once" in output, output
    run = Workspace(project).run_at(planned.directory)
    assert run.outcome() is State.MISSING and run.checkpoint.exists(), (output, [*run.path.glob("*")])


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["run", "fedavg"], ["is a method", "fedshift train fedavg --data digits"]),
        (["train", "demo", "--data", "digits"], ["is an experiment", "fedshift run demo"]),
        (["train", "fedavg", "--rounds", "3"], ["Missing option '--data'", "fedshift train --help"]),
        (["train", "fedavg", "--data", "digits", "--target", "mnist"], ["unknown domain of digits 'mnist'"]),
        (["train", "fedavg", "--data", "digits", "--set", "lr"], ["--set lr", "has no '='"]),
        (
            ["train", "fedavg", "--data", "digits", "--set", "lr=0.1"],
            ["unknown key 'lr'", "Did you mean 'local.lr'?"],
        ),
        (
            ["train", "fedavg", "--data", "digits", "--set", "data={target: ink}"],
            ["data.target", "has its own option"],
        ),
        (["run", "demo", "--device", "cuda"], ["No such option '--device'", "fedshift run --help"]),
        (["train", "fedavg", "--data", "vlcs"], ["Then: fedshift fetch vlcs"]),
    ],
)
def test_mistakes_are_refused(project: Path, arguments: list[str], parts: list[str]) -> None:
    refused(called(project, *arguments), *parts)


def test_what_the_environment_says_of_devices_and_profiles_refuses_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSHIFT_DEVICE", "cpu")
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "slurm")
    refused(
        called(project, "train", "fedavg", "--data", "digits", "--rounds", "1", "--target", "mnist"),
        "unknown domain",
    )
    refused(called(project, "run", "nothing"), "unknown experiment 'nothing'")


def test_a_loss_that_is_not_finite_is_said_with_the_first_round(project: Path) -> None:
    """Nothing was: the run is finished, and shows the accuracy of the untrained model."""
    wild = ["--set", "local.lr=1.0e+30", "--set", "local.epochs=1", "--protocol", "digits", "--rounds", "1"]
    output = done(called(project, "train", "fedavg", "--data", "digits", "--target", "ink", *wild))
    assert "warning: the loss is not finite from round 1 on" in output and "local.lr" in output


@pytest.mark.slow
def test_a_tree_of_the_users_own_is_fetched_decoded_and_divided(project: Path, tmp_path: Path) -> None:
    tree = plant(tmp_path / "my clinics", ("a", "b", "c"), ("ill", "well"), each=12)
    asked = ["train", "fedavg", "--data", f"folder:{tree}", "--target", "b", "--rounds", "1"]
    output = done(called(project, *asked))
    (run,) = Workspace(project).runs()
    assert run.summary() and "held out b" in output and "licence: the user's" in output
    assert (project / "data" / "raw" / "folder" / "my-clinics").is_symlink()
    assert "licence" not in done(called(project, *asked))  # finished: nothing is fetched again
    plant(tree, ("d",), ("ill", "well"), each=2)
    listed = f"{project / 'data' / 'raw' / 'folder' / 'my-clinics'}: has changed since its files were listed"
    refused(called(project, *asked), listed, "d/ill/0.png and 3 more", "--write-manifest")
    done(called(project, "verify", "folder", "--release", "my-clinics", "--write-manifest"))
    refused(called(project, *asked), "was made from another state of folder my-clinics")
    (decoded,) = (project / "data" / "prepared" / "folder").iterdir()
    shutil.rmtree(decoded)
    done(called(project, "prepare", "folder", "--release", "my-clinics", "--px", decoded.name.split("-")[0]))
    refused(called(project, *asked), "was trained on other images", "fedshift gc --delete")
    unlike = ["train", "fedavg", "--data", "digits", "--target", "ink", "--rounds", "1"]
    done(called(project, *unlike))
    collected = done(called(project, "gc", "--delete"))
    listed = json.loads(done(called(project, "list", "runs", "--json")))["runs"]
    assert [text.rpartition(",")[0] for text in listed.values()] == [
        "fedavg on digits, held out: ink, seed 0, rounds: 1"
    ]
    assert "1 of other images" in collected and "1 of no experiment (see --unused) stay" in collected
    (left,) = Workspace(project).runs()
    assert left.path.is_relative_to(project / "results" / "runs" / "digits") and not run.path.exists()
    other = plant(tmp_path / "elsewhere" / "my clinics", ("a", "b"), ("ill", "well"), each=12)
    asked = ["train", "fedavg", "--data", f"folder:{other}", "--target", "a", "--rounds", "1"]
    refused(called(project, *asked), "exists already and is not")
