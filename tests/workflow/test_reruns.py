"""What a change re-runs: exactly what it can change. One checkout, used from top to bottom."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.workflow.checkout import Checkout, tiny
from tests.workflow.conftest import FIRST

pytestmark = [pytest.mark.workflow, pytest.mark.slow, pytest.mark.timeout(1200)]
FEDPROX = "src/fedshift/methods/fedprox.py"
DIGITS = "src/fedshift/data/datasets/digits.py"
# Snakemake says of code and parameters that they have changed, too.
CHANGED = "or its model has changed since"


@pytest.fixture(scope="module")
def checkout(finished: Checkout) -> Checkout:
    """What is changed from test to test."""
    return finished


def test_first_run_trains_what_two_experiments_share_once(checkout: Checkout) -> None:
    output = (checkout.root / FIRST).read_text()
    assert output.count("rule train:") == 3  # fedavg, fedprox, local: fedavg stands in both experiments
    for experiment in ("demo", "other"):
        assert (checkout.root / "results" / "tables" / experiment / "table.csv").stat().st_size
        assert any((checkout.root / "results" / "figures" / experiment).iterdir())
    assert len(list((checkout.root / "results" / "packs").glob("digits/*/*.json"))) == 3
    assert len(list((checkout.root / "results" / "runs").rglob("summary.json"))) == 3


def test_a_second_time_and_a_comment_re_run_nothing(checkout: Checkout) -> None:
    assert "Nothing to be done" in checkout.run("--dry-run", "all")
    stamps = {path: path.stat().st_ino for path in (checkout.root / "results" / "packs").rglob("*.json")}
    before = checkout.append(FEDPROX, "# a comment\n")
    assert "Nothing to be done" in checkout.run("--dry-run", "all")
    assert {path: path.stat().st_ino for path in stamps} == stamps  # a new plan, and no stamp written again
    (checkout.root / FEDPROX).write_text(before)


def test_another_engine_version_re_runs_everything(checkout: Checkout) -> None:
    checkout.edit("src/fedshift/identity.py", "ENGINE_VERSION = 1", "ENGINE_VERSION = 2")
    assert checkout.to_train("all") == ["fedavg", "fedprox", "local"]
    checkout.edit("src/fedshift/identity.py", "ENGINE_VERSION = 2", "ENGINE_VERSION = 1")


def test_a_changed_equation_is_told_and_its_runs_are_trained_again_where_that_is_asked_for(
    checkout: Checkout,
) -> None:
    """The other way of the proximal term, and back."""
    (before,) = (checkout.root / "results/runs/digits/fedprox").rglob("summary.json")
    below = before.parent.relative_to(checkout.root).as_posix()
    old = json.loads(before.read_text())
    checkout.edit(FEDPROX, "alpha=mu", "alpha=-mu")
    for _ in range(2):  # with a new plan, and with one that was there
        output = checkout.run("--dry-run", "all")
        assert "rule train:" not in output
        (line,) = [line for line in output.splitlines() if CHANGED in line]
        assert "method fedprox or its model has changed since 1 runs were trained" in line and below in line
    assert "rule train:" not in checkout.run("demo")
    table = checkout.root / "results" / "tables" / "demo" / "table.md"
    assert "has changed since 1 of 2 runs were trained: fedprox (1)." in table.read_text()

    checkout.python("-m", "fedshift", "plan", "--retrain-changed")
    assert checkout.to_train("all") == ["fedprox"]
    output = checkout.run("all")
    assert output.count("rule train:") == 1 and CHANGED not in output
    assert "has changed since" not in table.read_text()
    new = json.loads(before.read_text())
    aside = before.parent.with_name(f"{before.parent.name}-{old['method_code']}")
    assert json.loads((aside / "summary.json").read_text()) == old
    assert new["digest"] == old["digest"] and new["method_code"] != old["method_code"]
    assert new["hashes"]["weights_last"] != old["hashes"]["weights_last"]

    checkout.edit(FEDPROX, "alpha=-mu", "alpha=mu")
    checkout.python("-m", "fedshift", "plan", "--retrain-changed")
    assert checkout.run("all").count("rule train:") == 1
    assert json.loads(before.read_text())["hashes"] == old["hashes"]


def test_another_version_of_a_data_set_is_prepared_and_trained_beside_the_old(checkout: Checkout) -> None:
    """Digits on inverted ground: the new runs are trained on the new pixels, not on those that were there."""
    line = "return RENDERINGS[domain](stroke, draws).astype(np.uint8)"
    checkout.edit(DIGITS, line, line.replace("RENDER", "255 - RENDER"))
    assert "rule prepare:" not in checkout.run("--dry-run", "metrics")
    checkout.edit(DIGITS, '    name = "digits"\n', '    name = "digits"\n    version = 9\n')
    output = checkout.run("metrics")
    assert [output.count(f"rule {name}:") for name in ("prepare", "train")] == [1, 3]
    folders = list(filter(Path.is_dir, (checkout.root / "data" / "prepared" / "digits").iterdir()))
    first, second = (np.load(folder / "images.npy")[:50] for folder in folders)
    assert np.array_equal(first, 255 - second)
    local = (checkout.root / "results" / "runs" / "digits" / "local").rglob("summary.json")
    weights = {path.parent.name: json.loads(path.read_text())["hashes"]["weights_last"] for path in local}
    assert len(weights) == len({*weights.values()}) == 2
    checkout.edit(DIGITS, "    version = 9\n", "")
    checkout.edit(DIGITS, line.replace("RENDER", "255 - RENDER"), line)
    output = checkout.run("--dry-run", "metrics")
    assert "rule prepare:" not in output and "rule train:" not in output


def test_full_reproduction_is_planned_before_any_data_are_there(checkout: Checkout) -> None:
    experiment = tiny("Photos", "fedavg").replace("plain", "photo") + "published: {}\n"
    experiment = experiment.replace("spec: {", "spec: {data: {dataset: pacs}, ")
    (checkout.root / "experiments" / "photos.yaml").write_text(experiment)
    output = checkout.run("--dry-run", "all", "--config", "experiments=[photos]")
    assert "rule verify:" in output
    assert output.count("rule train:") == 1
    done = checkout.snakemake("all", "--config", "experiments=[photos]")
    assert done.returncode != 0
    assert "fedshift fetch pacs" in done.stdout
