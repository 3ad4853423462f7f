"""Versions of raw trees: git tracks <release>.dvc, a hash of every file; DVC stores the images."""

import importlib.util
import subprocess
from itertools import chain
from pathlib import Path

from fedshift.common.errors import FedshiftError

NO_GIT = "git init && git add --all; or, to use DVC without git: dvc config --local core.no_scm true"
# Unless the user has chosen otherwise: a tree that this project made and DVC's cache share their bytes.
LINKS = {"cache": {"type": "hardlink,copy"}}


def pointer(raw: Path) -> Path:
    """Path of the DVC file that names a version of a raw tree."""
    return raw.with_name(f"{raw.name}.dvc")


def obstacle(root: Path) -> tuple[str, str] | None:
    """The reason why DVC does not work in a project, and a fix; None if it works."""
    if not importlib.util.find_spec("dvc"):
        return "DVC is not installed", "pip install -e '.[dvc]'"
    if not (root / ".dvc").is_dir():
        return f"{root.absolute()} is not a DVC project", "Start fedshift in its checkout."
    from dvc.repo import Repo
    from dvc.scm import SCMError

    try:
        Repo(str(root)).close()
    except SCMError:
        return f"{root.absolute()} is not a git checkout", NO_GIT
    return None


def add(root: Path, raw: Path, made: bool) -> str:
    """Put a raw tree under DVC, and describe the result in one line.

    made: whether this project has just made the tree, so that DVC's cache may share its files

    The cache gets a copy of an older tree, and a version that differs from it stays. Raises FedshiftError if
    DVC fails because the disk is full, or another DVC works here.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    file, shown = pointer(raw), pointer(raw).relative_to(root)
    try:
        with Repo(str(root)) as repo:
            own = "type" in repo.config["cache"]
        with Repo(str(root), config=None if own else LINKS) as repo:
            changes = [] if made or not file.exists() else [*chain(*repo.status([str(file)]).values())]
            if any("modified" in change.get("changed outs", {}).values() for change in changes):
                return (
                    f"differs from the version in {shown}. To make it the new version: dvc commit {shown}; "
                    f"to get that version back: dvc checkout {shown}"
                )
            repo.scm_context.quiet = True
            repo.add(str(raw), relink=made)
    except DvcException as error:
        cure = f"Then run: dvc add {raw.relative_to(root)}"
        raise FedshiftError(raw, f"is not under DVC: {error}", cure, retry=True) from None
    command = ["git", "-C", str(root), "status", "--porcelain", "--", str(shown)]
    if subprocess.run(command, capture_output=True, text=True, check=False).stdout:
        return f"under DVC: git add {shown} && git commit; `dvc push` then sends the images to the remote"
    return f"under DVC, the version in {shown}"
