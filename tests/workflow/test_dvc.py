"""DVC around snakemake: a second time builds nothing, and on a second clone after `fedshift pull` nothing is trained."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.workflow.checkout import Checkout

REPOSITORY = Path(__file__).parents[2]
GIT = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org"]


@pytest.mark.slow
def test_a_plan_that_fails_leaves_the_list_of_runs(project: Path) -> None:
    command = yaml.safe_load((REPOSITORY / "dvc.yaml").read_text())["stages"]["plan"]["cmd"]
    environment = os.environ | {
        "PYTHONPATH": str(REPOSITORY / "src"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    lists = []
    for name, status in (("demo", 0), ("nothing", 2)):
        (project / "params.yaml").write_text(f"experiments: [{name}]\n")
        planned = subprocess.run(["sh", "-c", command], cwd=project, env=environment, check=False)
        assert planned.returncode == status
        lists.append((project / "results" / "runs.txt").read_text())
    assert lists[0] and lists[1] == lists[0]


@pytest.fixture(scope="module")
def clones(checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A project with one experiment whose results were made and pushed, and a fresh clone of it."""
    first, second = checkout.root, tmp_path_factory.mktemp("second") / "clone"
    (first / "params.yaml").write_text("experiments: [demo]\npack: 2\n")
    (first / ".dvc").mkdir()
    for name in ("dvc.yaml", ".dvcignore", ".gitignore", ".dvc/config", ".dvc/.gitignore"):
        if (REPOSITORY / name).is_file():
            shutil.copy2(REPOSITORY / name, first / name)
    shutil.copytree(REPOSITORY / ".dvc" / "plots", first / ".dvc" / "plots")
    remote = tmp_path_factory.mktemp("remote")
    git(first, "init", "--quiet")
    run(first, "dvc", "remote", "add", "--default", "there", str(remote))
    git(first, "add", "--all")
    git(first, "commit", "--quiet", "--message", "project")
    run(first, "dvc", "repro")
    git(first, "add", "--all")
    git(first, "commit", "--quiet", "--message", "results")
    run(first, "dvc", "push")
    git(first, "clone", "--quiet", str(first), str(second))
    return first, second


def git(root: Path, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=root, check=True)


