"""Tuning through real snakemake: five methods on two data sets, killed on its way, and the final runs of what was chosen.

One checkout, used from top to bottom.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from fedshift.experiments.choice import read
from fedshift.planning import planfile
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace
from tests.workflow.checkout import Checkout

pytestmark = [pytest.mark.workflow, pytest.mark.slow, pytest.mark.timeout(2400)]
METHODS = ("local", "fedavg", "fedprox", "fedbn", "ditto")
DATASETS = ("digits", "mirrored")
BUDGET = 2
TUNED = f"""\
title: "Tuned"
protocol: digits
spec: {{federation: {{rounds: 2}}, local: {{epochs: 1}}}}
tune: {{budget: {BUDGET}, seeds: [100], spec: {{federation: {{rounds: 1}}}}}}
methods: {{{", ".join(f"{method}: " for method in METHODS)}}}
axes: {{data.dataset: [{", ".join(DATASETS)}], target: [plain], seed: [0]}}
tables: {{main: {{columns: [data.dataset]}}}}
"""
MIRRORED = '''\
"""Digits, left to right."""

from dataclasses import replace

from PIL import ImageOps

from fedshift.data.datasets import digits


class Mirrored(digits.Digits):
    name = "mirrored"
    releases = {"original": replace(digits.Digits.releases["original"], manifest="mirrored.json")}

    def content(self, raw, path):
        return self.image(raw, path).tobytes()

    def image(self, raw, path):
        return ImageOps.mirror(super().image(raw, path))
'''
UNDISTURBED = """\
import torch
from pathlib import Path
from fedshift.analysis import tuning
from fedshift.analysis.collection.collect import collect
from fedshift.data.partition import partition
from fedshift.data.prepare import prepare
from fedshift.experiments.load import load
from fedshift.planning import planfile
from fedshift.planning.plan import plan
from fedshift.planning.request import Request
from fedshift.spec import RunSpec
from fedshift.training.run import Machine, train
from fedshift.storage.workspace import Workspace

workspace = Workspace(Path())
path = plan(workspace, Request(("tuned",)))
for dataset in ("digits", "mirrored"):
    prepare(workspace, dataset, jobs=1)
for run in planfile.runs(path):
    spec = RunSpec.model_validate_json(run.spec)
    partition(workspace, spec)
    train(workspace, spec, Machine(torch.device("cpu")))
tuning.write(workspace, load(workspace, "tuned"), collect(workspace, "tuned.tuning", path))
"""


def made(root: Path) -> Checkout:
    """A checkout with a second data set, which is there with its manifest."""
    checkout = Checkout.made(root, {"tuned": TUNED}, "experiments: [tuned]\n")
    (root / "src/fedshift/data/datasets/mirrored.py").write_text(MIRRORED)
    checkout.python("-m", "fedshift", "verify", "mirrored", "--write-manifest")
    return checkout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return made(tmp_path_factory.mktemp("tuned"))


def killed(checkout: Checkout, log: Path, when: Callable[[], bool]) -> None:
    """Start snakemake, and kill it with all that it has started as soon as `when`."""
    with log.open("w") as output:
        process = checkout.start("all", output=output)
        try:
            end = time.monotonic() + 900
            while not when():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.02)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    checkout.run("--unlock", "all")


def summaries(checkout: Checkout) -> int:
    return len([*(checkout.root / "results" / "runs").rglob("summary.json")])


def test_plan_counts_both_stages(checkout: Checkout) -> None:
    assert "checkpoint" in checkout.run("--dry-run", "all")
    runs = planfile.runs(checkout.plan)
    assert len(runs) == len(METHODS) * len(DATASETS) * BUDGET
    assert Counter((run.method, run.dataset) for run in runs) == {
        (method, dataset): BUDGET for method in METHODS for dataset in DATASETS
    }
    assert len(planfile.waiting(checkout.plan)["tuned"]) == len(METHODS) * len(DATASETS)


def test_killed_anywhere_it_ends_in_the_choice_of_an_undisturbed_search(
    checkout: Checkout, tmp_path: Path
) -> None:
    """Killed while it trains, while it chooses, and between the choice and the final runs."""
    logs = checkout.root / "logs" / "tune"
    killed(checkout, tmp_path / "1", lambda: summaries(checkout) >= 3)
    assert not checkout.choices()
    killed(checkout, tmp_path / "2", lambda: any(logs.glob("*.log")))
    killed(checkout, tmp_path / "3", lambda: bool(checkout.choices()))
    assert summaries(checkout) < len(METHODS) * len(DATASETS) * (BUDGET + 1)
    checkout.run("all")
    calm = made(tmp_path / "calm")
    calm.python("-c", UNDISTURBED)
    assert checkout.choices() == calm.choices() and len(calm.choices()) == 1


def test_the_final_runs_have_what_was_chosen_and_other_seeds(checkout: Checkout) -> None:
    (path,) = Workspace(checkout.root).choices("tuned").glob("*.json")
    choice = read(path)
    assert choice and len(choice.chosen) == len(METHODS) * len(DATASETS)
    assert {entry.points for entry in choice.chosen} == {BUDGET}
    chosen = {(one.row, one.where["data.dataset"]): one.values["local.lr"] for one in choice.chosen}
    final = planfile.runs(checkout.plan, experiments=("tuned",))
    specs = [RunSpec.model_validate_json(run.spec) for run in final]
    assert {(spec.method.name, spec.data.dataset): spec.local.lr for spec in specs} == chosen
    assert {spec.seed for spec in specs} == {0}
    tuning = planfile.runs(checkout.plan, experiments=("tuned.tuning",))
    assert {run.seed for run in tuning} == {100}
    assert summaries(checkout) == len(final) + len(tuning)


def test_what_was_searched_stands_beside_the_tables(checkout: Checkout) -> None:
    tables = Workspace(checkout.root).tables("tuned")
    searched = pd.read_csv(tables / "searched.csv")
    assert len(searched) == len(METHODS) * len(DATASETS) * BUDGET
    assert (searched.groupby(["method", "data.dataset"]).size() == BUDGET).all()
    best = searched.sort_values("validation", ascending=False, kind="stable")
    first = best.drop_duplicates(["method", "data.dataset"])
    assert first["chosen"].all() and searched["chosen"].sum() == len(first)
    assert "| fedavg | digits | plain | local.lr" in (tables / "chosen.md").read_text()
    assert json.loads((tables / "check.json").read_text())
    assert (tables / "table.csv").stat().st_size


def test_afterwards_there_is_nothing_to_do(checkout: Checkout) -> None:
    assert "Nothing to be done" in checkout.run("--dry-run", "all")
    assert "its settings are chosen" in checkout.python("-m", "fedshift", "plan")


def test_a_larger_budget_trains_what_is_new(checkout: Checkout) -> None:
    """The points of the smaller one are there; the final runs wait again."""
    checkout.edit("experiments/tuned.yaml", f"budget: {BUDGET}", f"budget: {BUDGET + 1}")
    trained = Counter(checkout.to_train("all"))
    assert trained == dict.fromkeys(METHODS, len(DATASETS))
    assert len(planfile.waiting(checkout.plan)["tuned"]) == len(METHODS) * len(DATASETS)
