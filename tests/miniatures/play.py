"""Plays a miniature: trains its runs, and lets snakemake make tables, figures, verdicts and report of them."""

from __future__ import annotations

import csv
import resource
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import yaml

from fedshift.planning import planfile
from fedshift.storage.workspace import TUNING, Workspace
from tests.workflow.checkout import Checkout

# Runs in the copy, by its code. One process trains all packs but the last, which is left to snakemake, for a start of Python and torch
# takes longer than a run. The plan that is made afterwards has stamps for what is finished.
TRAIN = """\
from pathlib import Path
import torch
from fedshift.cli.plan import read_request
from fedshift.data.partition import partition
from fedshift.data.prepare import prepare
from fedshift.data.verify import manifest_path, write_manifest
from fedshift.planning import planfile
from fedshift.planning.plan import plan
from fedshift.spec import RunSpec
from fedshift.training.run import Machine, train
from fedshift.storage.workspace import Workspace

workspace = Workspace(Path())
request = read_request(workspace, ())
runs = planfile.runs(plan(workspace, request))
for dataset in {run.dataset for run in runs}:
    if not manifest_path(workspace, dataset, "original").exists():
        write_manifest(workspace, dataset, "original")
for run in runs:
    if run.pack != runs[-1].pack:
        spec = RunSpec.model_validate_json(run.spec)
        prepare(workspace, spec.data.dataset, spec.data.release, spec.data.prepare, jobs=1)
        partition(workspace, spec)
        train(workspace, spec, Machine(torch.device("cpu")))
plan(workspace, request)
"""


class Played(NamedTuple):
    """What has come of a miniature.

    runs: of both stages where it is tuned; new: those that no earlier miniature had trained
    seconds: of a processor, all of it
    cells, filled: of its tables; verdicts, claims: how many of each word
    """

    experiment: str
    runs: int
    new: int
    seconds: float
    cells: int
    filled: int
    verdicts: dict[str, int]
    claims: dict[str, int]


def play(checkout: Checkout, name: str, *targets: str) -> Played:
    """Play an experiment of a miniature project to its results, and to further targets. Fails where a run or a job does."""
    before, begun = _trained(checkout), _seconds()
    tuned = "tune" in yaml.safe_load((checkout.root / "experiments" / f"{name}.yaml").read_text())
    searched = _train(checkout, f"{name}{TUNING}") if tuned else 0
    if tuned:
        checkout.run("all")
        checkout.python("-m", "fedshift", "tune", name)
    planned = _train(checkout, name)
    checkout.run("all", *targets)
    tables = Workspace(checkout.root).tables(name)
    cells = _rows(tables / "table.csv")
    return Played(
        name,
        searched + planned,
        _trained(checkout) - before,
        round(_seconds() - begun, 1),
        len(cells),
        sum(bool(cell["mean"] or cell["text"]) for cell in cells),
        dict(Counter(row["verdict"] for row in cells if row.get("verdict"))),
        dict(Counter(row["verdict"] for row in _rows(tables / "claims.csv"))),
    )


def _train(checkout: Checkout, name: str) -> int:
    """Train the runs of an experiment; return how many it has."""
    (checkout.root / "params.yaml").write_text(f"experiments: [{name}]\n")
    checkout.python("-c", TRAIN)
    return len(planfile.runs(checkout.plan))


def _trained(checkout: Checkout) -> int:
    return len([*(checkout.root / "results").glob("runs/**/summary.json")])


def _seconds() -> float:
    """Seconds of a processor that finished children of this process took, with theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return [*csv.DictReader(file)]
