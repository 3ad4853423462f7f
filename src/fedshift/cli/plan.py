"""`fedshift plan`: expand experiments to runs, and say what there is to do before anything starts."""

from __future__ import annotations

from typing import Any

import click

from fedshift.cli._names import experiments_argument
from fedshift.cli._options import json_option
from fedshift.common.yaml_file import read
from fedshift.experiments.load import available, unknown_experiment
from fedshift.planning import planfile
from fedshift.planning.plan import plan
from fedshift.planning.request import DEVICES, Request
from fedshift.planning.settle import changed, retrain, settle
from fedshift.storage.rundir import State
from fedshift.storage.workspace import TUNING, Workspace


def read_request(workspace: Workspace, names: tuple[str, ...], **overrides: Any) -> Request:
    """The request of `names` and `overrides`; the rest is read from params.yaml. Raises FedshiftError
    for an unknown experiment.
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


@click.command
@experiments_argument
@click.option("--pack", type=click.IntRange(min=1), help="Seeds of one configuration in a pack.")
@click.option("--device", type=click.Choice(DEVICES), help="What training times are estimated for.")
@click.option("--parallel", type=click.IntRange(min=1), help="Runs of a pack that train at once.")
@click.option("--hours", type=click.IntRange(min=1), help="The most that a job asks a cluster for.")
@click.option("--minutes", type=click.IntRange(min=0), help="The least of training that is worth a job.")
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
    names: tuple[str, ...],
    pack: int | None,
    device: str | None,
    parallel: int | None,
    hours: int | None,
    minutes: int | None,
    retry_failed: bool,
    retrain_changed: bool,
    listing: str,
    as_json: bool,
) -> None:
    """Expand experiments (default: those of params.yaml) to runs; write the plan below results/plan/."""
    overrides = {"pack": pack, "device": device, "parallel": parallel}
    overrides |= {"hours": hours, "minutes": minutes}
    request = read_request(workspace, names, **overrides)
    path = plan(workspace, request)
    runs = planfile.runs(path) if retry_failed or retrain_changed else []
    if retry_failed:
        directories = [workspace.run_at(run.directory) for run in runs]
        failed = [run for run in directories if run.outcome() is State.FAILED]
        for run in failed:
            run.retry()
        click.echo(f"{len(failed)} failed runs are trained again at the next start.", err=True)
    if retrain_changed:
        retrain(workspace, other := changed(workspace, runs))
        click.echo(f"{len(other)} runs of changed methods are trained again at the next start.", err=True)
    if runs:
        settle(workspace, runs, planfile.cells(path))
    if listing == "path":
        click.echo(path)
    elif listing == "runs":
        click.echo("\n".join(sorted(run.digest for run in planfile.runs(path))))
    elif listing == "packs":
        packs = {run.digest: run.stamp for run in planfile.runs(path)}
        rows = (
            f"{packs[use.digest]}  {use.experiment}  {use.label}  {use.axes}" for use in planfile.cells(path)
        )
        click.echo("\n".join(rows))
    else:
        from fedshift.cli._plan_table import show

        show(workspace, path, request, as_json)
