"""What scripts and shells read: JSON, and the names that complete a word."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedshift.common.registry import names
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT
from tests.verbs import done, fedshift

TOY = """\
title: "Toy"
protocol: digits
spec: {federation: {rounds: 1}}
methods: {fedavg: , local: }
axes: {target: [ink], seed: [0, 1]}
"""


@pytest.fixture
def toy(project: Path) -> Path:
    (project / "experiments" / "toy.yaml").write_text(TOY)
    return project


def test_a_plan_in_numbers(toy: Path) -> None:
    plan = json.loads(done(fedshift(toy, "plan", "toy", "--json")))
    (row,) = plan["experiments"]
    assert (row["experiment"], row["runs"], row["done"], row["packs"]) == ("toy", 4, 0, 2)
    assert row["hours"] > 0 and row["disk_mb"] > 0
    assert Path(plan["plan"]).is_file() and plan["device"] == "cpu"
    assert row["guessed"] and "Not measured on cpu" in plan["notes"][0]  # no benchmarks/costs.csv here


def test_the_state_of_every_run(toy: Path) -> None:
    (before,) = json.loads(done(fedshift(toy, "status", "toy", "--json")))
    assert (before["missing"], before["finished"]) == (4, 0)
    first = before["runs"][0]
    failure = {"kind": "FedshiftError", "text": "no room", "retry": True, "trace": ""}
    Workspace(toy).run_at(first["directory"]).path.mkdir(parents=True)
    Workspace(toy).run_at(first["directory"]).fail(failure)
    (after,) = json.loads(done(fedshift(toy, "status", "toy", "--json")))
    assert (after["missing"], after["failed"]) == (3, 1)
    (failed,) = [run for run in after["runs"] if run["state"] == "failed"]
    assert failed["digest"] == first["digest"] and "no room" in failed["why"]


def test_names_with_titles() -> None:
    listed = json.loads(done(fedshift(ROOT, "list", "methods", "--json")))
    assert listed.keys() == {"methods"} and [*listed["methods"]] == [*names("methods")]
    assert listed["methods"]["fedavg"].startswith("FedAvg")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("run hfedf/ph", {"hfedf/photo"}),
        ("run fedav", {"fedavg"}),
        ("run fedavg --data dig", {"digits", "digits_dg"} & {*names("datasets")}),
        ("run fedavg --data digits --target i", {"ink"}),
        ("table demo_t", {"demo_tuned"}),
        ("new metr", {"metric"}),
    ],
)
def test_a_shell_completes_names(typed: str, expected: set[str]) -> None:
    words = f"fedshift {typed}"
    asked = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
        "_FEDSHIFT_COMPLETE": "bash_complete",
    }
    code = "from fedshift.cli import main; main(prog_name='fedshift')"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | asked, capture_output=True, text=True
    )
    assert {line.partition(",")[2] for line in ran.stdout.splitlines()} == expected, ran.stderr
