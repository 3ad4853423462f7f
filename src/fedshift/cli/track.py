"""`fedshift track`: publish runs in MLflow."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tqdm import tqdm

from fedshift.cli._options import experiments_argument, plan_option
from fedshift.cli.plan import read_request
from fedshift.common.errors import FedshiftError
from fedshift.common.files import hold
from fedshift.common.registry import get
from fedshift.experiments.column import quantity, recorded
from fedshift.experiments.load import load
from fedshift.planning import planfile
from fedshift.planning.plan import ready
from fedshift.storage.workspace import Workspace

if TYPE_CHECKING:
    from fedshift.tracking.publish import Follower

PATIENCE = 120.0  # seconds to wait for a store when there is nothing else to wait for


@click.command(epilog="Examples: fedshift track; fedshift track --follow demo; then look at it with make ui")
@experiments_argument
@click.option(
    "--follow/--once", help="Publish until every run has ended, or once what is there.  [default: once]"
)
@plan_option
@click.option(
    "--beside", type=int, metavar="PID", help="With --follow: stop when this process (snakemake) ends."
)
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Seconds between two checks.",
)
@click.pass_obj
def command(
    workspace: Workspace,
    names: tuple[str, ...],
    follow: bool,
    plan: Path | None,
    beside: int | None,
    every: float,
) -> None:
    """Publish runs of experiments (default: those of params.yaml) in MLflow: metrics, parameters, tags.

    The store is MLFLOW_TRACKING_URI, or mlflow.db in the project folder. Repeating the command is safe: each
    point is published once. Training never waits for MLflow. Snakemake starts a follower by itself, which
    writes logs/track.log; FEDSHIFT_TRACK=0 turns it off.
    """
    try:
        from fedshift.tracking.publish import Follower
    except ModuleNotFoundError as error:
        if error.name not in ("mlflow", "sqlalchemy"):
            raise
        cure = "pip install 'fedshift[mlflow]'"
        raise FedshiftError("fedshift track", "MLflow is not installed", cure) from None
    from fedshift.tracking.pages import followed
    from fedshift.tracking.store import address, shown_address

    wanted = read_request(workspace, names).experiments if names else ()
    path = plan or ready(workspace, read_request(workspace, names))
    uses = [cell for cell in planfile.cells(path) if not names or cell.experiment in wanted]
    runs = followed(planfile.runs(path), uses)
    follower = Follower(workspace, runs, address(workspace), _metrics(workspace, uses))
    if follow:
        os.nice(19)  # training on this machine goes first
    lock = workspace.results / ".track.lock"  # a workflow's follower waits for the one before it
    if (held := hold(lock, wait=beside is not None)) is None:
        what = "another follower is at work in this folder"
        raise FedshiftError(lock, what, "It publishes the same; wait for it.")
    try:
        _work(follower, follow, beside, every)
        pages = follower.describe()
    finally:
        os.close(held)
    if follower.client is not None:
        counts = Counter(map(follower.status, runs))
        click.echo(
            f"{counts['FINISHED']} finished, {counts['RUNNING']} unfinished and {counts['FAILED']} failed "
            f"of {len(runs)} runs are in {shown_address(follower.uri)}"
        )
    for page, views in pages.items():
        for name, url in views.items():
            click.echo(f"{page}, {name}: {url}")
    if pages and not follower.uri.startswith("http"):
        click.echo("These addresses answer while `make ui` runs.")
    if follower.problem:
        raise follower.problem


def _metrics(workspace: Workspace, uses: list[planfile.Cell]) -> tuple[str, ...]:
    """The metrics in tables of these experiments that runs do not record themselves."""
    experiments = [load(workspace, name) for name in dict.fromkeys(cell.experiment for cell in uses)]
    tables = [table for experiment in experiments for table in experiment.tables.values()]
    named = dict.fromkeys(quantity(text).metric for table in tables for text in recorded(table.metrics))
    return tuple(name for name in named if not get("metrics", name).recorded)


def _work(follower: Follower, follow: bool, beside: int | None, every: float) -> None:
    """Publish until no run is being written; a store that does not respond then has a little more time."""

    def waits() -> bool:
        """Whether the workflow runs, which makes tables at its end; without one, whether any run does."""
        if beside is not None:
            return _alive(beside)
        return any(follower.status(followed) not in ("FINISHED", "FAILED") for followed in follower.runs)

    total = sum(followed.run.rounds for followed in follower.runs)
    patience = PATIENCE if follow else 2 * every
    end, problem = math.inf, ""
    with tqdm(total=total, unit="round", disable=None, desc="published") as bar:
        while True:
            if end == math.inf and not (follow and waits()):
                end = time.monotonic() + patience
            for rounds in follower.sweep():
                bar.update(rounds)
            told, problem = problem, str(follower.problem or "")
            if problem not in ("", told):
                tqdm.write(f"{time.strftime('%H:%M:%S')} will try again: {problem.splitlines()[0]}")
            if end < math.inf and (not follower.problem or time.monotonic() > end):
                return
            time.sleep(every)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # another user's process: the number was reused
        return False
    return True
