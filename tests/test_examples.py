"""The package in examples/ is found, tested and trained without an edit to the project: installed for real, used in processes of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from examples.fedavgm import FedAvgM
from fedshift import identity
from fedshift.spec.block import params
from fedshift.testing.contract import MethodContract, ServerRuleContract
from fedshift.testing.toys import finish, quadratics
from tests.conftest import ROOT
from tests.workflow.checkout import Checkout, tiny

CHANGED = "has changed since"
ALL_BUT_SOURCES = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that examples/ was installed into; pip builds beside the sources, so it gets a copy."""
    folder = tmp_path_factory.mktemp("examples")
    source = shutil.copytree(ROOT / "examples", folder / "source", ignore=ALL_BUT_SOURCES)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index"]
    target = folder / "installed"
    command = [*pip, "--no-deps", "--no-build-isolation", "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def played(installed: Path, *arguments: str) -> str:
    """What pytest writes; its temporary folders are its own: what another pytest left behind would warn."""
    own_folder = f"--basetemp={installed.parent / 'basetemp'}"
    return python(installed, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", own_folder, *arguments)


def python(installed: Path, *arguments: str) -> str:
    """What `python ARGUMENTS` says in the project's root, where the package is installed."""
    environment = os.environ | {"PYTHONPATH": str(installed)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_suites_test_them_unasked(installed: Path) -> None:
    suites = "contract", "models", "federation/test_layout.py", "evaluations/test_contract.py"
    chosen = (*(f"tests/{suite}" for suite in suites), "-k", "fedavgm or convmixer or hardest")
    said = played(installed, *chosen)
    passed = re.findall(r"^PASSED (\S+)", said, re.MULTILINE)
    assert re.search(rf"^{len(passed)} passed, \d+ deselected in ", said, re.MULTILINE), said  # none skipped
    assert sum(name.startswith("tests/contract/") and "fedavgm" in name for name in passed) > 10
    assert sum("convmixer" in name for name in passed) > 5
    of_evaluations = [name for name in passed if name.startswith("tests/evaluations/")]
    assert sum("hardest" in name for name in of_evaluations) == 1
    assert sum("fedavgm" in name for name in of_evaluations) == 1


@pytest.mark.slow
def test_the_package_tests_its_method_by_the_contract_suite(installed: Path) -> None:
    own = "examples/test_fedavgm.py"
    said = played(installed, own)
    passed = re.findall(r"^PASSED (\S+)", said, re.MULTILINE)
    assert re.search(rf"^{len(passed)} passed in ", said, re.MULTILINE), said
    tested = {name.partition("::")[2].partition("[")[0].removeprefix("TestFedAvgM::") for name in passed}
    assert tested == {
        n for suite in (MethodContract, ServerRuleContract) for n in dir(suite) if n.startswith("test_")
    }


def test_what_the_projects_own_pages_list_stays_its_own(installed: Path) -> None:
    of = "from fedshift.common.registry import names, own; print(*(set(names(kind)) - set(own(kind)) for kind in ('methods', 'models', 'figures', 'evaluations')))"
    assert python(installed, "-c", of) == "{'fedavgm'} {'convmixer'} {'gap'} {'hardest'}\n"


# ---- in an experiment

TABLE = "results/tables/demo/table.csv"
FIGURES = "results/figures/demo"
ASKED = ("--config", "experiments=[demo]", "--", TABLE, FIGURES)  # for what params.yaml does not list


@dataclass(frozen=True)
class Extended(Checkout):
    """A checkout beside which the package is installed, in `plugins`."""

    def start(self, *arguments: str, **given: Any) -> subprocess.Popen[str]:
        return super().start(*arguments, **given, PYTHONPATH=str(self.root / "plugins"))


@pytest.fixture(scope="module")
def extended(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Extended:
    """The demo with one target, one seed and two rounds: fedavg, fedavgm, and fedavg on a convmixer; trained."""
    entry = "  convmixer: {method: {name: fedavg}, model: {name: convmixer}}\n"
    demo = (
        tiny("Demo", "fedavg", "fedavgm").replace("axes:", f"{entry}axes:").replace("rounds: 1", "rounds: 2")
        + "figures: [curves, {gap: {relative: true}}]\nevaluations: [{hardest: {images: 2}}]\n"
    )
    made = Extended.made(tmp_path_factory.mktemp("extended"), {"demo": demo}, "experiments: [other]\n")
    assert isinstance(made, Extended)
    shutil.copytree(installed, made.root / "plugins")
    made.run(*ASKED)
    return made


@pytest.mark.slow
@pytest.mark.workflow
def test_its_rows_stand_in_the_table(extended: Extended) -> None:
    table = pd.read_csv(extended.root / TABLE)
    assert table.groupby("method")["mean"].count().to_dict() == {"fedavg": 2, "fedavgm": 2, "convmixer": 2}
    assert table["mean"].between(0, 100).all()
    records = pd.read_parquet(extended.root / "results" / "metrics" / "demo.parquet")
    losses = records[(records["stage"] == "post_agg") & (records["metric"] == "loss")]
    by = {key: part["value"].tolist() for key, part in losses.groupby(["method", "round"])}
    assert by["fedavgm", 1] == by["fedavg", 1] != by["convmixer", 1]  # the first step has no momentum yet
    assert by["fedavgm", 2] != by["fedavg", 2]


@pytest.mark.slow
@pytest.mark.workflow
def test_its_figure_and_its_evaluation_are_made_and_a_change_of_them_trains_nothing(
    extended: Extended,
) -> None:
    files = {path.name for path in (extended.root / FIGURES).iterdir()}
    assert {"gap-True.svg", "gap-True.pdf", "gap-True.png", "gap-True.csv", "curves.svg"} <= files
    found = pd.read_parquet(extended.root / "results" / "metrics" / "demo.evaluated" / "hardest-2.parquet")
    assert {*found["method"]} == {"fedavg", "fedavgm", "convmixer"} and len(found) == 3 * 4 * 2
    for file, more, rule in (
        ("plugins/hardest.py", "CHANGED = 1\n", "evaluate"),
        ("plugins/gap.py", "CHANGED = 1\n", "figure"),
        ("experiments/demo.yaml", "notes: [drawn anew]\n", "figure"),
    ):
        before = extended.append(file, more)
        again = extended.run("--dry-run", *ASKED)
        assert f"rule {rule}:" in again and "rule train:" not in again
        (extended.root / file).write_text(before)


@pytest.mark.slow
@pytest.mark.workflow
def test_changed_code_of_a_plugin_is_told_and_a_comment_is_not(extended: Extended) -> None:
    paths = "plugins/fedavgm.py", "plugins/convmixer.py"
    before = [extended.append(path, "# a comment\n") for path in paths]
    assert CHANGED not in extended.run("--dry-run", *ASKED)
    for path in paths:
        extended.append(path, "CHANGED = 1\n")
    said = [line for line in extended.run("--dry-run", *ASKED).splitlines() if CHANGED in line]
    named = sorted(found[1] for line in said if (found := re.search(r"method (\S+) or its model", line)))
    assert named == ["fedavg", "fedavgm"]  # one fedavg: the one on a convmixer
    for path, text in zip(paths, before, strict=True):
        (extended.root / path).write_text(text)
    assert CHANGED not in extended.run("--dry-run", *ASKED)


def test_the_fingerprint_of_a_plugin_covers_what_it_takes_from_the_package() -> None:
    """A plug-in that builds on a method or a layer changes with it."""
    assert "fedshift.models.layers.blocks" in identity._imports("examples.convmixer")
    assert "fedshift.federation.method" in identity._imports("examples.fedavgm")


# ---- its numbers


def fedavgm(momentum: float) -> FedAvgM:
    return FedAvgM(params(FedAvgM, {"momentum": momentum}))


def test_three_rounds_by_hand() -> None:
    """h = 1, 2 and c = 0, 3, one step of lr .1 each: delta = .15 (w - 2), so w = 1, 1.15, 1.3525, 1.550875 at momentum .5."""
    federation = finish(quadratics(fedavgm(0.5), [1.0, 2.0], [0.0, 3.0], 1.0, 0.1, 1, 3))
    assert federation.server.slot.v.tolist() == pytest.approx([-0.198375], abs=1e-12)
    assert federation.server.row.tolist() == pytest.approx([1.550875], abs=1e-12)


def test_a_plugin_with_a_name_of_ours_is_refused(tmp_path: Path) -> None:
    described = tmp_path / "taken-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: taken\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[fedshift.methods]\nfedprox = taken:Mine\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "fedshift", "list", "methods"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "taken:Mine: 'fedprox' is the name of another one" in done.stderr
    assert "the entry in the group fedshift.methods" in done.stderr
