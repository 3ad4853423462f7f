"""The commit that is recorded with a run: of the running sources' own checkout, or none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from fedshift.common.version import commit
from tests.conftest import ROOT

PROGRAM = "from fedshift.common.version import commit; print(commit())"


def git(root: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(root), *identity, *words]
    return subprocess.check_output(command, text=True, env=environment).strip()


def repository(root: Path) -> Path:
    git(root, "init", "-q")
    for name in ("src", "docs"):
        (root / name).mkdir(exist_ok=True)
        (root / name / "file").write_text("1")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    return root


def copied(root: Path) -> Path:
    """The sources alone, as in an unpacked archive."""
    package = root / "src" / "fedshift"
    (package / "common").mkdir(parents=True)
    for name in ("__init__.py", "common/__init__.py", "common/version.py"):
        shutil.copy(ROOT / "src" / "fedshift" / name, package / name)
    return root


def recorded(root: Path, **more: str) -> str:
    """What sources below root / "src" record."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1", **more}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=root, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_it_says_whether_the_code_differs(tmp_path: Path) -> None:
    assert commit(tmp_path) == ""
    head = git(repository(tmp_path), "rev-parse", "HEAD")
    assert commit(tmp_path) == head
    (tmp_path / "docs" / "file").write_text("2")
    assert commit(tmp_path) == head
    (tmp_path / "src" / "new").write_text("2")
    assert commit(tmp_path) == f"{head} with uncommitted changes"


def test_another_repository_around_the_sources_is_not_theirs(tmp_path: Path) -> None:
    repository(tmp_path)
    inner = copied(tmp_path / "unpacked")
    assert recorded(inner) == ""
    git(tmp_path, "add", ".")  # nor where it tracks them
    git(tmp_path, "commit", "-qm", "two")
    assert recorded(inner) == ""
    git(inner, "init", "-q")
    assert recorded(inner) == ""  # no commit yet
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "own")
    assert recorded(inner) == git(inner, "rev-parse", "HEAD") != git(tmp_path, "rev-parse", "HEAD")
