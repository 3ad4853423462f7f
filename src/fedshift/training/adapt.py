"""Adapts the model of a finished run to its held-out domain, without labels, and tests it before and
after.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedshift.adaptation.base import Adaptation
from fedshift.data.load import RunData, load
from fedshift.errors import FedshiftError
from fedshift.federation.evaluate import evaluate
from fedshift.federation.evaluator import TARGET
from fedshift.federation.loop import Federation
from fedshift.federation.network import Network
from fedshift.federation.precision import arithmetic
from fedshift.federation.samples import Samples
from fedshift.files import write_json
from fedshift.registry import get
from fedshift.resolve import params
from fedshift.rundir import RunDirectory
from fedshift.spec import RunSpec, parse
from fedshift.task import Task, one_domain, place
from fedshift.training import weights
from fedshift.training.assemble import assemble
from fedshift.training.environment import environment
from fedshift.workspace import Workspace


def adapt(workspace: Workspace, run: Path, task: Task, device: torch.device) -> Path:
    """Write results/adapted/<digest>-<code>/<adaptation>-<key>.json for a finished run, unless it is there;
    return its path.

    The key covers the run's weights, the task and the code. Raises FedshiftError for a run without a held-out
    domain or without weights, and for one that was trained on other images or another partition than there
    are now.
    """
    declared = task.declared()
    directory = RunDirectory(run)
    if (summary := directory.summary()) is None:
        raise FedshiftError(run, "is not finished", "Train it first; see: fedshift status --runs.")
    spec = parse(summary["spec"], str(directory.summary_file))
    one_domain(spec, run)
    declared |= {"run": run.name, "weights": summary["hashes"].get(f"weights_{task.selection}")}
    path = place(workspace, declared)
    if not path.exists():
        told = {key: summary[key] for key in ("dataset", "method", "target", "seed")}
        told["round"] = summary["best_round"].get(
            task.selection.removeprefix("best_"), spec.federation.rounds
        )
        with arithmetic(spec.local.precision, device):
            measured = _adapted(workspace, run, summary, spec, task, device)
            machine = environment(device, torch.get_num_threads())
        write_json(path, {**declared, **told, **measured, "time": time.time(), "environment": machine})
    return path


def _adapted(
    workspace: Workspace, run: Path, summary: dict[str, Any], spec: RunSpec, task: Task, device: torch.device
) -> dict[str, Any]:
    """Tests and adapts each model that the method has for the target; accuracies and losses are their
    means.
    """
    began = time.monotonic()
    if device.type == "cuda":
        torch.use_deterministic_algorithms(True, warn_only=True)
    kind: type[Adaptation] = get("adaptations", task.adaptation)
    hp = params(kind, task.params)
    data = load(workspace, spec)
    federation, hashes = assemble(spec, data, device)
    for what, kind_of in (("prepared", "images"), ("partition", "partition")):
        if hashes[what] != summary["hashes"][what]:
            cure = "Train the run again by the code that is installed: rerun: code."
            raise FedshiftError(run, f"was trained on another {kind_of} than lies here now", cure)
    rows = weights.unseen(federation, RunDirectory(run), summary, task.selection)
    samples = federation.worker.samples
    index = target(spec, data, task).to(samples.home)
    network = Network(federation.build(), federation.layout, device)
    before = _tested(federation, network, rows, index)
    for row in rows:
        kind(hp, federation.method).adapt(network.bind(row), federation.layout, Images(samples, index))
    after = _tested(federation, network, rows, index)
    return {"n": len(index), "before": before, "after": after, "seconds": time.monotonic() - began}


def target(spec: RunSpec, data: RunData, task: Task) -> Tensor:
    """Positions of the held-out domain's images that are adapted to and tested on."""
    index, *_ = data.targets if task.images == "tested" else data.unheld
    if not len(index):
        what = f"the run tests no image of '{spec.data.target}'"
        raise FedshiftError(f"adaptation {task.adaptation}", what, "Use --full-domain.")
    return index


@dataclass(frozen=True)
class Images:
    """The unlabelled images at positions `index`, in batches."""

    samples: Samples
    index: Tensor

    def __call__(self, size: int) -> Iterator[Tensor]:
        for part in self.index.split(size):
            if len(part) > 1:
                yield self.samples.evaluate(self.samples.take(part)[0])


def _tested(federation: Federation, network: Network, rows: Tensor, index: Tensor) -> dict[str, float]:
    worker = federation.worker
    sets = [(TARGET, "target", index)]
    scored = [evaluate(network, row, worker.samples, sets, worker.precision)[0] for row in rows]
    return {name: sum(getattr(one, name) for one in scored) / len(scored) for name in ("accuracy", "loss")}
