"""One training run in its directory: load data, resume, train, write metrics, weights and a summary."""

import json
import logging
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from tqdm import tqdm

from fedshift.archive.machine import MachineClass
from fedshift.common.errors import FedshiftError
from fedshift.common.files import atomic_path, locked, read_whole, remove_temporary, sha256, write_json
from fedshift.common.parquet import read_parquet
from fedshift.common.tensors import shapes_only
from fedshift.common.version import commit
from fedshift.data.load import load
from fedshift.federation import checkpoint
from fedshift.federation.batches import participants
from fedshift.federation.cost import macs_per_image, peak_memory_mb, state_dict_bytes
from fedshift.federation.loop import Federation
from fedshift.federation.precision import arithmetic
from fedshift.federation.records import reproducible, timings
from fedshift.planning.lacking import needed_weights
from fedshift.spec import RunSpec
from fedshift.spec.resolve import complete
from fedshift.storage.rundir import RunDirectory, Summary, failure_of
from fedshift.storage.workspace import Workspace
from fedshift.training import weights
from fedshift.training.assemble import assemble
from fedshift.training.device import deterministic, environment, require
from fedshift.training.pack import stoppable

log = logging.getLogger(__name__)

SHAPE = "{desc} {percentage:3.0f}%|{bar}| {elapsed} elapsed, {remaining} remaining{postfix}"  # of the bar
GROUP = 1 << 20  # rows of a Parquet file's row group


@dataclass(frozen=True)
class Machine:
    """Settings of the computation that do not change a run's identity.

    They are device, threads, seconds between checkpoints, and whether steps may be CUDA graphs ("auto": on a
    GPU, for steady methods; "off"). Graphs change the last digits of a run, not its id. Its environment
    contains whether they were used, and such a run is of another class of machine (`MachineClass`).
    """

    device: torch.device
    threads: int = 1
    checkpoint_seconds: float = 30.0
    graph: Literal["auto", "off"] = "off"

    def graphs(self, spec: RunSpec) -> bool:
        """Whether the steps of a run are recorded on this machine."""
        return self.graph == "auto" and self.device.type == "cuda" and bool(spec.method.build().steadiness)


def train(workspace: Workspace, spec: RunSpec, machine: Machine, show: bool = False) -> Summary:
    """Train a resolved spec to the end, from its checkpoint if there is one; return its summary.

    A finished run is only read. show: a progress bar on the terminal. Raises FedshiftError for problems that
    the user can fix. Any error except a kill is recorded in the run's directory.
    """
    run = workspace.run(spec.run_name)
    if summary := run.summary():
        return summary
    with locked(run.lock):
        if summary := run.summary():  # by the process that held the lock until now
            return summary
        remove_temporary(run.path)  # what a killed process was writing
        try:
            return _train(workspace, spec, run, machine, show)
        except Exception as error:
            run.fail(failure_of(error))
            raise


def _train(workspace: Workspace, spec: RunSpec, run: RunDirectory, machine: Machine, show: bool) -> Summary:
    """Train in a directory that this process has locked."""
    began = time.monotonic()
    require(machine.device)
    for file in needed_weights(workspace, spec):
        file.require()
    torch.set_num_threads(machine.threads)
    deterministic(machine.device)
    write_json(run.spec, complete(spec).model_dump(mode="json"))
    with arithmetic(spec.local.precision, machine.device):
        graphs = machine.graphs(spec)
        machine_facts = environment(machine.device, machine.threads, commit(), graphs)
    machine_facts["earlier"] = _earlier(run, machine_facts)
    if not run.checkpoint.exists():  # else with the next checkpoint, which has rounds of this machine
        write_json(run.environment, machine_facts)
    if not (partition := workspace.partition(spec.partition_name)).is_file():
        cure = f"Run: {shlex.join(['fedshift', 'partition', '--spec', str(run.spec)])}"
        raise FedshiftError(partition, "the run's partition is not there", cure)
    data = load(workspace, spec)
    federation, hashes = assemble(spec, data, machine.device)
    federation.worker.graph = torch.cuda.CUDAGraph if graphs else None
    name = f"{spec.run_id} {sha256(json.dumps(hashes, sort_keys=True))[:16]}"
    began = _rounds(federation, run, name, machine, machine_facts, show, began)
    _merge(run.segments, run.timings, timings)
    _merge(run.segments, run.metrics, reproducible)
    _merge(run.statistics_segments, run.statistics)
    if federation.method.logs:
        _merge(run.diagnostics_segments, run.diagnostics)
    files = weights.write(federation, run.weights)
    seconds, metrics = time.monotonic() - began, read_parquet(run.metrics)
    summary = summarize(federation, hashes, data.classes, files, metrics, seconds)
    summary |= {"absent": data.absent, "environment": machine_facts, "finished": time.time()}
    run.finish(summary)
    run.checkpoint.unlink()
    return summary


def _earlier(run: RunDirectory, now: dict[str, Any]) -> list[str]:
    """The classes of machines, other than this one's, that trained a resumed run before."""
    before = read_whole(run.environment) if run.checkpoint.exists() else None
    if before is None:
        return []
    classes = [*before.get("earlier", []), str(MachineClass.of({**before, "earlier": []}))]
    return [*dict.fromkeys(one for one in classes if one != str(MachineClass.of(now)))]


