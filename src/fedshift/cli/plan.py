"""`fedshift plan` and `fedshift status`: the runs of experiments, what is left to do, and what has failed."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from fedshift.analysis import cells
from fedshift.archive.store import archived
from fedshift.cli._options import echo_json, experiments_argument, json_option
from fedshift.common.yaml_file import read
from fedshift.experiments.load import available, load, unknown_experiment
from fedshift.experiments.tuning import trials, unequal
from fedshift.planning import job, planfile
from fedshift.planning.cluster import troubles
from fedshift.planning.lacking import lacking, messages
from fedshift.planning.plan import plan, ready
from fedshift.planning.planfile import COSTS, Run
from fedshift.planning.request import DEVICES, GRAPH, Request
from fedshift.planning.settle import changed, retrain, settle, warnings
from fedshift.spec import RunSpec
from fedshift.storage.rundir import State
from fedshift.storage.workspace import TUNING, Workspace

CHANGED = "its method or model has changed since: plan --retrain-changed"


def read_request(workspace: Workspace, names: tuple[str, ...], **overrides: Any) -> Request:
    """The request with `names` and `overrides`; everything else is read from params.yaml.

    Raises FedshiftError for an unknown experiment.
    """
    path = workspace.root / "params.yaml"
    config = read(path) if path.is_file() else {}
    given = {"experiments": names or None, **overrides}
    values = {key: value for key, value in given.items() if value is not None}
    request = Request.of({**config, **values}, workspace.root, path.name)
    known = available(workspace)
    for name in request.experiments:
        if name not in known and name.removesuffix(TUNING) not in known:
            raise unknown_experiment(workspace, name)
    return request


@click.command(
    epilog="Examples: fedshift plan hfedf/table2 --device cuda; fedshift plan demo --json; "
    "fedshift plan demo --retry-failed"
)
@experiments_argument
@click.option("--pack", type=click.IntRange(min=1), help="Runs per job: seeds of one configuration.")
@click.option("--device", type=click.Choice(DEVICES), help="Device for the estimate of training times.")
@click.option("--parallel", type=click.IntRange(min=1), help="Runs of a job trained at once.")
@click.option("--hours", type=click.IntRange(min=1), help="Maximum hours requested for a job.")
@click.option(
    "--minutes", type=click.IntRange(min=0), help="Minimum training time per job; shorter runs are grouped."
)
@click.option("--graph", type=click.Choice(GRAPH), help="Whether a GPU replays steps as CUDA graphs.")
@click.option("--retry-failed", is_flag=True, help="Train runs that failed for good again.")
@click.option(
    "--retrain-changed",
    is_flag=True,
    help="Train finished runs again whose method's or model's file has changed since.",
)
@click.option(
    "--print",
    "listing",
    type=click.Choice(["table", "runs", "packs", "path"]),
    default="table",
    show_default=True,
)
@json_option
@click.pass_obj
def command(
    workspace: Workspace,
    /,
    names: tuple[str, ...],
    retry_failed: bool,
    retrain_changed: bool,
    listing: str,
    as_json: bool,
    **overrides: Any,
) -> None:
    """Show the runs of experiments (default: those of params.yaml), what is left to do and what it costs.
    Writes the plan below results/plan/.
    """
    request = read_request(workspace, names, **overrides)
    path = plan(workspace, request)
    runs = planfile.runs(path)
    if retry_failed:
        directories = [workspace.run_at(run.directory) for run in runs]
        failed = [run for run in directories if run.outcome() is State.FAILED]
        for run in failed:
            run.retry()
        click.echo(f"{len(failed)} failed runs are trained again at the next start.", err=True)
    if retrain_changed:
        retrain(workspace, other := changed(workspace, runs))
        click.echo(f"{len(other)} runs of changed methods are trained again at the next start.", err=True)
    if retry_failed or retrain_changed:
        settle(workspace, runs, planfile.cells(path))
    if listing == "path":
        click.echo(path)
    elif listing == "runs":
        click.echo("\n".join(sorted(run.digest for run in runs)))
    elif listing == "packs":
        packs = {run.digest: run.stamp for run in runs}
        for use in planfile.cells(path):
            click.echo(f"{packs[use.digest]}  {use.experiment}  {use.label}  {use.axes}")
    else:
        _show(workspace, path, request, as_json)


def _show(workspace: Workspace, path: Path, request: Request, as_json: bool) -> None:
    """Print what is planned and left to do, a line for each experiment, then notes."""
    every = planfile.runs(path)
    specs = {run.digest: RunSpec.model_validate_json(run.spec) for run in every}
    guesses = {digest: _guesses(workspace, spec, request.device) for digest, spec in specs.items()}
    directories = {run.digest: workspace.run_at(run.directory) for run in every}
    left = {digest for digest, run in directories.items() if run.outcome() is not State.FINISHED}
    lost = {digest for digest in left if directories[digest].failed_for_good}
    left -= lost
    shown = [(name, planfile.runs(path, experiment=name)) for name in request.experiments]
    if len(shown) > 1:
        shown.append(("all, each run once", every))
    facts: list[dict[str, Any]] = []
    for name, runs in shown:
        todo = [run for run in runs if run.digest in left]
        failures = sum(run.digest in lost for run in runs)
        facts.append(
            {
                "experiment": name,
                "runs": len(runs),
                "done": len(runs) - len(todo) - failures,
                "failed": failures,
                "packs": len({run.pack for run in todo}),
                "images": sum(run.images for run in todo),
                "hours": sum(run.minutes for run in todo) / 60,
                "disk_mb": job.disk_mb(todo, request.parallel),
                "guessed": any(guesses[run.digest] for run in todo),
            }
        )
    notes = [
        f"Failed, and not trained again: {len(lost)} runs. Reasons: fedshift status. "
        "Once they are fixed: fedshift plan --retry-failed."
    ] * bool(lost)
    notes += _notes(workspace, path, request, [run for run in every if run.digest in left], specs)
    notes += sorted({guess for of_run in guesses.values() for guess in of_run})
    if as_json:
        echo_json({"plan": str(path), "device": request.device, "experiments": facts, "notes": notes})
        return
    width = max(len(name) for name, _ in shown)
    click.echo(
        f"{'experiment':{width}} {'runs':>6} {'done':>6} {'packs':>6} {'images':>9} {'hours':>9} {'disk':>9}"
    )
    for row in facts:
        images, disk = f"{row['images'] / 1e6:.1f} M", f"{row['disk_mb'] / 1e3:.1f} GB"
        hours = f"{'~' if row['guessed'] else ''}{row['hours']:.1f}"
        click.echo(
            f"{row['experiment']:{width}} {row['runs']:6} {row['done']:6} {row['packs']:6} {images:>9} "
            f"{hours:>9} {disk:>9}"
        )
    click.echo(
        f"Packs, images, hours and disk (one {request.device} worker) are of what is still to do. "
        f"Plan: {path}"
    )
    for line in notes:
        click.echo(line)


def _notes(
    workspace: Workspace, path: Path, request: Request, left: list[Run], specs: Mapping[str, RunSpec]
) -> Iterator[str]:
    """Notes on a plan. `left`: the runs to be trained; `specs`: run id -> specification, of all runs."""
    yield from warnings(changed(workspace, planfile.runs(path)))
    if count := archived(workspace, [run.directory for run in left]):
        yield f"Archived, of what is still to do: {count} runs (`fedshift table` shows them)."
    for name in request.experiments:
        if name.endswith(TUNING):
            budgets = unequal(trials(workspace, load(workspace, name.removesuffix(TUNING))))
            if rows := ", ".join(f"{row} {count}" for row, count in budgets.items()):
                yield f"{name}: rows are tuned with different budgets (points): {rows}."
    yield from messages(lacking(workspace, [specs[run.digest] for run in left]))
    if longer := [run for run in left if job.longer([run], request.parallel, request.hours)]:
        longest = max(longer, key=lambda run: run.minutes)
        yield (
            f"{len(longer)} runs may outlast a job of {request.hours} hours (params.yaml: hours) and rely on "
            f"their checkpoints: the next attempt resumes. The longest: {longest.minutes / 60:.0f} hours, "
            f"{longest.directory}"
        )
    import torch

    from fedshift.federation.precision import has_bf16

    bf16 = sum(specs[run.digest].local.precision == "bf16" for run in left)
    if bf16 and not has_bf16(torch.device(request.device)):
        yield (
            f"{bf16} runs are in bf16, for which this CPU has no instructions: they take longer than in "
            "fp32 (docs/reproducibility.md, Precision)."
        )
    for name in request.experiments:
        values = [{"method": use.label, **json.loads(use.axes)} for use in planfile.cells(path, name)]
        yield from cells.warnings(load(workspace, name), values)


def _guesses(workspace: Workspace, spec: RunSpec, device: str) -> list[str]:
    """The basis of a run's estimate, where it was not measured or counted; the table marks it with `~`."""
    from fedshift.planning.costs import counts, speed

    guesses, estimate = [], speed(workspace, spec, device)
    if not estimate.measured:
        network = f"{spec.model.name} at {spec.data.input_px} px in {spec.local.precision}"
        guesses.append(
            f"~ Not measured on {device}, estimated: {network} (from {estimate.source}). "
            f"Add a line to {COSTS}."
        )
    name, release = spec.data.dataset, spec.data.release
    if not counts(workspace, name, release).source:
        guesses.append(
            f"~ Nobody has counted the images of {name} {release}, a guess. "
            f"Run: fedshift fetch {name} --release {release}"
        )
    return guesses


