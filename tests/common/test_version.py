"""The commit that is recorded with a run: of the running sources' own checkout, or none."""

import os
import subprocess
from pathlib import Path

from fedshift.common.version import commit


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


def test_it_says_whether_the_code_differs(tmp_path: Path) -> None:
    assert commit(tmp_path) == ""
    head = git(repository(tmp_path), "rev-parse", "HEAD")
    assert commit(tmp_path) == head
    (tmp_path / "docs" / "file").write_text("2")
    assert commit(tmp_path) == head
    (tmp_path / "src" / "new").write_text("2")
    assert commit(tmp_path) == f"{head} with uncommitted changes"
