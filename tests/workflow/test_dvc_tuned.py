"""A tuned experiment through the stages of dvc.yaml."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.workflow.checkout import TUNED, Checkout
from tests.workflow.test_dvc import REPOSITORY, git, run

pytestmark = [pytest.mark.workflow, pytest.mark.slow, pytest.mark.timeout(1800)]
RUNS = 4 + 2  # of the search, and final


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A project of DVC with the tuned experiment, made by `dvc repro`."""
    root = tmp_path_factory.mktemp("first")
    made = Checkout.made(root, {"tuned": TUNED}, "experiments: [tuned]\npack: 2\n")
    (root / ".dvc").mkdir()
    for name in ("dvc.yaml", ".dvcignore", ".gitignore", ".dvc/config", ".dvc/.gitignore"):
        if (REPOSITORY / name).is_file():
            shutil.copy2(REPOSITORY / name, root / name)
    git(root, "init", "--quiet")
    run(root, "dvc", "remote", "add", "--default", "there", str(tmp_path_factory.mktemp("remote")))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "project")
    run(root, "dvc", "repro", "report")
    return made


def trained(root: Path) -> dict[str, int]:
    """Finished runs, and when."""
    return {str(path): path.stat().st_mtime_ns for path in root.glob("results/runs/**/summary.json")}


def test_both_stages_are_made_at_once(first: Checkout) -> None:
    assert len(trained(first.root)) == RUNS and len(first.choices()) == 1
    assert (first.root / "results/tables/tuned/table.csv").is_file()
    assert (first.root / "results/tables/tuned/chosen.md").is_file()


def test_the_second_time_lists_the_final_runs_and_the_third_is_quiet(first: Checkout) -> None:
    before, choices = trained(first.root), first.choices()
    assert len((first.root / "results/runs.txt").read_text().split()) == RUNS - 2
    run(first.root, "dvc", "repro", "report")
    assert len((first.root / "results/runs.txt").read_text().split()) == RUNS
    run(first.root, "dvc", "repro", "report")
    assert set(json.loads(run(first.root, "dvc", "status", "--json", "report", "--with-deps"))) == {
        "plan"
    }  # always made anew
    assert trained(first.root) == before and first.choices() == choices
