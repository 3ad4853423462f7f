"""Expands experiments to runs, each once, and groups them into packs: what one job trains."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from fedshift.common.files import canonical_json, sha256
from fedshift.experiments.expand import Cell as Expanded
from fedshift.experiments.expand import evaluations, expand, planned
from fedshift.experiments.load import load
from fedshift.experiments.paper_claims import paper_claims, sides, table_of
from fedshift.experiments.schema import Compared, Experiment
from fedshift.experiments.tuning import check_places, trials
from fedshift.planning import job, planfile
from fedshift.planning.planfile import Cell, Evaluated, Images, Plan, Run
from fedshift.planning.request import Request
from fedshift.planning.settle import restore_pulled, settle
from fedshift.spec import RunSpec
from fedshift.storage.workspace import TUNING, Workspace

NEWEST, DAYS = 10, 30  # plans that stay: the newest, and those that a job may wait with


def plan(workspace: Workspace, request: Request) -> Path:
    """Write the plan of a request and settle its stamps; return its path.

    Raises FedshiftError for an experiment that cannot be read or run, and for a tuned one whose settings have
    not been chosen. Reads no images.
    """
    restore_pulled(workspace)
    parts = _Parts(workspace, request)
    experiments = [load(workspace, name) for name in request.experiments]
    for experiment in experiments:
        parts.add(experiment)
    pairs = compared(workspace, experiments)
    content = Plan(
        asdict(request),
        list(_packed(parts.runs.values(), request)),
        parts.cells,
        list(parts.images.values()),
        parts.evaluated,
        {name: [pair.other for pair in pairs if pair.experiment == name] for name, _ in pairs},
    )
    where = planfile.location(workspace, request)
    planfile.write(where, content)
    settle(workspace, content.runs, content.cells)
    _forget_old(where.parent)
    return where


def _forget_old(folder: Path) -> None:
    """Each edit makes another plan: remove those that no job waits with any more."""
    for path in sorted(folder.iterdir(), key=planfile.used)[:-NEWEST]:
        if time.time() - planfile.used(path) / 1e9 > DAYS * 86400:
            path.unlink(missing_ok=True)


class _Parts:
    """What a plan is built from, experiment by experiment."""

    def __init__(self, workspace: Workspace, request: Request) -> None:
        self.workspace, self.request = workspace, request
        self.runs: dict[str, Run] = {}
        self.images: dict[str, Images] = {}
        self.cells: list[Cell] = []
        self.evaluated: list[Evaluated] = []

    def add(self, experiment: Experiment) -> None:
        """An experiment, or the search of one."""
        cells = list(planned(self.workspace, experiment)) if experiment.train else []
        if experiment.name.endswith(TUNING):
            self._check_places(experiment, cells)
        for cell in cells:
            self._use(experiment.name, cell)
        for label, task in evaluations(self.workspace, experiment).items():
            self.evaluated.append(Evaluated(experiment.name, label, canonical_json(task.declared())))

    def _check_places(self, stage: Experiment, tried: list[Expanded]) -> None:
        """A search covers every run of its experiment, or it is not begun."""
        experiment = load(self.workspace, stage.name.removesuffix(TUNING))
        row_of = {trial.label: trial.row for trial in trials(self.workspace, experiment)}
        final = [(cell.label, cell.axes) for cell in expand(self.workspace, experiment) if not cell.task]
        check_places(experiment, final, [(row_of[cell.label], cell.axes) for cell in tried])

    def _use(self, name: str, cell: Expanded) -> None:
        """Plan a run that an experiment uses."""
        run, data = _run(self.workspace, cell.spec, self.request), cell.spec.data
        self.images[run.prepared] = Images(run.prepared, data.dataset, data.release, data.prepare.px)
        self.runs.setdefault(run.digest, run)
        adaptation = canonical_json(cell.task.declared()) if cell.task else ""
        self.cells.append(Cell(name, cell.label, canonical_json(cell.axes), run.digest, adaptation))


def _run(workspace: Workspace, spec: RunSpec, request: Request) -> Run:
    """The plan's line of a run: names, places and estimates."""
    from fedshift.planning.costs import cost  # torch, which who reads a plan need not load

    identity, estimate = spec.run_id, cost(workspace, spec, request.device)
    return Run(
        digest=identity,
        code=spec.method_code,
        directory=f"results/runs/{spec.place}/{identity}",
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
        prepared=_below(workspace, workspace.prepared(spec.data.prepared_name)),
        partition=_below(workspace, workspace.partition(spec.partition_name)),
        kept_mb=estimate.kept_mb,
    )


