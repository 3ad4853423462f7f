"""What is lost or failed is trained again, and snakemake, `fedshift status` and `fedshift plan` agree on what that is;
files of a wrong clock and locks of a killed snakemake stop nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from fedshift.common.files import hold
from fedshift.planning import planfile
from tests.verbs import done, fedshift
from tests.workflow.checkout import Checkout, tiny
from tests.workflow.conftest import EXPERIMENTS, PARAMETERS

pytestmark = [pytest.mark.workflow, pytest.mark.slow, pytest.mark.timeout(1200)]
STATUS, PLAN, DRY_RUN = "status", "plan", "dry run"


def status(checkout: Checkout) -> dict[str, dict[str, str]]:
    """The runs of all requested experiments by directory."""
    told = json.loads(fedshift(checkout.root, "status", "--json").stdout)
    return {run["directory"]: run for experiment in told for run in experiment["runs"]}


def left(checkout: Checkout, first: str = STATUS) -> list[str]:
    """The methods of the runs that are left to train, on which all three agree, whichever is asked first."""

    def of_status() -> list[str]:
        return sorted(run["method"] for run in status(checkout).values() if to_do(run))

    def of_plan() -> int:
        total = json.loads(fedshift(checkout.root, "plan", "--json").stdout)["experiments"][-1]
        return total["runs"] - total["done"] - total.get("failed", 0)

    asked = {STATUS: of_status, PLAN: of_plan, DRY_RUN: lambda: checkout.to_train("all")}
    told = {name: asked[name]() for name in (first, *({*asked} - {first}))}
    assert told[STATUS] == told[DRY_RUN] and len(told[STATUS]) == told[PLAN], told
    return told[STATUS]


def to_do(run: dict[str, str]) -> bool:
    return run["state"] in ("missing", "interrupted") or (
        run["state"] == "failed" and "tries again" in run["why"]
    )


def run_of(checkout: Checkout, method: str) -> Path:
    """The directory of the run of a method."""
    (run,) = [run for run in planfile.runs(checkout.plan) if run.method == method]
    return checkout.root / run.directory


def tables(checkout: Checkout) -> dict[str, bytes]:
    """Every file of the tables and figures of `demo`."""
    folders = [checkout.root / "results" / kind / "demo" for kind in ("tables", "figures")]
    files = [path for folder in folders for path in sorted(folder.iterdir()) if path.is_file()]
    return {path.name: path.read_bytes() for path in files if not path.name.startswith(".")}


def test_a_run_that_failed_for_good_is_trained_once_its_reason_is_fixed(
    finished: Checkout, tmp_path: Path
) -> None:
    """Also after tables were made of the others; they become those of an undisturbed reproduction."""
    checkout = Checkout.made(tmp_path, EXPERIMENTS, PARAMETERS.replace("demo, other", "demo"))
    first = "results/runs/digits/fedavg/plain/seed0"
    told = checkout.snakemake(first, profile="profiles/local")
    assert told.returncode == 0 and "fedavg on digits, held out: plain, seed 0" in told.stdout, told.stdout
    trained = [path.parent.parent for path in checkout.root.glob("results/runs/**/summary.json")]
    assert trained == [checkout.root / first]
    assert [*checkout.root.glob("logs/train/digits/fedavg/*.log")]
    bad, line = run_of(checkout, "fedprox"), "    require(machine.device)\n"
    broken = f'{line}    if spec.method.name == "fedprox":\n        raise ValueError("no such layer")\n'
    checkout.edit("src/fedshift/training/run.py", line, broken)
    assert checkout.snakemake("all", profile="profiles/local").returncode == 1
    reason = status(checkout)[str(bad.relative_to(checkout.root))]["why"]
    assert "no such layer" in reason
    assert "table.csv" in tables(checkout) and tables(checkout) != tables(finished)
    assert left(checkout) == []  # until someone says otherwise

    checkout.edit("src/fedshift/training/run.py", broken, line)
    done(fedshift(checkout.root, "plan", "--retry-failed"))
    assert left(checkout, first=DRY_RUN) == ["fedprox"]
    assert reason.partition(" (")[0] in status(checkout)[str(bad.relative_to(checkout.root))]["why"]
    others = {path: path.stat().st_mtime_ns for path in checkout.root.glob("results/runs/**/summary.json")}
    told = checkout.snakemake("all", profile="profiles/local")
    assert told.returncode == 0, told.stdout
    assert {path: path.stat().st_mtime_ns for path in others} == others
    assert left(checkout) == [] and tables(checkout) == tables(finished)


@pytest.mark.parametrize(("lost", "first"), [("", DRY_RUN), ("summary.json", PLAN)])
def test_a_lost_directory_or_file_of_a_run_is_noticed(
    lost: str, first: str, finished: Checkout, tmp_path: Path
) -> None:
    path = run_of(finished, "fedavg") / lost  # two experiments use it
    marks = [finished.root / "results" / "metrics" / f"{name}.collected" for name in EXPERIMENTS]
    for mark in marks:
        mark.touch()
    shutil.move(path, tmp_path / "lost")
    assert left(finished, first) == ["fedavg"]
    assert not any(mark.exists() for mark in marks)
    assert finished.to_train("results/tables/demo/table.csv") == ["fedavg"]
    shutil.move(tmp_path / "lost", path)


def test_a_deleted_stamp_is_written_again(finished: Checkout) -> None:
    for stamp in (finished.root / "results" / "packs").rglob("*.json"):
        stamp.unlink()
    assert left(finished, DRY_RUN) == []


def test_an_experiment_that_grows_after_a_loss_gets_both(finished: Checkout, tmp_path: Path) -> None:
    """The table had got worse by growing."""
    checkout = Checkout(tmp_path / "copy")
    shutil.copytree(finished.root, checkout.root, symlinks=True)
    before = tables(checkout)
    shutil.rmtree(run_of(checkout, "fedprox"))
    checkout.edit("experiments/other.yaml", "  local:", "  local:\n  fedbn:")
    assert left(checkout) == ["fedbn", "fedprox"]
    told = checkout.snakemake("results/tables/demo/table.csv", "results/figures/demo")
    assert told.returncode == 0, told.stdout
    assert left(checkout) == ["fedbn"] and tables(checkout) == before


def test_pulled_results_are_restored_and_not_trained(finished: Checkout, tmp_path: Path) -> None:
    """As in a second clone after `dvc pull`: stamps and metrics, and no run directory."""
    checkout = Checkout(tmp_path / "clone")
    shutil.copytree(finished.root, checkout.root, symlinks=True, ignore=shutil.ignore_patterns("runs"))
    told = checkout.run("--dry-run", "all")
    assert "3 runs restored" in told and "rule train:" not in told
    assert left(checkout) == []
    assert not list(checkout.root.glob("results/runs/**/weights"))
    shutil.rmtree(run_of(checkout, "local"))  # others are there: this one is trained
    assert left(checkout) == ["local"]


def test_forcing_a_finished_run_says_how_to_train_it_again(finished: Checkout) -> None:
    run = run_of(finished, "local").relative_to(finished.root)
    for words in (["-R", "train"], ["-f", str(run)]):
        assert "To train one again, delete its directory" in finished.run("--dry-run", *words)


def test_what_is_dated_tomorrow_stops_no_job(tmp_path: Path) -> None:
    """Snakemake takes what is made of an input of tomorrow for broken, and deletes it each time."""
    made = Checkout.made(tmp_path, {"demo": tiny("Demo", "fedavg")}, "experiments: [demo]\n")
    made.run("images")
    tomorrow = time.time() + 86_400
    (images,) = (path for path in (made.root / "data" / "prepared" / "digits").iterdir() if path.is_dir())
    for path in (images, *images.iterdir()):
        os.utime(path, (tomorrow, tomorrow))
    made.run("metrics")
    stamps = [*(made.root / "results" / "packs").rglob("*.json")]
    collected = [*(made.root / "results" / "metrics").iterdir()]
    for path in (*stamps, made.root / "experiments" / "demo.yaml"):
        os.utime(path, (tomorrow, tomorrow))
    for path in collected:
        path.unlink()
    made.run("metrics")
    for path in collected:
        os.utime(path, (tomorrow, tomorrow))
    assert "rule train:" not in made.run("all")
    assert (made.root / "results" / "tables" / "demo" / "table.csv").is_file()


def test_locks_go_and_no_plan_is_made(tmp_path: Path) -> None:
    made = Checkout.made(tmp_path, {"demo": tiny("Demo", "fedavg")}, "experiments: [demo]\n")
    locks = made.root / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    (locks / "0.input.lock").write_text("results/metrics/demo.parquet\n")
    made.run("--unlock")
    assert not [*made.root.rglob("*.lock")] and not (made.root / "results").exists()


def test_locks_of_a_process_that_was_killed_go_and_those_of_another_stay(tmp_path: Path) -> None:
    """Snakemake's locks name no process: all that its LockException could say was `--unlock`."""
    made = Checkout.made(tmp_path, {"demo": tiny("Demo", "fedavg")}, "experiments: [demo]\n")
    lock = made.root / ".snakemake" / "locks" / "0.output.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("results/metrics/demo.parquet\n")
    works = made.root / ".snakemake" / "fedshift" / "other.json"
    works.parent.mkdir()
    file = hold(works)
    assert file is not None
    output = made.run("--dry-run")
    assert f"process {os.getpid()} on " in output and "fedshift run demo -- --unlock" in output
    assert lock.is_file() and works.is_file()
    os.close(file)
    assert "Another Snakemake" not in made.run("--dry-run")
    assert not lock.exists() and not works.exists()
