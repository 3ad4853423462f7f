"""Services beside the runs: DVC's remotes, and MLflow's server."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator

import requests

from fedshift.common.processes import answer_of
from fedshift.doctor.finding import Finding
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace


def dvc(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """One line for each remote; a folder is looked at, an address is not contacted."""
    if not importlib.util.find_spec("dvc"):
        yield Finding("dvc", "absent", "not installed", "pip install -e '.[dvc]'")
        return
    if not (workspace.root / ".dvc").is_dir():
        yield Finding("dvc", "wrong", "this folder is no DVC project", "Start fedshift in its checkout.")
        return
    output = answer_of(sys.executable, "-m", "dvc", "remote", "list", cwd=workspace.root, patience=30)
    if output is None:
        yield Finding("dvc", "wrong", "its configuration cannot be read", "Try: dvc remote list")
    elif not output.strip():
        cure = "dvc remote add --default NAME ADDRESS"
        yield Finding("dvc", "absent", "no remote: results are on this machine only", cure)
    for line in (output or "").splitlines():
        name, address = map(str.strip, line.strip().removesuffix("(default)").split(maxsplit=1))
        if "://" in address:
            yield Finding("dvc", "ok", f"remote '{name}': {address} (not contacted; try: dvc status --cloud)")
        elif (workspace.root / address).is_dir():
            yield Finding("dvc", "ok", f"remote '{name}': {address}")
        else:
            text = f"remote '{name}': {address} is not there yet"
            yield Finding("dvc", "absent", text, "`dvc push` makes it, or mount its disk.")


def mlflow(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """A server that is named and silent is wrong; runs train all the same."""
    if not importlib.util.find_spec("mlflow"):
        text = "not installed: runs are not shown in its UI"
        yield Finding("mlflow", "absent", text, "pip install -e '.[mlflow]'")
        return
    address = os.environ.get("MLFLOW_TRACKING_URI", "")
    if not address.startswith("http"):
        yield Finding("mlflow", "ok", f"installed; tracks into {address or 'its local database'}")
        return
    try:
        requests.get(f"{address.rstrip('/')}/health", timeout=3).raise_for_status()
    except requests.RequestException as error:
        cure = "Start it, or unset MLFLOW_TRACKING_URI; runs train all the same and are published later."
        yield Finding("mlflow", "wrong", f"{address} does not answer: {type(error).__name__}", cure)
        return
    yield Finding("mlflow", "ok", f"the server at {address} answers")
