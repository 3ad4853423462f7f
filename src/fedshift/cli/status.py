"""`fedshift status`: the state of every run of the experiments, with the reasons of failures."""

from collections import Counter
from pathlib import Path
from typing import Any

import click

from fedshift.archive.store import archived
from fedshift.cli._options import echo_json, experiments_argument, json_option
from fedshift.cli.plan import read_request
from fedshift.planning import planfile
from fedshift.planning.cluster import troubles
from fedshift.planning.lacking import lacking, messages
from fedshift.planning.plan import ready
from fedshift.planning.planfile import Run
from fedshift.planning.settle import changed, warnings
from fedshift.spec import RunSpec
from fedshift.storage.rundir import State
from fedshift.storage.workspace import Workspace

CHANGED = "its method or model has changed since: plan --retrain-changed"


@click.command(epilog="Examples: fedshift status; fedshift status hfedf/table2 --runs")
@experiments_argument
@click.option("--runs", "every", is_flag=True, help="List every run, not only failed and running ones.")
@json_option
@click.pass_obj
def command(workspace: Workspace, names: tuple[str, ...], every: bool, as_json: bool) -> None:
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
    """The state of a run, with details.

    These are the process that trains it, the reason of a failure, and whether its method has changed since it
    was finished.
    """
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
