"""Results of evaluations of a toy project's runs, written in the format that `fedshift evaluate` gathers."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedshift.analysis.collected import Collected
from fedshift.common.registry import get
from fedshift.federation.records import KEYS

from .conftest import Project

Rows = Callable[[dict[str, Any]], list[dict[str, Any]]]


def evaluate(project: Project, collected: Collected, evaluation: str, label: str, rows: Rows) -> None:
    """rows: what the evaluation gave of a run, from its keys; a client and other columns where they matter."""
    schema = get("evaluations", evaluation).schema()
    found = []
    for run in collected.runs[collected.runs["state"] == "finished"].to_dict("records"):
        keys = {key: run[key] for key in collected.keys}
        place = dict.fromkeys(KEYS) | {"round": 1, "stage": "post_agg", "model": "global", "member": 0}
        found += [{**keys, "digest": run["digest"], **place, **row} for row in rows(keys)]
    names = [*collected.keys, "digest"]
    columns = {name: pa.array([row[name] for row in found]) for name in names}
    columns |= {field.name: pa.array([row.get(field.name) for row in found], field.type) for field in schema}
    path = project.workspace.evaluated(project.name) / f"{label}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
