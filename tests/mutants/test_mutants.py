"""Every patch in this folder is a plausible bug; the tests must notice each without looking at a reference vector."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedshift.registry import own
from tests.conftest import ROOT

HERE = Path(__file__).parent
PATCHES = sorted(HERE.glob("*/*.patch"))
METHODS = sorted({patch.parent.name for patch in PATCHES})
COPIED = ("src", "tests", "reference", "experiments", "pyproject.toml", "params.yaml")

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


def owner(file: Path) -> str:
    """The method of test_<method>.py or test_<method>_<subject>.py: the longest name that begins the file's."""
    return max(
        (name for name in own("methods") if f"{file.stem}_".startswith(f"test_{name}_")), key=len, default=""
    )


def tests_of(method: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The method's own tests and its part of the contract, without the parity tests, stopping at the first failure."""
    files = [
        file.name for file in sorted((ROOT / "tests" / "methods").glob("test_*.py")) if owner(file) == method
    ]
    assert files, f"no tests/methods/test_{method}.py"
    chosen = " or ".join([*files, f"[{method}-", f"-{method}]", f"[{method}]"])
    code = f"""
import sys, pytest, fedshift
assert fedshift.__file__.startswith({str(folder / "src")!r}), fedshift.__file__
sys.exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", "not parity",
    *{[f"tests/methods/{file}" for file in files]!r}, "tests/contract", "-k", {chosen!r}]))
"""
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, timeout=900
    )


@pytest.mark.parametrize("method", METHODS)
def test_without_a_bug_they_pass(method: str, tmp_path: Path) -> None:
    done = tests_of(method, tree(tmp_path))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: f"{patch.parent.name}-{patch.stem}")
def test_a_bug_is_noticed(patch: Path, tmp_path: Path) -> None:
    folder = tree(tmp_path)
    subprocess.run(
        ["patch", "-p1", "--fuzz=0", "-i", str(patch)], cwd=folder, check=True, capture_output=True
    )
    done = tests_of(patch.parent.name, folder)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout[-3000:] + done.stderr[-2000:]
    assert " failed" in done.stdout.splitlines()[-1]
