"""Evaluations in real snakemake, adaptation among them: between packs and tables, once, and again only where what is computed how has changed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.documents import python_block
from tests.workflow.checkout import Checkout

pytestmark = [pytest.mark.workflow, pytest.mark.slow, pytest.mark.timeout(1200)]
EXPERIMENT = """\
title: "Adapted"
protocol: digits
spec: {federation: {rounds: 1}, local: {epochs: 1, batch: 64}, partition: {target_split: client}}
methods: {fedbn: , fdse: }
adapt:
  fedbn-adapted: {run: fedbn, name: fedbn}
  fdse-adapted: {run: fdse, name: fdse, params: {epochs: 1}}
axes: {target: [plain], seed: [0]}
tables: {main: {columns: [target], metrics: [ood]}}
"""
RULES = ("train", "evaluate", "collect", "table", "figure", "report")
TABLE = "results/tables/adapted/table.csv"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Two experiments with the same runs, of which one adapts them."""
    plain = EXPERIMENT[: EXPERIMENT.index("adapt:")] + EXPERIMENT[EXPERIMENT.index("axes:") :]
    experiments = {"adapted": EXPERIMENT, "plain": plain.replace("Adapted", "Plain")}
    root = tmp_path_factory.mktemp("checkout")
    return Checkout.made(root, experiments, "experiments: [adapted]\npack: 2\n")


def jobs(output: str) -> dict[str, int]:
    """How many jobs of each rule, without those that have none."""
    counts = {rule: output.count(f"rule {rule}:") for rule in RULES}
    return {rule: count for rule, count in counts.items() if count}


def results(checkout: Checkout) -> dict[Path, int]:
    return {
        path: path.stat().st_mtime_ns for path in checkout.root.glob("results/runs/**/evaluated/*.parquet")
    }


def note(checkout: Checkout) -> str:
    lines = (checkout.root / TABLE).with_suffix(".md").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("- fdse-adapted:")]
    return line


def test_first_run_adapts_what_it_trained(checkout: Checkout) -> None:
    output = checkout.run("all")
    assert jobs(output) == dict.fromkeys(RULES, 1) | {"train": 2}
    assert output.index("rule evaluate:") < output.index("rule collect:")
    assert len(results(checkout)) == 2
    table = pd.read_csv(checkout.root / TABLE).set_index("method")
    assert list(table.index) == ["fedbn", "fedbn-adapted", "fdse", "fdse-adapted"]
    assert (table["seeds"] == 1).all() and table["mean"].between(0, 100).all()
    assert "adapted by fdse (batch 50, epochs 1, lr 0.01; code " in note(checkout)


def test_second_time_there_is_nothing_to_do(checkout: Checkout) -> None:
    assert "Nothing to be done" in checkout.run("--dry-run", "all")


def test_other_parameters_adapt_again_and_train_nothing(checkout: Checkout) -> None:
    before = results(checkout)
    checkout.edit("experiments/adapted.yaml", "params: {epochs: 1}", "params: {epochs: 2}")
    assert jobs(checkout.run(TABLE)) == {"evaluate": 1, "collect": 1, "table": 1}
    after = results(checkout)
    assert {path: after[path] for path in before} == before  # kept, and FedBN's not made again
    assert len(after) == 3
    assert "adapted by fdse (batch 50, epochs 2, lr 0.01; code " in note(checkout)


def test_changed_code_of_an_adaptation_adapts_again_and_trains_nothing(checkout: Checkout) -> None:
    before = checkout.append("src/fedshift/evaluations/fdse.py", "# a comment\n")
    assert "Nothing to be done" in checkout.run("--dry-run", TABLE)
    checkout.append("src/fedshift/evaluations/fdse.py", "CHANGED = 1\n")
    assert jobs(checkout.run("metrics")) == {"evaluate": 1, "collect": 1}
    made = results(checkout)
    assert len(made) == 4
    (checkout.root / "src/fedshift/evaluations/fdse.py").write_text(before)
    assert jobs(checkout.run("metrics")) == {"evaluate": 1, "collect": 1}
    assert results(checkout) == made  # going back finds the old ones


def test_an_evaluation_of_finished_runs_trains_nothing(checkout: Checkout) -> None:
    """The file that docs/extend.md prints, of an experiment that is done, and one of ours."""
    before = results(checkout)
    runs = {path: path.stat().st_mtime_ns for path in checkout.root.glob("results/runs/**/summary.json")}
    block = python_block("extend.md", "class Hardest(")
    page = checkout.root / "src/fedshift/evaluations/hardest.py"
    page.write_text(block)
    checkout.append("experiments/adapted.yaml", "evaluations: [confusion, {hardest: {images: 3}}]\n")
    output = checkout.run("all")
    assert jobs(output) == dict.fromkeys(RULES[1:], 1)
    after = results(checkout)
    assert {path: after[path] for path in before} == before and len(after) == len(before) + 4
    assert {path: path.stat().st_mtime_ns for path in runs} == runs
    folder = checkout.root / "results/metrics/adapted.evaluated"
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert names == {
        "confusion.parquet", "hardest-3.parquet", "fedbn-adapted.parquet", "fdse-adapted.parquet"
    }  # fmt: skip
    shown = pd.read_parquet(folder / "confusion.parquet")
    assert {*shown["method"]} == {"fedbn", "fdse"} and {*shown["split"]} == {"test", "target"}
    losses = pd.read_parquet(folder / "hardest-3.parquet")
    assert losses.groupby(["method", "client"]).size().eq(3).all() and losses["loss"].gt(0).all()
    checkout.append("src/fedshift/evaluations/hardest.py", "CHANGED = 1\n")
    output = checkout.run("metrics")
    assert jobs(output) == {"evaluate": 1, "collect": 1}
    assert len(results(checkout)) == len(after) + 2
    page.write_text(block)
    assert jobs(checkout.run("metrics")) == {"evaluate": 1, "collect": 1}
    assert len(results(checkout)) == len(after) + 2  # going back finds the old ones


def test_an_experiment_that_evaluates_nothing_has_no_such_job(checkout: Checkout) -> None:
    output = checkout.run("--dry-run", "all", "--config", "experiments=[plain]")
    assert jobs(output) == dict.fromkeys(RULES[2:], 1)
