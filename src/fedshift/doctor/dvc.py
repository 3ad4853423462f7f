"""DVC: whether it is installed and has a remote that can be reached."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator

from fedshift.doctor.finding import Finding, told_by
from fedshift.planning.request import Request
from fedshift.workspace import Workspace


def check(workspace: Workspace, asked: Request) -> Iterator[Finding]:
    """One line for each remote; a folder is looked at, an address is not contacted."""
    if not importlib.util.find_spec("dvc"):
        yield Finding("dvc", "absent", "not installed", "pip install -e '.[dvc]'")
        return
    if not (workspace.root / ".dvc").is_dir():
        yield Finding("dvc", "wrong", "this folder is no DVC project", "Start fedshift in its checkout.")
        return
    told = told_by(sys.executable, "-m", "dvc", "remote", "list", cwd=workspace.root)
    if told is None:
        yield Finding("dvc", "wrong", "its configuration cannot be read", "Try: dvc remote list")
    elif not told.strip():
        cure = "dvc remote add --default NAME ADDRESS"
        yield Finding("dvc", "absent", "no remote: results are on this machine only", cure)
    for line in (told or "").splitlines():
        name, address = line.split("\t")[0].split()[:2]
        if "://" in address:
            yield Finding("dvc", "ok", f"remote '{name}': {address} (not contacted; try: dvc status --cloud)")
        elif (workspace.root / address).is_dir():
            yield Finding("dvc", "ok", f"remote '{name}': {address}")
        else:
            found = f"remote '{name}': {address} is not there yet"
            yield Finding("dvc", "absent", found, "`dvc push` makes it, or mount its disk.")
