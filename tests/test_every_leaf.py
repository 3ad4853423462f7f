"""No number of a reference file goes unused: plays the parity tests once more and looks at what they touched."""

import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tests
from tests.conftest import ROOT
from tests.reference import FOLDER, SEEN_FILE, Reference, leaves

pytestmark = pytest.mark.slow
FILES = sorted(path.name for path in FOLDER.iterdir())


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """file -> leaves that went into a parity test or were compared by one; all of them pass."""
    path: Path = tmp_path_factory.mktemp("parity") / "seen.json"
    files = [str(file) for file in (ROOT / "tests").rglob("test_*.py") if "mark.parity" in file.read_text()]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "parity", "-p", "no:cacheprovider", *sorted(files)]
    environment = {**os.environ, SEEN_FILE: str(path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    touched: dict[str, list[str]] = json.loads(path.read_text())
    return touched


def exceptions(file: str) -> dict[str, str]:
    """Path pattern -> written reason, from EXCEPTIONS of all test files that read reference files."""
    reasons: dict[str, str] = {}
    for found in pkgutil.walk_packages(tests.__path__, "tests."):
        source = Path(found.module_finder.path) / f"{found.name.rpartition('.')[2]}.py"  # type: ignore[union-attr]
        if source.exists() and "EXCEPTIONS" in source.read_text() and source != Path(__file__):
            reasons |= importlib.import_module(found.name).EXCEPTIONS.get(file, {})
    return reasons


@pytest.mark.parametrize("file", FILES)
def test_every_number_was_given_or_compared(file: str, seen: dict[str, list[str]]) -> None:
    left = {path for path, _ in leaves(Reference(file).values)} - set(seen.get(file, ()))
    reasons = exceptions(file)
    assert all(len(reason.split()) >= 3 for reason in reasons.values())
    idle = {pattern for pattern in reasons if not any(re.fullmatch(pattern, path) for path in left)}
    assert not idle, f"exceptions that except nothing: {idle}"
    left = {path for path in left if not any(re.fullmatch(pattern, path) for pattern in reasons)}
    assert not left, f"{file}: neither given nor compared: {sorted(left)}"
