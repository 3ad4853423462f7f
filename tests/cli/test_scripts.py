"""What plans say of the machine and of means, and what scripts and shells read: JSON, and the names that complete a word."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedshift.common.registry import names
from fedshift.federation import precision
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


@pytest.mark.parametrize(("device", "instructions"), [("cpu", True), ("cpu", False), ("cuda", False)])
def test_runs_in_bf16_on_a_cpu_without_instructions_for_it(
    device: str, instructions: bool, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = TOY.replace("axes: {", "axes: {local.precision: [fp32, bf16], ").replace(", local: }", "}")
    (toy / "experiments" / "toy.yaml").write_text(declared)
    monkeypatch.setattr(precision.torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: instructions)
    output = done(fedshift(toy, "plan", "toy", "--device", device))
    said = [line for line in output.splitlines() if "no instructions" in line]
    slow = device == "cpu" and not instructions
    assert [line.partition(" ")[0] for line in said] == (["2"] if slow else [])


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


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("run hfedf/ph", {"hfedf/photo"}),
        ("train fedav", {"fedavg"}),
        ("train fedavg --data dig", {"digits", "digits_dg"} & {*names("datasets")}),
        ("train fedavg --data digits --target i", {"ink"}),
        ("table demo_t", {"demo_tuned"}),
        ("new metr", {"metric"}),
    ],
)
def test_a_shell_completes_names(typed: str, expected: set[str]) -> None:
    words = f"fedshift {typed}"
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    environment = os.environ | asked | {"_FEDSHIFT_COMPLETE": "bash_complete"}
    code = "from fedshift.cli import main; main(prog_name='fedshift')"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert {line.partition(",")[2] for line in ran.stdout.splitlines()} == expected, ran.stderr
