"""One training run in its directory: loads what it needs, resumes, trains, and leaves metrics, weights and a summary."""

from __future__ import annotations

import json
import logging
import shlex
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch

from fedshift.assemble import assemble
from fedshift.errors import FedshiftError
from fedshift.federation import checkpoint
from fedshift.federation.ledger import macs_per_image, peak_memory_mb, state_dict_bytes
from fedshift.federation.loop import Federation
from fedshift.federation.precision import arithmetic
from fedshift.files import atomic_path, sha256, write_json
from fedshift.identity import Identity, identify
from fedshift.planning import job
from fedshift.planning.lacking import needed_weights
from fedshift.resolve import complete
from fedshift.spec import RunSpec
from fedshift.tensors import write_tensors
from fedshift.training.claim import claimed
from fedshift.training.environment import environment
from fedshift.workspace import Workspace

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Machine:
    """How a run is computed without changing what it is: device, threads, and seconds between checkpoints."""

    device: torch.device
    threads: int = 1
    checkpoint_seconds: float = 30.0


def train(workspace: Workspace, spec: RunSpec, machine: Machine) -> dict[str, Any]:
    """Train a resolved spec to the end, from its checkpoint where there is one; return its summary. A finished run is only read.

    Raises FedshiftError for what the user can mend. Whatever stops it - but for a kill - leaves failure.json with the reason.
    """
    identity = identify(spec)
    run = workspace.run(spec, identity.digest, identity.code)
    if summary := _finished(run):
        return summary
    with claimed(run):
        if summary := _finished(run):  # by the process that held the claim until now
            return summary
        try:
            summary = _train(workspace, spec, identity, run, machine)
        except Exception as error:
            helps = (
                error.retry
                if isinstance(error, FedshiftError)
                else isinstance(error, OSError | torch.OutOfMemoryError)
            )
            failure = {
                "kind": type(error).__name__,
                "text": str(error),
                "retry": helps,
                "trace": traceback.format_exc(),
            }
            write_json(run / "failure.json", failure)
            raise
    (run / "failure.json").unlink(missing_ok=True)
    return summary


def _finished(run: Path) -> dict[str, Any] | None:
    path = run / "summary.json"
    summary: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
    return summary


def _train(
    workspace: Workspace, spec: RunSpec, identity: Identity, run: Path, machine: Machine
) -> dict[str, Any]:
    began = time.monotonic()
    for file in needed_weights(workspace, spec):
        file.require()
    torch.set_num_threads(machine.threads)
    if machine.device.type == "cuda":
        torch.use_deterministic_algorithms(True, warn_only=True)
    write_json(run / "spec.json", complete(spec).model_dump(mode="json"))
    with arithmetic(spec.local.precision, machine.device):
        machine_facts = environment(machine.device, machine.threads)
    write_json(run / "environment.json", machine_facts)
    if not (partition := workspace.partition(spec)).is_file():
        cure = f"Run: {shlex.join(['fedshift', 'partition', *job.partition(spec.model_dump_json())])}"
        raise FedshiftError(partition, "the run's partition is not there", cure)
    federation, hashes, classes = assemble(workspace, spec, machine.device)
    path, segments = run / "checkpoint.safetensors", run / "segments"
    name = f"{identity} {sha256(json.dumps(hashes, sort_keys=True))[:16]}"
    resumed = checkpoint.resume(federation, path, segments, name)
    log.info(
        "%s: %s round %d of %d",
        run,
        "resumed at" if resumed else "starts at",
        federation.round,
        spec.federation.rounds,
    )
    saved = time.monotonic()
    for event in federation.run():
        if event == "round":
            _report(federation, run)
        if time.monotonic() - saved >= machine.checkpoint_seconds:
            checkpoint.save(federation, path, segments, name)
            saved = time.monotonic()
    checkpoint.save(federation, path, segments, name)
    metrics = _merge(segments, run / "metrics.parquet")
    _merge(segments / "statistics", run / "statistics.parquet")
    weights = _write_weights(federation, run / "weights")
    costs = {**_totals(metrics), "seconds": time.monotonic() - began}
    told = _summary(federation, spec, identity, hashes, classes, weights, costs)
    summary = {**told, "environment": machine_facts}
    write_json(run / "summary.json", summary)
    path.unlink()
    return summary


def _merge(segments: Path, path: Path) -> pa.Table:
    """All segments as one file, whose bytes do not depend on where these end."""
    tables = [pq.read_table(segment) for segment in sorted(segments.glob("*.parquet"))]
    table = pa.concat_tables(tables).combine_chunks()
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    return table