def call(root: Path, module: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "FEDSHIFT_PLAN"}
    environment |= {
        "PYTHONPATH": str(root / "src"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "SNAKEMAKE_PROFILE": "profiles/ci",
    }
    return subprocess.run(
        [sys.executable, "-m", module, *words], cwd=root, env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip


def run(root: Path, module: str, *words: str) -> str:
    done = call(root, module, *words)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.slow
@pytest.mark.workflow
def test_second_repro_builds_nothing(clones: tuple[Path, Path]) -> None:
    for chosen in (["report"], []):
        again = run(clones[0], "dvc", "repro", *chosen)
        assert "Stage 'report' didn't change, skipping" in again
        assert "Running stage 'plan'" in again  # each time: only a plan knows what is to be done
        assert again.count("Running stage") == 1


@pytest.mark.slow
@pytest.mark.workflow
def test_second_clone_trains_nothing_after_a_pull(clones: tuple[Path, Path]) -> None:
    first, second = clones
    assert "2 runs made elsewhere" in run(second, "fedshift", "pull")
    dry = run(second, "snakemake", "--profile", "profiles/ci", "--dry-run", "all")
    assert "Nothing to be done" in dry
    assert "missing provenance" not in dry  # so that a changed parameter is noticed from now on
    summaries = {
        path.relative_to(first): path.read_bytes() for path in first.glob("results/runs/**/summary.json")
    }
    assert {
        path.relative_to(second): path.read_bytes() for path in second.glob("results/runs/**/summary.json")
    } == summaries
    page = "results/report/all/index.html"
    assert (second / page).read_bytes() == (first / page).read_bytes()
    again = run(second, "dvc", "repro")
    assert again.count("Running stage") == 1 and "Running stage 'plan'" in again


@pytest.mark.slow
@pytest.mark.workflow
def test_method_and_seed_added_to_what_was_pulled_are_all_that_is_trained(
    clones: tuple[Path, Path], tmp_path: Path
) -> None:
    first, third = clones[0], tmp_path / "third"
    git(first, "clone", "--quiet", str(first), str(third))
    run(third, "fedshift", "pull")
    before = pd.read_csv(third / "results/tables/demo/table.csv").set_index(["method", "target", "metric"])
    path = third / "experiments" / "demo.yaml"
    old = set(third.glob("results/runs/**/summary.json"))
    grown = path.read_text().replace("  fedprox:", "  fedprox:\n  local:")
    path.write_text(grown.replace("seed: [0]", "seed: [0, 1]"))
    run(third, "snakemake", "--profile", "profiles/ci", "demo")
    trained = set(third.glob("results/runs/**/weights"))
    assert (
        len(old) == 2 and len(trained) == 4
    )  # local twice, the second seed of the others; nothing that was pulled
    assert not {path.parent for path in trained} & {path.parent for path in old}
    after = pd.read_csv(third / "results/tables/demo/table.csv").set_index(["method", "target", "metric"])
    assert set(after.index.get_level_values("method")) == {"fedavg", "fedprox", "local"}
    assert (after["seeds"] == 2).all() and (before["seeds"] == 1).all()


@pytest.mark.slow
@pytest.mark.workflow
def test_what_changes_rows_and_no_run_is_written_by_the_stage_that_keeps_it(
    clones: tuple[Path, Path], tmp_path: Path
) -> None:
    first, fourth = clones[0], tmp_path / "fourth"
    git(first, "clone", "--quiet", str(first), str(fourth))
    run(fourth, "fedshift", "pull")
    demo = fourth / "experiments" / "demo.yaml"
    renamed = demo.read_text().replace("  fedprox:", "  proximal: {method: {name: fedprox}}")
    demo.write_text(renamed)
    demo.with_name("twin.yaml").write_text(renamed)  # shares all runs
    for asked in (["demo"], ["demo", "twin"], ["twin"]):  # any list will do
        (fourth / "params.yaml").write_text(f"experiments: [{', '.join(asked)}]\npack: 2\n")
        run(fourth, "dvc", "repro")
        for name in asked:
            metrics = pd.read_parquet(fourth / "results" / "metrics" / f"{name}.parquet")
            assert set(metrics["method"]) == {"fedavg", "proximal"}
        assert set(json.loads(run(fourth, "dvc", "status", "--json"))) == {"plan"}  # always made anew
    assert (fourth / "results" / "tables" / "twin" / "table.csv").is_file()
    names = [(root / "results" / "runs.txt").read_text() for root in (first, fourth)]
    assert names[0] == names[1]
    assert not list(fourth.glob("results/runs/**/weights"))  # nothing was trained


@pytest.mark.slow
@pytest.mark.workflow
def test_pull_says_how_to_replace_what_is_here(clones: tuple[Path, Path], tmp_path: Path) -> None:
    first, third = clones[0], tmp_path / "third"
    git(first, "clone", "--quiet", str(first), str(third))
    own = third / "results" / "tables" / "archived" / "table.md"
    own.parent.mkdir(parents=True)
    own.write_text("made by `fedshift table` before anything was pulled")
    refused = call(third, "fedshift", "pull")
    assert refused.returncode == 2 and "fedshift pull --force" in refused.stdout and own.exists()
    run(third, "fedshift", "pull", "--force")
    assert not own.exists() and (third / "results/tables/demo/table.csv").is_file()
    shutil.rmtree(third / ".dvc" / "cache")
    shutil.rmtree(third / "results" / "tables")
    run(third, "dvc", "remote", "add", "--local", "--default", "empty", str(tmp_path / "empty"))
    refused = call(third, "fedshift", "pull")
    assert refused.returncode == 2 and "results/tables" in refused.stdout and "dvc push" in refused.stdout
