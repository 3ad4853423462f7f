"""Evaluate a finished run: tables computed from its saved weights and its images, each computed once."""

import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.common.version import commit
from fedshift.data.load import load
from fedshift.data.prepare import load_index
from fedshift.evaluations.base import Evaluation, Trained
from fedshift.experiments.task import Task, one_domain, place, write_result
from fedshift.federation.layout import Network
from fedshift.federation.precision import arithmetic
from fedshift.spec import RunSpec, parse
from fedshift.spec.block import params
from fedshift.storage.rundir import RunDirectory, Summary
from fedshift.storage.workspace import Workspace
from fedshift.training import weights
from fedshift.training.assemble import assemble
from fedshift.training.device import deterministic, environment


def evaluate(workspace: Workspace, run: Path, tasks: Sequence[Task], device: torch.device) -> list[Path]:
    """Write <run>/evaluated/<evaluation>-<key>.parquet for each task, unless it exists; return the paths.

    The key covers the run's weights, the task and the code. Raises FedshiftError for a run without weights or
    that an evaluation does not support. It is also raised if images or partition have changed since the
    training.
    """
    directory = RunDirectory(run)
    if (summary := directory.summary()) is None:
        raise FedshiftError(run, "is not finished", "Train it first; finished ones: fedshift list runs.")
    spec = parse(summary["spec"], str(directory.summary_file))
    stamps = [task.stamp(directory, summary) for task in tasks]
    paths = [place(directory, stamp) for stamp in stamps]
    todo = [item for item in zip(paths, tasks, stamps, strict=True) if not item[0].exists()]
    if todo:
        with arithmetic(spec.local.precision, device):
            _write(workspace, directory, summary, spec, todo, device)
    return paths


def _write(
    workspace: Workspace, run: RunDirectory, summary: Summary, spec: RunSpec,
    todo: Sequence[tuple[Path, Task, dict[str, Any]]], device: torch.device,
) -> None:  # fmt: skip
    """Assemble a finished run once, if its images and partition are unchanged; write each task's table."""
    deterministic(device)
    data = load(workspace, spec)
    federation, hashes = assemble(spec, data, device)
    for what, kind_of in (("prepared", "images"), ("partition", "partition")):
        if hashes[what] != summary["hashes"][what]:
            cure = "Delete its directory to train it again."
            raise FedshiftError(run.path, f"was trained on another {kind_of} than is here now", cure)
    folder = workspace.prepared(spec.data.prepared_name)
    domains = functools.cache(lambda: list(load_index(folder)["domain"]))
    for path, task, stamp in todo:
        began = time.monotonic()
        kind: type[Evaluation] = get("evaluations", task.evaluation)
        if kind.adapts:
            one_domain(spec, run.path)
        restored = weights.restore(federation, run, summary, task.selection)
        targets = data.targets if task.images == "tested" else data.unheld
        trained = Trained(
            spec=spec,
            round=weights.round_of(summary, task.selection),
            network=Network(federation.build(), federation.layout, federation.device),
            layout=federation.layout,
            samples=federation.worker.samples,
            precision=federation.worker.precision,
            classes=data.classes,
            domains=domains,
            models=functools.partial(weights.models, federation, restored, targets),
            reported=federation.evaluator.reported,
        )
        kind.check(trained.network.model, f"evaluation {kind.name}")
        table = kind(params(kind, task.params), federation.method).table(trained)
        facts = {key: summary[key] for key in ("dataset", "method", "target", "seed")}
        cost = {"round": trained.round, "seconds": time.monotonic() - began, "time": time.time()}
        machine = environment(federation.device, torch.get_num_threads(), commit())
        write_result(path, table, {**stamp, **facts, **cost, "environment": machine})
