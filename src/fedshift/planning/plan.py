"""Expands experiments to runs, each once, and groups them into packs: what one job trains."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from fedshift.experiments.expand import evaluations, expand
from fedshift.experiments.load import load
from fedshift.files import atomic_path, canonical_json, sha256
from fedshift.identity import identify, partition_name, prepared_name, run_name
from fedshift.planning import job, planfile
from fedshift.planning.costs import cost
from fedshift.planning.planfile import Cell, Evaluated, Images, Run
from fedshift.planning.request import Request
from fedshift.rundir import State
from fedshift.spec import RunSpec
from fedshift.workspace import Workspace


def plan(workspace: Workspace, request: Request) -> Path:
    """Write the plan of a request, and stamps for packs whose runs are all finished; return its path.

    Raises FedshiftError for an experiment that cannot be read or run. Reads no images.
    """
    runs: dict[str, Run] = {}
    images: dict[str, Images] = {}
    cells, evaluated = [], []
    for name in request.experiments:
        experiment = load(workspace, name)
        for cell in expand(workspace, experiment) if experiment.train else ():
            run = _run(workspace, cell.spec, request)
            runs.setdefault(run.name, run)
            data = cell.spec.data
            images[run.prepared] = Images(run.prepared, data.dataset, data.release, data.prepare.px)
            adaptation = canonical_json(cell.task.declared()) if cell.task else ""
            cells.append(Cell(name, cell.label, canonical_json(cell.axes), run.digest, adaptation))
        for label, task in evaluations(workspace, experiment).items():
            evaluated.append(Evaluated(name, label, canonical_json(task.declared())))
    packed = list(_packed(runs.values(), request))
    meta = {"request": canonical_json(asdict(request))}
    where = planfile.location(workspace, request, runs)
    with atomic_path(where) as temporary:
        planfile.write(temporary, meta, packed, cells, list(images.values()), evaluated)
    for pack, members in itertools.groupby(packed, key=lambda run: run.pack):
        directories = [workspace.run_at(run.directory) for run in members]
        if all(run.outcome() is State.FINISHED for run in directories):
            workspace.pack(pack).write(directories)
    return where


def _run(workspace: Workspace, spec: RunSpec, request: Request) -> Run:
    """The plan's line of a run: names, places and estimates."""
    identity, estimate = identify(spec), cost(workspace, spec, request.device)
    directory = workspace.run(run_name(spec, identity)).reuse(request.rerun)
    return Run(
        digest=identity.digest,
        code=directory.name.partition("-")[2],
        directory=_below(workspace, directory.path),
        dataset=spec.data.dataset,
        method=spec.method.name,
        target=spec.data.target_name or "none",
        seed=spec.seed,
        spec=canonical_json(spec.model_dump(mode="json")),
        pack="",
        rounds=spec.federation.rounds,
        images=estimate.images,
        minutes=estimate.minutes,
        mem_mb=estimate.mem_mb,
        disk_mb=estimate.disk_mb,
        prepared=_below(workspace, workspace.prepared(prepared_name(spec.data))),
        partition=_below(workspace, workspace.partition(partition_name(spec))),
        kept_mb=estimate.kept_mb,
        installed=identity.code,
    )


def ready(workspace: Workspace, request: Request) -> Path:
    """The plan of a request, made where it is absent, or where finished runs decide which runs there are
    (rerun: version).
    """
    path = planfile.last(workspace, request)
    return path if path and request.rerun == "code" else plan(workspace, request)


def specs(workspace: Workspace, request: Request) -> list[RunSpec]:
    """The runs of a request: those of its plan where there is one, else expanded now, each use of a run
    once.
    """
    if path := planfile.last(workspace, request):
        return [RunSpec.model_validate_json(run.spec) for run in planfile.runs(path)]
    return [cell.spec for name in request.experiments for cell in expand(workspace, load(workspace, name))]


def _below(workspace: Workspace, path: Path) -> str:
    return Path(os.path.relpath(path, workspace.root)).as_posix()


def _packed(runs: Iterable[Run], request: Request) -> Iterable[Run]:
    """Chunks of seeds of one configuration, as many as one job trains; a pure function of which runs there
    are and how long they take.
    """

    def configuration(run: Run) -> str:
        return run.code + canonical_json({**json.loads(run.spec), "seed": None})

    known = ((run, configuration(run)) for run in runs)
    ordered = sorted(
        known, key=lambda item: (item[0].dataset, item[0].method, item[0].target, item[1], item[0].seed)
    )
    for _, group in itertools.groupby(ordered, key=lambda item: item[1]):
        members = [run for run, _ in group]
        size = min(request.pack, job.fitting(members[0].minutes, request.parallel, request.hours))
        for first in range(0, len(members), size):
            chunk = members[first : first + size]
            pack = sha256("\n".join(sorted(run.name for run in chunk)))[:16]
            yield from (run._replace(pack=pack) for run in chunk)
