"""Expand experiments to runs, each once, and group them into packs, one for each job."""

import itertools
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from fedshift.common.files import canonical_json, sha256
from fedshift.experiments.expand import evaluations, expand, planned
from fedshift.experiments.load import load
from fedshift.experiments.paper_claims import sides, table_of
from fedshift.experiments.schema import Experiment
from fedshift.experiments.tuning import check_places, trials
from fedshift.planning import job, planfile
from fedshift.planning.planfile import Cell, Evaluated, Images, Plan, Run
from fedshift.planning.request import Request
from fedshift.planning.settle import restore_pulled, settle
from fedshift.spec import RunSpec
from fedshift.storage.workspace import TUNING, Workspace

NEWEST, DAYS = 10, 30  # plans that stay: the newest, and those that a job may wait with


def plan(workspace: Workspace, request: Request) -> Path:
    """Write the plan of a request and settle its stamps; return its path. Reads no images.

    Raises FedshiftError for an experiment that cannot be read or run, and for a tuned one whose settings have
    not been chosen.
    """
    restore_pulled(workspace)
    experiments = [load(workspace, name) for name in request.experiments]
    runs, images = dict[str, Run](), dict[str, Images]()
    cells, evaluated = list[Cell](), list[Evaluated]()
    for experiment in tqdm(experiments, "planning", leave=False, delay=2, disable=None):  # None: not in logs
        expanded = planned(workspace, experiment) if experiment.train else []
        if experiment.name.endswith(TUNING):  # a search covers every run of its experiment
            of = load(workspace, experiment.name.removesuffix(TUNING))
            row_of = {trial.label: trial.row for trial in trials(workspace, of)}
            final = ((cell.label, cell.axes) for cell in expand(workspace, of) if not cell.task)
            check_places(of, final, [(row_of[cell.label], cell.axes) for cell in expanded])
        for cell in expanded:
            run, data = _run(workspace, cell.spec, request), cell.spec.data
            images[run.prepared] = Images(run.prepared, data.dataset, data.release, data.prepare.px)
            runs.setdefault(run.digest, run)
            adaptation = canonical_json(cell.task.declared()) if cell.task else ""
            axes = canonical_json(cell.axes)
            cells.append(Cell(experiment.name, cell.label, axes, run.digest, adaptation))
        for label, task in evaluations(workspace, experiment).items():
            evaluated.append(Evaluated(experiment.name, label, canonical_json(task.declared())))
    packed, others = [*_packed(runs.values(), request)], compared(workspace, experiments)
    content = Plan(asdict(request), packed, cells, [*images.values()], evaluated, others)
    where = planfile.location(workspace, request)
    planfile.write(where, content)
    settle(workspace, content.runs, content.cells)
    for path in sorted(where.parent.iterdir(), key=planfile.used)[:-NEWEST]:  # each edit makes another plan
        if time.time() - planfile.used(path) / 1e9 > DAYS * 86400:
            path.unlink(missing_ok=True)
    return where


def _run(workspace: Workspace, spec: RunSpec, request: Request) -> Run:
    """The plan's record of a run: names, paths and estimates."""
    from fedshift.planning.costs import cost  # torch, which is not needed to read a plan

    identity = spec.run_id
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
        prepared=workspace.prepared(spec.data.prepared_name).relative_to(workspace.root).as_posix(),
        partition=workspace.partition(spec.partition_name).relative_to(workspace.root).as_posix(),
        **cost(workspace, spec, request.device)._asdict(),
    )


def ready(workspace: Workspace, request: Request) -> Path:
    """The plan of a request with its stamps settled; made if it is absent."""
    path = planfile.last(workspace, request)
    if path is None:
        return plan(workspace, request)
    restore_pulled(workspace)
    settle(workspace, planfile.runs(path), planfile.cells(path))
    return path


def specs(workspace: Workspace, request: Request) -> list[RunSpec]:
    """The runs of a request: those of its plan if there is one, else each use of a run."""
    if path := planfile.last(workspace, request):
        return [RunSpec.model_validate_json(run.spec) for run in planfile.runs(path)]
    return [cell.spec for name in request.experiments for cell in planned(workspace, load(workspace, name))]


def _packed(runs: Iterable[Run], request: Request) -> Iterator[Run]:
    """Assign runs to packs, one for each job.

    A chunk has as many seeds of one configuration as fit. Chunks of one method and data set share a job until
    it is worth its start. The result only depends on the set of runs and their minutes.
    """

    def configuration(run: Run) -> tuple[str, ...]:
        spec = canonical_json({**json.loads(run.spec), "seed": None})
        return run.dataset, run.method, run.target, spec

    known = sorted(((configuration(run), run.seed, run) for run in runs), key=lambda item: item[:2])
    for _, alike in itertools.groupby(known, key=lambda item: item[0][:2]):
        chunks: list[list[Run]] = []
        for _, group in itertools.groupby(alike, key=lambda item: item[0]):
            members = [run for *_, run in group]
            size = min(request.pack, job.fitting(members[0].minutes, request.parallel, request.hours))
            chunks += [members[first : first + size] for first in range(0, len(members), size)]
        pack: list[Run] = []
        for chunk in chunks:
            pack += chunk
            if chunk is chunks[-1] or sum(run.minutes for run in pack) >= request.minutes:
                name = sha256("\n".join(sorted(run.digest for run in pack)))[:16]
                yield from (run._replace(pack=name) for run in pack)
                pack = []


def compared(workspace: Workspace, experiments: Iterable[Experiment]) -> dict[str, list[str]]:
    """Experiment -> the others among these that it is compared with.

    These are the experiments of claims with the left side in this experiment's tables and the right side in
    the other's, and those that its claims name.
    """
    owners, pairs, names = defaultdict[tuple[str, str], set[str]](set), set[tuple[str, str]](), set[str]()
    for one in experiments:
        names.add(one.name)
        for printed in (name for table in one.tables.values() for name in table.printed):
            owners[one.paper, printed].add(one.name)
        declared = [side for claim in one.claims.values() for of in claim.sides.values() for side in of]
        pairs |= {(one.name, part.experiment) for side in declared for part in side.parts}
    for every in sides(workspace).values() if len(set().union(*owners.values())) > 1 else ():
        tables = [{*map(table_of, side.cells)} for side in every]
        of = [{name for table in each for name in owners.get(table, ())} for each in tables]
        pairs |= {(name, other) for name in next(iter(of), ()) for others in of for other in others}
    found: dict[str, list[str]] = {}
    for name, other in sorted(pairs):
        if other in names and other != name:
            found.setdefault(name, []).append(other)
    return found
