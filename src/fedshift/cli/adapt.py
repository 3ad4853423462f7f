"""`fedshift adapt`: adapt finished runs' models to their held-out domain without labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml

from fedshift.cli.plan import request, rerun_option
from fedshift.errors import FedshiftError
from fedshift.files import canonical_json
from fedshift.rundir import State
from fedshift.task import Task
from fedshift.workspace import Workspace

if TYPE_CHECKING:
    import torch

    from fedshift.analysis.collect import Use


@click.command
@click.argument("run", metavar="[DIGEST", required=False)
@click.argument("adaptation", metavar="ADAPTATION]", required=False)
@click.option("--experiment", metavar="NAME", help="Do all adaptations of this experiment instead.")
@click.option(
    "--plan",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="FEDSHIFT_PLAN",
    help="With --experiment: those of this plan.",
)
@click.option("--param", "chosen", multiple=True, metavar="KEY=VALUE", help="A parameter of the adaptation.")
@click.option(
    "--select",
    "selection",
    type=click.Choice(["best_first", "best_later", "last"]),
    default="best_first",
    show_default=True,
    help="Which of the kept weights.",
)
@click.option(
    "--full-domain", is_flag=True, help="All images of the domain, not only those that the run tests."
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    envvar="FEDSHIFT_DEVICE",
    show_default=True,
    help="auto: a GPU where there is one. cuda: on a machine without one the run fails.",
)
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="CPU threads.")
@rerun_option
@click.pass_obj
def command(
    workspace: Workspace,
    run: str | None,
    adaptation: str | None,
    experiment: str | None,
    plan: Path | None,
    chosen: tuple[str, ...],
    selection: str,
    full_domain: bool,
    device: str,
    threads: int,
    rerun: str | None,
) -> None:
    """Adapt the finished run DIGEST (a prefix will do) by ADAPTATION, and test it before and after on the
    same images.

    With --experiment: every finished run that the experiment's `adapt` asks for; those that are not finished
    are named.

    What has been done is not done again. Writes below results/adapted/ and prints the accuracies.
    """
    import torch

    from fedshift.analysis.collect import planned
    from fedshift.experiments.load import load

    torch.set_num_threads(threads)
    there = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    if experiment:
        if run is not None or chosen or full_domain:
            cure = "What to adapt how stands in the experiment's file: docs/add-an-experiment.md."
            raise FedshiftError(
                "--experiment", "goes with --plan, --rerun, --device and --threads only", cure
            )
        uses = planned(
            workspace,
            load(workspace.root, experiment),
            plan,
            request(workspace, (experiment,), rerun=rerun).rerun,
        )
        _experiment(workspace, experiment, [use for use in uses if use.adaptation], there)
    elif run is not None and adaptation:
        task = Task(adaptation, _params(chosen), selection, "full_domain" if full_domain else "tested")
        _one(workspace, _run(workspace, run), task, there)
    else:
        raise FedshiftError(
            "fedshift adapt", "nothing is named", "Give DIGEST and ADAPTATION, or --experiment NAME."
        )


def _one(workspace: Workspace, run: Path, task: Task, device: torch.device) -> Path:
    """Adapt one finished run and print what it changed."""
    from fedshift.training.adapt import adapt

    path = adapt(workspace, run, task, device)
    told = json.loads(path.read_text())
    click.echo(
        f"{told['target']}, {told['n']} images: accuracy {told['before']['accuracy']:.4f} -> "
        f"{told['after']['accuracy']:.4f}, "
        f"loss {told['before']['loss']:.4f} -> {told['after']['loss']:.4f}"
    )
    click.echo(path)
    return path


def _experiment(workspace: Workspace, name: str, uses: list[Use], device: torch.device) -> None:
    """Adapt every finished run that an experiment adapts, and gather the results."""
    from fedshift.analysis import adapted

    if not uses:
        cure = "Say what is adapted by `adapt`: docs/add-an-experiment.md."
        raise FedshiftError(f"experiments/{name}.yaml", "adapts nothing", cure)
    results = []
    for number, use in enumerate(uses, 1):
        click.echo(f"{number} of {len(uses)}: {use.label} {json.dumps(use.axes)}")
        run, task = workspace.run_at(use.directory), Task(**json.loads(use.adaptation)["task"])
        if canonical_json(task.declared()) != use.adaptation:
            what, cure = "the code has changed since this was planned", "Run snakemake again: it plans anew."
            raise FedshiftError(f"adaptation {task.adaptation}", what, cure)
        if run.outcome() is State.FINISHED:
            results.append(_one(workspace, run.path, task, device))
        else:
            click.echo(f"not finished: {use.directory}", err=True)
    click.echo(f"{len(results)} of {len(uses)} adaptations: {adapted.gather(workspace, name, results)}")


def _params(chosen: tuple[str, ...]) -> dict[str, object]:
    for one in chosen:
        if "=" not in one:
            raise FedshiftError(f"--param {one}", "has no '='", "Write --param KEY=VALUE.")
    return {key: yaml.safe_load(value) for key, _, value in (one.partition("=") for one in chosen)}


def _run(workspace: Workspace, digest: str) -> Path:
    """The directory of the one finished run whose name begins so."""
    runs = [run for run in workspace.runs() if run.outcome() is State.FINISHED]
    matching = [run.path for run in runs if run.name.startswith(digest)]
    if not matching:
        raise FedshiftError(
            workspace.results, f"no finished run is called '{digest}'", "See: fedshift status --runs."
        )
    if len(matching) > 1:
        names = ", ".join(path.name for path in matching)
        raise FedshiftError(
            workspace.results, f"'{digest}' begins several finished runs", f"One of: {names}."
        )
    return matching[0]
