"""What `fedshift new` writes is whole: in a scratch copy of the checkout, its tests pass at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedshift.cli.new import KINDS
from fedshift.skeletons import SKELETONS
from tests.conftest import ROOT
from tests.documents import copied
from tests.verbs import done, fedshift, refused

TESTS = {
    "method": [
        "tests/methods/test_mine.py",
        "tests/contract/test_methods.py",
        "tests/contract/test_server_rules.py",
        "tests/contract/test_defaults.py",
        "tests/experiments/test_protocols.py",
    ],
    "dataset": ["tests/data/test_mine.py", "tests/data/test_datasets.py"],
    "metric": ["tests/analysis/test_metrics.py"],
    "figure": ["tests/analysis/figures/test_mine.py"],
}


def python(root: Path, *arguments: str) -> str:
    """What `python ARGUMENTS` writes in the copy, with its sources."""
    environment = os.environ | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    command = [sys.executable, *arguments]
    ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", TESTS)
def test_it_passes_its_tests_as_it_is_written(kind: str, tmp_path: Path) -> None:
    root = copied(tmp_path)
    written = python(root, "-m", "fedshift", "new", kind, "mine")
    for place, line in SKELETONS[kind].add.items():
        file, own = root / place.partition(",")[0], line.format(name="mine")
        assert f"Add to {place}:\n{own}" in written
        text = file.read_text()
        before = next(word for word in ("methods:\n", '        "loss": 0.5,\n') if word in text)
        file.write_text(text.replace(before, f"{before}{own}\n", 1))
    assert "mine.py" in written and SKELETONS[kind].page in written
    chosen = (
        "mine or defaults or unified or every_metric or each_is" if kind in ("method", "metric") else "mine"
    )
    output = python(root, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS[kind], "-k", chosen)
    assert "passed" in output and "failed" not in output
    files = [line for line in written.splitlines() if line.endswith("mine.py") and line[0] != " "]
    python(root, "-m", "ruff", "check", *files)
    python(root, "-m", "ruff", "format", "--check", *files)
    if kind == "method":
        assert "mine" in python(root, "-m", "fedshift", "list", "methods")
        # by the name alone, defaults that were changed would pass
        assert "tests/contract -k 'mine or defaults'" in written


def test_an_experiment_can_be_planned(project: Path) -> None:
    assert "experiments/own/first.yaml" in done(fedshift(project, "new", "experiment", "own/first"))
    assert "own/first" in done(fedshift(project, "plan", "own/first"))


def test_every_kind_has_one() -> None:
    assert tuple(SKELETONS) == KINDS
    for skeleton in SKELETONS.values():
        assert (ROOT / skeleton.page).is_file()


def test_what_is_there_is_left_alone(project: Path) -> None:
    for kind, name, *said in (
        ("method", "fedavg", "'fedavg' is there already"),
        ("method", "Mine", "'Mine' cannot be a name"),
        *(
            ("method", word, f"'{word}' cannot be a name", "No keyword of Python")
            for word in ("class", "none", "base")
        ),
        ("method", "mine", "no checkout of fedshift", "examples/README.md"),
        ("experiment", "demo", "is there already"),
    ):
        refused(fedshift(project, "new", kind, name), *said)
    assert not (project / "src").exists()
