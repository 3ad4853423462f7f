"""What `fedshift new` writes is whole: in a scratch copy of the checkout, its tests pass at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedshift.skeletons import SKELETONS
from tests.conftest import ROOT
from tests.documents import copied
from tests.verbs import done, fedshift, refused

COPIED = ("src", "tests", "reference", "experiments", "examples")
KIND_TESTS = {  # what tests each of a kind, beside its own test
    "method": ["tests/contract"],
    "model": ["tests/models/test_base.py"],
    "dataset": ["tests/data/test_datasets.py"],
    "evaluation": ["tests/evaluations/test_contract.py"],
}


def python(root: Path, *arguments: str) -> str:
    """What `python ARGUMENTS` writes in the copy, with its sources."""
    environment = os.environ | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    command = [sys.executable, *arguments]
    ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in SKELETONS if kind != "experiment"])
def test_it_passes_its_tests_as_it_is_written(kind: str, tmp_path: Path) -> None:
    root = copied(tmp_path)
    written = python(root, "-m", "fedshift", "new", kind, "mine")
    files = [line for line in written.splitlines() if line.endswith("mine.py") and line[0] != " "]
    assert len(files) == 2 and all(Path(file).is_relative_to("own") for file in files)
    assert SKELETONS[kind][0] in written
    tests = ["own/tests/test_mine.py", *KIND_TESTS.get(kind, [])]
    output = python(root, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, "-k", "mine")
    assert "passed" in output and "failed" not in output
    python(root, "-m", "ruff", "check", *files)
    python(root, "-m", "ruff", "format", "--check", *files)
    assert "mine" in python(root, "-m", "fedshift", "list", f"{kind}s")


def test_an_experiment_can_be_planned(project: Path) -> None:
    assert "experiments/own/first.yaml" in done(fedshift(project, "new", "experiment", "own/first"))
    assert "own/first" in done(fedshift(project, "plan", "own/first"))


def test_every_kind_has_one() -> None:
    assert [*SKELETONS] == [
        "method",
        "model",
        "dataset",
        "partition",
        "experiment",
        "evaluation",
        "metric",
        "figure",
    ]
    for page, _ in SKELETONS.values():
        assert (ROOT / page).is_file()


def test_what_is_there_is_left_alone(project: Path) -> None:
    refused(fedshift(project, "new", "method", "fedavg"), "'fedavg' is there already")
    refused(fedshift(project, "new", "method", "Mine"), "'Mine' cannot be a name")
    for word in ("class", "none", "base"):
        refused(
            fedshift(project, "new", "method", word), f"'{word}' cannot be a name", "No keyword of Python"
        )
    refused(fedshift(project, "new", "experiment", "demo"), "is there already")
    assert not (project / "own").exists()
