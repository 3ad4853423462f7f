"""`fedshift status`: where every run of the experiments stands, failures with their reasons."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from fedshift.archive.store import archived
from fedshift.cli._names import experiments_argument
from fedshift.cli._options import echo_json, json_option
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


@click.command
@experiments_argument
@click.option(
    "--runs", "every", is_flag=True, help="Name every run, not only those that failed or are running."
)
@json_option
@click.pass_obj
def command(workspace: Workspace, names: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Count finished, running, failed, interrupted and missing runs of experiments (default: those of
    params.yaml); archived: how many of those that are not finished here the archive contains.
    """
    request = read_request(workspace, names)
    path = ready(workspace, request)
    listed = request.experiments
    if as_json:
        echo_json([_json(workspace, path, name) for name in listed])
        return
    width = max(map(len, listed))
    columns = [*State, "archived"]
    click.echo(f"{'experiment':{width}} {'runs':>6} " + " ".join(f"{name:>11}" for name in columns))
    lines: dict[str, tuple[State, str]] = {}
    for name in listed:
        states = {run: describe(workspace, run) for run in planfile.runs(path, experiments=(name,))}
        counts = Counter(kind for kind, _ in states.values())
        unfinished = [run.directory for run, (kind, _) in states.items() if kind is not State.FINISHED]
        numbers = [*(counts[kind] for kind in State), archived(workspace, unfinished)]
        click.echo(f"{name:{width}} {len(states):6} " + " ".join(f"{number:11}" for number in numbers))
        lines |= {run.directory: (kind, why) for run, (kind, why) in states.items()}
    todo = [run for run in planfile.runs(path) if lines[run.directory][0] is not State.FINISHED]
    for line in messages(lacking(workspace, [RunSpec.model_validate_json(run.spec) for run in todo])):
        click.echo(line)
    for line in warnings(run for run in planfile.runs(path) if lines[run.directory][1] == CHANGED):
        click.echo(line)
    for what, cure in troubles(workspace):
        click.echo(f"{what}\n  {cure}")
    for directory, (kind, why) in lines.items():
        if every or kind in (State.FAILED, State.RUNNING):
            click.echo(f"{kind:11} {directory}" + (f"  {why}" if why else ""))


def _json(workspace: Workspace, path: Path, name: str) -> dict[str, object]:
    """An experiment with every run of it."""
    described = [(run, *describe(workspace, run)) for run in planfile.runs(path, experiments=(name,))]
    counts = Counter(kind for _, kind, _ in described)
    fields = ("digest", "directory", "dataset", "method", "target", "seed")
    listed = [
        {**{key: getattr(run, key) for key in fields}, "state": str(kind), "why": why}
        for run, kind, why in described
    ]
    by_state = {str(kind): counts[kind] for kind in State}
    by_state["archived"] = archived(
        workspace, [run.directory for run, kind, _ in described if kind is not State.FINISHED]
    )
    return {"experiment": name, **by_state, "runs": listed}


def describe(workspace: Workspace, run: Run) -> tuple[State, str]:
    """How far a run is; its writer where it is running, the reason where it failed, and whether its
    method has changed since it was finished.
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