@click.command("status", epilog="Examples: fedshift status; fedshift status hfedf/table2 --runs")
@experiments_argument
@click.option("--runs", "every", is_flag=True, help="List every run, not only failed and running ones.")
@json_option
@click.pass_obj
def status(workspace: Workspace, names: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Count finished, archived, running, failed, interrupted and missing runs of experiments (default: those
    of params.yaml). `archived` counts runs that are in the archive but not finished here.
    """
    request = read_request(workspace, names)
    path = ready(workspace, request)
    rows = [_row(workspace, path, name) for name in request.experiments]
    if as_json:
        echo_json(rows)
        return
    width, columns = max(map(len, request.experiments)), [*State, "archived"]
    click.echo(f"{'experiment':{width}} {'runs':>6} " + " ".join(f"{name:>11}" for name in columns))
    for row in rows:
        numbers = " ".join(f"{row[name]:11}" for name in columns)
        click.echo(f"{row['experiment']:{width}} {len(row['runs']):6} {numbers}")
    described = {run["directory"]: run for row in rows for run in row["runs"]}
    planned = [(run, described[run.directory]) for run in planfile.runs(path)]
    todo = [run for run, now in planned if now["state"] != State.FINISHED]
    for line in messages(lacking(workspace, [RunSpec.model_validate_json(run.spec) for run in todo])):
        click.echo(line)
    for line in warnings(run for run, now in planned if now["why"] == CHANGED):
        click.echo(line)
    for what, cure in troubles(workspace):
        click.echo(f"{what}\n  {cure}")
    for run in described.values():
        if every or run["state"] in (State.FAILED, State.RUNNING):
            click.echo(f"{run['state']:11} {run['directory']}" + (f"  {run['why']}" if run["why"] else ""))


def _row(workspace: Workspace, path: Path, name: str) -> dict[str, Any]:
    """An experiment: the number of runs in each state, and every run."""
    fields = ("digest", "directory", "dataset", "method", "target", "seed")
    runs = []
    for run in planfile.runs(path, experiment=name):
        state, why = describe(workspace, run)
        runs.append({**{key: getattr(run, key) for key in fields}, "state": str(state), "why": why})
    counts = Counter(run["state"] for run in runs)
    unfinished = [run["directory"] for run in runs if run["state"] != State.FINISHED]
    by_state = {str(state): counts[state] for state in State}
    return {"experiment": name, **by_state, "archived": archived(workspace, unfinished), "runs": runs}


def describe(workspace: Workspace, run: Run) -> tuple[State, str]:
    """The state of a run, and what trains it, why it failed, or that its method has changed since."""
    directory = workspace.run_at(run.directory)
    state = directory.state()
    if state is State.FINISHED and changed(workspace, [run]):
        return state, CHANGED
    if state is State.RUNNING:
        return state, str(directory.writer() or "")
    if state is State.FAILED and (failure := directory.failure()):
        again = "the next start tries again" if failure["retry"] else "fix it, then plan --retry-failed"
        return state, f"{failure['kind']}: {failure['text']} ({again})"
    return state, ""