def _totals(metrics: pa.Table) -> dict[str, float]:
    """bytes_down, bytes_up and images of the whole run."""
    rows = metrics.filter(pc.equal(metrics["stage"], "cost")).group_by("metric").aggregate([("value", "sum")])
    return dict(zip(rows["metric"].to_pylist(), rows["value_sum"].to_pylist(), strict=True))


def _write_weights(federation: Federation, folder: Path) -> dict[str, dict[str, str]]:
    """One file per kept round, entries in logical order; returns selection -> {file, sha256 of the entries}."""
    kept = {"last": (federation.round, federation.evaluator.weights())}
    for tie, finished in federation.evaluator.selection.round.items():
        kept[f"best_{tie}"] = (finished, federation.evaluator.selection.weights(tie))
    written: dict[str, dict[str, str]] = {}
    for selection, (finished, tensors) in kept.items():
        entries = _entries(federation, tensors)
        if not entries:
            continue
        path = folder / f"round{finished}.safetensors"
        if not path.exists():
            write_tensors(path, entries, {"round": str(finished), "layout": federation.layout.hash})
        content = b"".join(name.encode() + entries[name].numpy().tobytes() for name in sorted(entries))
        written[selection] = {"file": f"weights/{path.name}", "sha256": sha256(content)}
    return written


def _entries(federation: Federation, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """`shared/<entry>`; `own/<entry>` [N, ..] for what each client keeps; `<slot>/<entry>` [N, ..]."""
    layout, state = federation.layout, federation.state
    named = {}
    for name, tensor in tensors.items():
        rows = tensor if tensor.dim() == 2 else tensor[None]
        if name == "own":
            rows = rows.new_full((len(rows), layout.size), torch.nan).index_copy(
                1, state.kept.mask.nonzero().flatten().to(rows.device), rows
            )
        for entry in layout.entries:
            kept = bool(state.kept.mask[entry.offset])
            if (name == "row" and kept) or (name == "own" and not kept):
                continue
            logical = torch.stack([entry.view(row) for row in rows]).contiguous().cpu()
            named[f"{'shared' if name == 'row' else name}/{entry.name}"] = (
                logical[0] if tensor.dim() == 1 else logical
            )
    return named


def _summary(
    federation: Federation, spec: RunSpec, identity: Identity, hashes: dict[str, str], classes: list[str],
    weights: dict[str, dict[str, str]], costs: dict[str, float],
) -> dict[str, Any]:  # fmt: skip
    state, layout = federation.state, federation.layout
    statistics = layout.where("bn_statistic")
    bn = "none" if not statistics.size else "local" if (statistics & state.local).size else "averaged"
    with torch.device("meta"):
        model = federation.build()
    model_name, stage = federation.evaluator.reported
    return {
        "digest": identity.digest, "code": identity.code, "spec": spec.model_dump(mode="json"),
        "dataset": spec.data.dataset, "method": spec.method.name, "target": spec.data.target_name, "seed": spec.seed,
        "clients": [
            {"client": k, "domains": list(one.domains), "train": len(one.train), "val": len(one.val), "test": len(one.test)}
            for k, one in enumerate(federation.evaluated_clients)
        ],
        "classes": classes, "evaluates": model_name, "stage": stage,
        "hashes": {**hashes, **{f"weights_{name}": one["sha256"] for name, one in weights.items()}},
        "weights": {name: one["file"] for name, one in weights.items()},
        "best_round": federation.evaluator.selection.round,
        "costs": {
            **costs,
            "state_dict_bytes": state_dict_bytes(model), "macs_per_image": macs_per_image(model, spec.data.input_px),
            "peeked_floats": federation.server.peeked, "peak_memory_mb": peak_memory_mb(federation.device),
        },
        "policy": {"shared": state.shared.size, "personal": state.personal.size, "local": state.local.size, "bn": bn},
    }  # fmt: skip


def _report(federation: Federation, run: Path) -> None:
    measured = next(row["value"] for row in reversed(federation.records.rows) if row["metric"] == "seconds")
    accuracy: dict[str, list[float]] = {}
    for row in federation.records.rows:
        if row["round"] == federation.round and row["metric"] == "accuracy":
            accuracy.setdefault("in" if row["client"] >= 0 else "out", []).append(row["value"])
    shown = "".join(f", {name} {sum(values) / len(values):.3f}" for name, values in accuracy.items())
    log.info(
        "%s: round %d of %d, %.2f s%s",
        run.name,
        federation.round,
        federation.spec.federation.rounds,
        measured,
        shown,
    )