def ready(workspace: Workspace, request: Request) -> Path:
    """The plan of a request with its stamps settled, made where it is absent."""
    path = planfile.last(workspace, request)
    if path is None:
        return plan(workspace, request)
    restore_pulled(workspace)
    settle(workspace, planfile.runs(path), planfile.cells(path))
    return path


def specs(workspace: Workspace, request: Request) -> list[RunSpec]:
    """The runs of a request: those of its plan where there is one, else expanded now, each use of a run
    once.
    """
    if path := planfile.last(workspace, request):
        return [RunSpec.model_validate_json(run.spec) for run in planfile.runs(path)]
    return [cell.spec for name in request.experiments for cell in planned(workspace, load(workspace, name))]


def _below(workspace: Workspace, path: Path) -> str:
    return Path(os.path.relpath(path, workspace.root)).as_posix()


def _packed(runs: Iterable[Run], request: Request) -> Iterable[Run]:
    """What each job trains: chunks of seeds of one configuration, as many as fit; chunks of one method and
    data set share a job until it is worth its start. A pure function of which runs there are and how long
    they take.
    """
    pack: list[Run] = []
    for chunk, last in _chunks(runs, request):
        pack += chunk
        if last or sum(run.minutes for run in pack) >= request.minutes:
            name = sha256("\n".join(sorted(run.digest for run in pack)))[:16]
            yield from (run._replace(pack=name) for run in pack)
            pack = []


def _chunks(runs: Iterable[Run], request: Request) -> Iterator[tuple[list[Run], bool]]:
    """Seeds of one configuration, as many as one job trains, and whether they are the last of their method
    and data set.
    """

    def configuration(run: Run) -> str:
        return canonical_json({**json.loads(run.spec), "seed": None})

    known = ((run, configuration(run)) for run in runs)
    ordered = sorted(
        known, key=lambda item: (item[0].dataset, item[0].method, item[0].target, item[1], item[0].seed)
    )
    for _, alike in itertools.groupby(ordered, key=lambda item: (item[0].dataset, item[0].method)):
        chunks = []
        for _, group in itertools.groupby(alike, key=lambda item: item[1]):
            members = [run for run, _ in group]
            size = min(request.pack, job.fitting(members[0].minutes, request.parallel, request.hours))
            chunks += [members[first : first + size] for first in range(0, len(members), size)]
        yield from ((chunk, chunk is chunks[-1]) for chunk in chunks)


class Pair(NamedTuple):
    """An experiment, and another that its claims compare with."""

    experiment: str
    other: str


def compared(workspace: Workspace, experiments: Iterable[Experiment]) -> list[Pair]:
    """All such pairs among these experiments: claims whose left side the first prints and whose right side
    the other does, and those that the first declares so.
    """
    every = {experiment.name: experiment for experiment in experiments}
    pairs = {*_printed(workspace, every.values())}
    pairs |= {Pair(name, other) for name, one in every.items() for other in _declared(one)}
    return sorted(pair for pair in pairs if pair.other in every and pair.other != pair.experiment)


def _printed(workspace: Workspace, experiments: Iterable[Experiment]) -> Iterator[Pair]:
    """Of claims on numbers of two tables of a paper."""
    owners: dict[tuple[str, str], list[str]] = {}
    for experiment in experiments:
        for printed in dict.fromkeys(name for table in experiment.tables.values() for name in table.printed):
            owners.setdefault((experiment.paper, printed), []).append(experiment.name)
    if len({name for names in owners.values() for name in names}) < 2:
        return
    for row in paper_claims(workspace).values():
        tables = [{table_of(uid) for _, uid in side.terms} for side in sides(workspace, row)]
        of = [{name for table in each for name in owners.get(table, ())} for each in tables]
        yield from (Pair(name, other) for name in next(iter(of), ()) for others in of for other in others)


def _declared(experiment: Experiment) -> Iterator[str]:
    """The experiments that its own claims name."""
    for claim in experiment.claims.values():
        for chosen in claim.rows.values():
            for side in chosen if isinstance(chosen, list) else [chosen]:
                yield from _of(side)


def _of(side: str | Compared) -> Iterator[str]:
    if isinstance(side, Compared):
        yield side.experiment
        for other in (*side.plus, *side.minus):
            yield from _of(other)
