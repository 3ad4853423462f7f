"""MLflow: whether it is installed, and whether the server of MLFLOW_TRACKING_URI answers."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

import requests

from fedshift.doctor.finding import Finding
from fedshift.planning.request import Request
from fedshift.workspace import Workspace


def check(workspace: Workspace, asked: Request) -> Iterator[Finding]:
    """A server that is named and silent is wrong; runs train all the same."""
    if not importlib.util.find_spec("mlflow"):
        found = "not installed: runs are not shown in its UI"
        yield Finding("mlflow", "absent", found, "pip install -e '.[mlflow]'")
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
