"""What plans say of the machine and of means, and what scripts read: JSON."""

import json
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


UNEVEN = """\
only: {local: {local.epochs: [2]}}
tables: {summary: {}, by_epochs: {columns: [local.epochs]}}
"""


def test_uneven_means_are_named(toy: Path) -> None:
    declared = TOY.replace("axes: {", "axes: {local.epochs: [1, 2], ") + UNEVEN
    (toy / "experiments" / "toy.yaml").write_text(declared)
    lines = [line for line in done(fedshift(toy, "plan", "toy")).splitlines() if "mean over" in line]
    assert lines == [
        "toy, table 'summary': 'local' is a mean over local.epochs 2 of 1, 2; the table marks it."
    ]


def test_names_with_titles() -> None:
    listed = json.loads(done(fedshift(ROOT, "list", "methods", "--json")))
    assert listed.keys() == {"methods"} and [*listed["methods"]] == [*names("methods")]
    assert listed["methods"]["fedavg"].startswith("FedAvg")
