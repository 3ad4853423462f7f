"""Adapts the model of a finished run to its held-out domain, without labels, and tests it before and after."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from fedshift import kept
from fedshift.adaptation.base import Adaptation
from fedshift.assemble import assemble
from fedshift.data.partition import divide, load_partition
from fedshift.data.prepare import load_index
from fedshift.environment import environment
from fedshift.errors import FedshiftError
from fedshift.federation.evaluate import evaluate
from fedshift.federation.loop import Federation
from fedshift.federation.network import Network
from fedshift.federation.samples import Samples
from fedshift.federation.scores import TARGET
from fedshift.files import canonical_json, sha256, write_json
from fedshift.identity import fingerprint
from fedshift.registry import get, module
from fedshift.resolve import params
from fedshift.spec import RunSpec, parse
from fedshift.workspace import Workspace


@dataclass(frozen=True)
class Task:
    """What to adapt on which images: `test_split`, the part that the target would test on as a client, or `full_domain`."""

    adaptation: str
    params: dict[str, Any]
    selection: str = "best_first"
    images: Literal["test_split", "full_domain"] = "test_split"


def adapt(workspace: Workspace, run: Path, task: Task, device: torch.device) -> Path:
    """Write results/adapted/<digest>-<code>/<adaptation>-<key>.json for a finished run, unless it is there; return its path.

    The key covers the run's weights, the task and the code. Raises FedshiftError for a run without a held-out domain or without weights.
    """
    kind: type[Adaptation] = get("adaptations", task.adaptation, "fedshift adapt")
    hp = params(kind, task.params, f"adaptation {task.adaptation}")
    summary = json.loads((run / "summary.json").read_text())
    spec = parse(summary["spec"], str(run / "summary.json"))
    if not isinstance(spec.data.target, str):
        what = "holds out two domains" if spec.data.target else "holds out no domain to adapt to"
        raise FedshiftError(run, what, "Choose a run with one target.")
    declared = {
        "run": run.name,
        "weights": summary["hashes"].get(f"weights_{task.selection}"),
        "version": kind.version,
        "code": fingerprint(__name__, module("adaptations", task.adaptation)),
        "task": {**asdict(task), "params": asdict(hp)},
    }
    path = workspace.adapted(run.name) / f"{task.adaptation}-{sha256(canonical_json(declared))[:16]}.json"
    if not path.exists():
        told = {key: summary[key] for key in ("dataset", "method", "target", "seed")}
        measured = _adapted(workspace, run, summary, spec, kind, hp, task, device)
        write_json(
            path,
            {**declared, **told, **measured, "environment": environment(device, torch.get_num_threads())},
        )
    return path


def _adapted(
    workspace: Workspace, run: Path, summary: dict[str, Any], spec: RunSpec, kind: type[Adaptation], hp: Any, task: Task, device: torch.device
) -> dict[str, Any]:  # fmt: skip
    """Tests and adapts each model that the method has for the target; accuracies and losses are their means."""
    began = time.monotonic()
    federation, _, _ = assemble(workspace, spec, device)
    rows = kept.unseen(federation, run, summary, task.selection)
    samples = federation.turn.samples
    index = target(workspace, spec, task).to(samples.home)
    network = Network(federation.build(), federation.layout, device)
    before = _tested(federation, network, rows, index)
    for row in rows:
        kind(hp, federation.method).adapt(network.bind(row), federation.layout, Images(samples, index))
    after = _tested(federation, network, rows, index)
    return {"n": len(index), "before": before, "after": after, "seconds": time.monotonic() - began}


def target(workspace: Workspace, spec: RunSpec, task: Task) -> Tensor:
    """Positions of the held-out domain's images that are adapted to and tested on.

    The test split is the one that the domain would have as a client of its own under the run's seed and fractions.
    """
    index = load_index(workspace.prepared(spec.data))
    if task.images == "full_domain":
        table = load_partition(workspace.partition(spec), index)
        chosen = (table["domain"] == spec.data.target) & (table["client"] < 0)
    else:
        own = spec.partition.model_copy(update={"scheme": "domain_per_client", "params": {}, "modify": {}})
        everybody = spec.data.model_copy(update={"target": None})
        table = divide(index, spec.model_copy(update={"data": everybody, "partition": own}))
        chosen = (table["domain"] == spec.data.target) & (table["split"] == "test")
    if not chosen.any():
        what = f"'{spec.data.target}' has no test part under fractions {spec.partition.fractions}"
        raise FedshiftError(f"adaptation {task.adaptation}", what, "Use --full-domain.")
    return torch.from_numpy(table["sample"].to_numpy()[chosen.to_numpy()].astype("int64"))


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
    turn = federation.turn
    sets = [(TARGET, "target", index)]
    scored = [evaluate(network, row, turn.samples, sets, turn.precision)[0] for row in rows]
    return {name: sum(getattr(one, name) for one in scored) / len(scored) for name in ("accuracy", "loss")}
