"""Adapted: what test-time adaptation made of an experiment's runs, in one file beside its metrics, which DVC
shares.

Each result has its own file below results/adapted/. For tables it is a run of its own with one evaluation:
that on the held-out domain after adaptation, in the round whose weights it began with.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from fedshift.federation.records import SCHEMA
from fedshift.files import canonical_json, write_json
from fedshift.task import place
from fedshift.workspace import Workspace

Result = dict[str, Any]
STAGE = "adapted"


def path(workspace: Workspace, name: str) -> Path:
    """results/metrics/<experiment>.adapted.json."""
    return workspace.adapted_metrics(name)


def gather(workspace: Workspace, name: str, results: list[Path]) -> Path:
    """Write the results of an experiment's adaptations as one file; return its path."""
    there = path(workspace, name)
    write_json(there, [json.loads(one.read_text()) for one in results])
    return there


def read(workspace: Workspace, name: str) -> dict[tuple[str, str], Result]:
    """The results that were gathered, by `<digest>-<code>` and what was adapted how (as planfile.Cell says
    it).
    """
    there = path(workspace, name)
    results = json.loads(there.read_text()) if there.is_file() else []
    return {
        (one["run"], canonical_json({key: one[key] for key in ("version", "code", "task")})): one
        for one in results
    }


def fits(result: Result | None, summary: bytes) -> bool:
    """Whether it was made of the very weights of the run with this summary."""
    if result is None:
        return False
    kept: str | None = json.loads(summary)["hashes"].get(f"weights_{result['task']['selection']}")
    return bool(result["weights"] == kept)


def restore(workspace: Workspace) -> None:
    """Write the files below results/adapted/ of gathered results that are not here: what was adapted
    elsewhere is not adapted again.
    """
    for gathered in sorted((workspace.results / "metrics").rglob("*.adapted.json")):
        for one in json.loads(gathered.read_text()):
            if not (there := place(workspace, one)).exists():
                write_json(there, one)


def records(result: Result) -> pa.Table:
    """Accuracy and loss after adaptation."""
    same = {
        "round": result["round"],
        "stage": STAGE,
        "model": "global",
        "member": 0,
        "client": -1,
        "split": "target",
    }
    rows = [
        {**same, "metric": metric, "value": value, "n": result["n"], "time": result["time"]}
        for metric, value in sorted(result["after"].items())
    ]
    return pa.Table.from_pylist(rows, SCHEMA)