def _rounds(
    federation: Federation, run: RunDirectory, name: str, machine: Machine, machine_facts: dict[str, Any],
    show: bool, began: float,
) -> float:  # fmt: skip
    """Train the remaining rounds. After SIGTERM the process ends with the current round and a checkpoint.

    - name: identity that a checkpoint must have: run id and data
    - began: start of this process (time.monotonic)

    Returns `began` minus the seconds that the run had taken before, up to its checkpoint.
    """
    code, total = federation.spec.method_code, federation.spec.federation.rounds
    resumed = checkpoint.resume(federation, run.checkpoint, run.segments, name, code)
    verb, began = ("starts at", began) if resumed is None else ("resumed at", began - resumed)

    def save(seconds: float) -> None:
        write_json(run.environment, machine_facts)
        checkpoint.save(federation, run.checkpoint, run.segments, name, seconds, code)

    log.info("%s: %s round %d of %d", run.path, verb, federation.round, total)
    saved = time.monotonic()
    with stoppable() as stop, progress(federation, show):
        for _ in federation.run():
            _log_round(federation, run.name)
            stops = stop.requested  # once: a signal between two questions would end it without a checkpoint
            if stops or time.monotonic() - saved >= machine.checkpoint_seconds:
                save(time.monotonic() - began)
                saved = time.monotonic()
            if stops:
                log.info("%s: stopped after round %d, resumes from here", run.path, federation.round)
                sys.exit(128 + signal.SIGTERM)
    if federation.records.rows:
        save(time.monotonic() - began)
    return began


def _merge(segments: Path, path: Path, part: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> None:
    """Join a part of all segments into one file of the same bytes however they are cut, group by group."""
    paths = sorted(segments.glob("*.parquet"))
    schema = pq.read_schema(paths[0])
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        rows = schema.empty_table()
        for segment in paths:
            rows = pa.concat_tables([rows, part(read_parquet(segment))])
            while len(rows) >= GROUP:
                writer.write_table(rows.slice(0, GROUP).combine_chunks(), GROUP)
                rows = rows.slice(GROUP)
        writer.write_table(rows.combine_chunks(), GROUP)


def _log_round(federation: Federation, run: str) -> None:
    """Log the round's time, and mean accuracies in and out of distribution if they were measured."""
    seconds = next(row["value"] for row in reversed(federation.records.rows) if row["metric"] == "seconds")
    means = "".join(f", {name} {value:.3f}" for name, value in accuracies(federation).items())
    total = federation.spec.federation.rounds
    log.info("%s: round %d of %d, %.2f s%s", run, federation.round, total, seconds, means)


@contextmanager
def progress(federation: Federation, shown: bool) -> Iterator[None]:
    """Show a bar on standard error, if that is a terminal, while the federation trains in the block."""
    run = federation.spec.federation
    each = len(participants(len(federation.clients), run.participation, federation.spec.seed, 0))
    done, total = federation.round * each, run.rounds * each
    disable = None if shown else True
    with tqdm(total=total, initial=done, bar_format=SHAPE, disable=disable, smoothing=0, leave=False) as bar:

        def trained() -> None:
            bar.set_description_str(f"round {federation.round + 1} of {run.rounds}", refresh=False)
            means = (f"{name} {100 * value:.1f}" for name, value in accuracies(federation).items())
            bar.set_postfix_str(", ".join(means), refresh=False)
            bar.update()

        federation.on_client = (lambda: None) if bar.disable else trained
        yield


def accuracies(federation: Federation) -> dict[str, float]:
    """Mean accuracies of the last round: `in`, on clients' images, and `out`, on the held-out domain."""
    measured: dict[str, list[float]] = {}
    for row in federation.records.rows:
        if row["round"] == federation.round and row["metric"] == "accuracy":
            measured.setdefault("in" if row["client"] >= 0 else "out", []).append(row["value"])
    return {name: sum(values) / len(values) for name, values in measured.items()}


def summarize(
    federation: Federation, hashes: dict[str, str], classes: list[str],
    weights: dict[str, dict[str, str]], metrics: pa.Table, seconds: float,
) -> Summary:  # fmt: skip
    """The facts and costs of a Federation that has trained to the end.

    - hashes: of images, partition and published weights
    - weights: as returned by `weights.write`
    - seconds: duration of the run, in all its processes
    """
    spec, state, layout = federation.spec, federation.state, federation.layout
    statistics = layout.kind("bn_statistic")
    bn = "none" if not statistics.size else "local" if (statistics & state.local).size else "averaged"
    with shapes_only():
        model = federation.build()
    model_name, stage = federation.evaluator.reported
    rows = metrics.filter(pc.equal(metrics["stage"], "cost")).group_by("metric").aggregate([("value", "sum")])
    totals = dict(zip(rows["metric"].to_pylist(), rows["value_sum"].to_pylist(), strict=True))
    return {
        "digest": spec.run_id,
        "method_code": spec.method_code,
        "spec": spec.model_dump(mode="json"),
        "dataset": spec.data.dataset,
        "method": spec.method.name,
        "target": spec.data.target_name,
        "seed": spec.seed,
        "clients": [
            {"client": k, "domains": list(client.domains)}
            | {split: len(client.split(split)) for split in ("train", "val", "test")}
            for k, client in enumerate(federation.evaluated_clients)
        ],
        "classes": classes,
        "evaluates": model_name,
        "stage": stage,
        "hashes": {**hashes, **{f"weights_{name}": file["sha256"] for name, file in weights.items()}},
        "weights": {name: file["file"] for name, file in weights.items()},
        "rounds": federation.round,
        "best_round": federation.evaluator.selection.round,
        "costs": {
            **totals,  # bytes_down, bytes_up and images
            "seconds": seconds,
            "state_dict_bytes": state_dict_bytes(model),
            "macs_per_image": macs_per_image(model, spec.data.input_px),
            "peeked_floats": federation.server.peeked,
            "peak_memory_mb": peak_memory_mb(federation.device),
        },
        "policy": {
            "shared": layout.floats(state.shared),
            "personal": layout.floats(state.personal),
            "local": layout.floats(state.local),
            "bn": bn,
        },
    }
