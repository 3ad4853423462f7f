"""Every patch in this folder is a plausible bug; the tests must notice each without looking at a reference vector."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.methods.files import files_of

HERE = Path(__file__).parent
PATCHES = sorted(HERE.glob("*/*.patch"))
FOLDERS = sorted({patch.parent.name for patch in PATCHES})
TUNING = ("experiments/test_tuning", "analysis/test_tuning", "planning/test_tuned")
# Whose tests those of a folder are, where it is not a method's name.
SHARED = {
    "engine": ["tests/federation", "tests/contract"],
    "models": ["tests/models"],
    "tuning": [f"tests/{name}.py" for name in TUNING],
}
COPIED = ("src", "tests", "benchmarks", "reference", "experiments", "pyproject.toml", "params.yaml")

pytestmark = pytest.mark.mutants


def tree(folder: Path) -> Path:
    """A copy of what the tests need."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, folder / name)
    return folder


def arguments_of(name: str) -> list[str]:
    """A method's own tests and its part of the contract; those of the engine or of the networks: arguments of pytest."""
    if name in SHARED:
        return SHARED[name]
    files = [file.name for file in files_of(name)]
    assert files, f"no tests/methods/test_{name}.py"
    chosen = " or ".join([*files, f"[{name}-", f"-{name}]", f"[{name}]"])
    return [*(f"tests/methods/{file}" for file in files), "tests/contract", "-k", chosen]


def without_parity(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The tests of a folder of patches, without the parity tests, stopping at the first failure."""
    code = f"""
import sys, pytest, fedshift
assert fedshift.__file__.startswith({str(folder / "src")!r}), fedshift.__file__
sys.exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", "not parity", *{arguments_of(name)!r}]))
"""
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, timeout=900
    )


@pytest.mark.parametrize("name", FOLDERS)
def test_without_a_bug_they_pass(name: str, tmp_path: Path) -> None:
    done = without_parity(name, tree(tmp_path))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: f"{patch.parent.name}-{patch.stem}")
def test_a_bug_is_noticed(patch: Path, tmp_path: Path) -> None:
    folder = tree(tmp_path)
    subprocess.run(
        ["patch", "-p1", "--fuzz=0", "-i", str(patch)], cwd=folder, check=True, capture_output=True
    )
    done = without_parity(patch.parent.name, folder)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout[-3000:] + done.stderr[-2000:]
    assert " failed" in done.stdout.splitlines()[-1]
