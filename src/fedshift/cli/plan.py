"""`fedshift plan`: expand experiments to runs, and say what there is to do before anything starts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from fedshift.experiments.load import read
from fedshift.planning import job, planfile
from fedshift.planning.costs import counts, speed
from fedshift.planning.plan import plan
from fedshift.planning.planfile import Run
from fedshift.planning.request import DEVICES, RERUN, Request
from fedshift.spec import RunSpec
from fedshift.workspace import Workspace

rerun_option = click.option(
    "--rerun",
    type=click.Choice(RERUN),
    help="code: a run counts as done by the installed code only. version: by any, if it was declared alike.  [default: params.yaml]",
)


def request(root: Path, names: tuple[str, ...], **chosen: Any) -> Request:
    """The request of `names` and `chosen`; what is not given is read from params.yaml."""
    path = root / "params.yaml"
    config = read(path) if path.is_file() else {}
    given = {key: value for key, value in {"experiments": names, **chosen}.items() if value}
    return Request.of({**config, **given}, path.name)


@click.command
@click.argument("names", metavar="[EXPERIMENT]...", nargs=-1)
@click.option("--pack", type=click.IntRange(min=1), help="Seeds of one configuration in a pack.")
@click.option("--device", type=click.Choice(DEVICES), help="What training times are estimated for.")
@click.option("--parallel", type=click.IntRange(min=1), help="Runs of a pack that train at once.")
@rerun_option
@click.option("--retry-failed", is_flag=True, help="Ask again for runs that failed for good.")
@click.option(
    "--print",
    "shown",
    type=click.Choice(["table", "runs", "packs", "path"]),
    default="table",
    show_default=True,
)
@click.pass_obj
def command(
    workspace: Workspace,
    names: tuple[str, ...],
    pack: int | None,
    device: str | None,
    parallel: int | None,
    rerun: str | None,
    retry_failed: bool,
    shown: str,
) -> None:
    """Expand experiments (default: those of params.yaml) to runs; write the plan below results/plan/."""
    asked = request(workspace.root, names, pack=pack, device=device, parallel=parallel, rerun=rerun)
    path = plan(workspace, asked)
    if retry_failed:
        count = planfile.retry_failed(workspace.root, planfile.runs(path))
        click.echo(f"{count} packs with failed runs are asked for again.", err=True)
    if shown == "path":
        click.echo(path)
    elif shown == "runs":
        click.echo("\n".join(sorted(run.name for run in planfile.runs(path))))
    elif shown == "packs":
        packs = {run.digest: run.pack for run in planfile.runs(path)}
        rows = (
            f"{packs[use.digest]}  {use.experiment}  {use.label}  {use.axes}" for use in planfile.cells(path)
        )
        click.echo("\n".join(rows))
    else:
        _table(workspace.root, path, asked)


def _table(root: Path, path: Path, asked: Request) -> None:
    rows = [(name, planfile.runs(path, experiments=(name,))) for name in asked.experiments]
    every = planfile.runs(path)
    rows = rows if len(rows) == 1 else [*rows, ("all, each run once", every)]
    width = max(len(name) for name, _ in rows)
    click.echo(
        f"{'experiment':{width}} {'runs':>6} {'done':>6} {'packs':>6} {'images':>9} {'hours':>8} {'disk':>9}"
    )
    for name, runs in rows:
        todo = [run for run in runs if run.state != "finished"]
        packs = len({run.pack for run in todo})
        images = f"{sum(run.images for run in todo) / 1e6:.1f} M"
        hours, disk = (
            sum(run.minutes for run in todo) / 60,
            f"{job.disk_mb(todo, asked.parallel) / 1e3:.1f} GB",
        )
        click.echo(
            f"{name:{width}} {len(runs):6} {len(runs) - len(todo):6} {packs:6} {images:>9} {hours:8.1f} {disk:>9}"
        )
    click.echo(
        f"Packs, images, hours and disk (one {asked.device} worker) are of what is still to do. Plan: {path}"
    )
    if other := sum(run.of_other_code for run in every):
        click.echo(f"Done, of these by other code than is installed: {other} (rerun: version).")
    for guess in _guesses(Workspace(root), every, asked.device):
        click.echo(guess)


def _guesses(workspace: Workspace, runs: Iterable[Run], device: str) -> list[str]:
    specs = [RunSpec.model_validate_json(run.spec) for run in runs]
    speeds = {
        f"{spec.model.name} at {spec.data.input_px} px in {spec.local.precision}"
        for spec in specs
        if not speed(workspace.root, spec, device).source
    }
    sources = {(spec.data.dataset, spec.data.release) for spec in specs}
    uncounted = {source for source in sources if not counts(workspace, *source).source}
    return [
        *(
            f"Not measured on {device}, a cautious guess: {name}. Add a line to {planfile.COSTS}."
            for name in sorted(speeds)
        ),
        *(
            f"Nobody has counted the images of {name} {release}, a guess. Run: fedshift fetch {name} --release {release}"
            for name, release in sorted(uncounted)
        ),
    ]
