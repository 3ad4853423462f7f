"""`fedshift evaluate`: compute from the kept weights of finished runs what needs weights or images."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedshift.cli._names import complete, experiments
from fedshift.cli._options import device_option, parsed, plan_option, threads_option
from fedshift.common.errors import FedshiftError
from fedshift.experiments.load import available
from fedshift.experiments.task import KEPT, Images, Task
from fedshift.planning.cluster import acquit, blaming
from fedshift.storage.rundir import RunDirectory, State
from fedshift.storage.workspace import Workspace

if TYPE_CHECKING:
    import torch

    from fedshift.cli._tasks import Tasks
    from fedshift.experiments.schema import Experiment


@click.command
@click.argument("subject", metavar="EXPERIMENT|DIGEST", shell_complete=complete(experiments))
@click.argument("evaluation", required=False)
@plan_option
@click.option("--param", "params", multiple=True, metavar="KEY=VALUE", help="A parameter of EVALUATION.")
@click.option(
    "--select",
    "selection",
    type=click.Choice(KEPT),
    help="Which of the kept weights.  [default: an experiment's are by its protocol; best_first]",
)
@click.option(
    "--full-domain",
    is_flag=True,
    help="All images of the held-out domain, not only those that the run tests.",
)
@device_option
@threads_option
@click.pass_obj
def command(
    workspace: Workspace,
    subject: str,
    evaluation: str | None,
    plan: Path | None,
    params: tuple[str, ...],
    selection: str | None,
    full_domain: bool,
    device: str,
    threads: int,
) -> None:
    """Compute EVALUATION (`fedshift list evaluations`) of every finished run of an experiment, or of the
    finished run DIGEST (a prefix will do). Without EVALUATION: all that the experiment's `evaluations` and
    `adapt` ask for. With --plan, the runs of an experiment are those of the plan.

    What has been computed is not computed again. Runs that are not finished are named. A run that cannot be
    evaluated leaves the others alone; the exit status is 1 then. Writes into the runs' directories; what is
    made of an experiment is gathered in results/metrics/<experiment>.evaluated/.
    """
    import torch

    from fedshift.analysis.collect import planned
    from fedshift.api.runs import finished
    from fedshift.cli import _tasks
    from fedshift.experiments.load import load
    from fedshift.training.device import device as device_of
    from fedshift.training.device import require

    torch.set_num_threads(threads)
    with blaming(workspace, subject):
        require(torch_device := device_of(device))
    if evaluation is None and (params or selection or full_domain):
        cure = (
            "Name an EVALUATION. What an experiment asks for stands in its file: docs/add-an-evaluation.md."
        )
        raise FedshiftError(
            "fedshift evaluate", "--param, --select, --full-domain are of one evaluation", cure
        )
    images: Images = "full_domain" if full_domain else "tested"
    if subject in available(workspace):
        experiment = load(workspace, subject)
        uses = planned(workspace, experiment, plan)
        if evaluation is None:
            tasks = _tasks.declared(workspace, experiment, uses, plan)
            with blaming(workspace, subject):
                _of_experiment(workspace, experiment, tasks, torch_device)
            acquit(workspace)
        else:
            values = parsed(params, "--param")
            tasks = _tasks.named(workspace, experiment, uses, evaluation, values, selection, images)
            _of_experiment(workspace, experiment, tasks, torch_device)
    elif evaluation is not None:
        task = Task(evaluation, parsed(params, "--param"), selection or "best_first", images)
        _of_run(finished(workspace, subject).path, [task], workspace, torch_device)
    else:
        cure = "See: fedshift list experiments. Of a run, name an EVALUATION, too."
        raise FedshiftError(workspace.experiments, f"there is no experiment '{subject}'", cure)


def _of_experiment(workspace: Workspace, experiment: Experiment, tasks: Tasks, device: torch.device) -> None:
    """Compute tasks of every finished run, a run at a time, and gather the results. Exits with 1, and with
    the reasons, where some could not be computed.
    """
    from fedshift.analysis.evaluated import gather

    by_run: dict[str, list[str]] = {}  # directory -> labels
    for label, (_, uses) in tasks.items():
        for use in uses:
            by_run.setdefault(use.directory, []).append(label)
    files: dict[tuple[str, str], Path] = {}
    errors: list[str] = []
    for number, (directory, labels) in enumerate(by_run.items(), 1):
        click.echo(f"{number} of {len(by_run)}: {directory}")
        run, labels = workspace.run_at(directory), [*dict.fromkeys(labels)]
        if run.outcome() is not State.FINISHED:
            click.echo(f"not finished: {directory}", err=True)
            continue
        try:
            paths = _of_run(run.path, [tasks[label][0] for label in labels], workspace, device)
        except FedshiftError as error:
            errors.append(str(error))
            continue
        files |= {(directory, label): path for label, path in zip(labels, paths, strict=True)}
    for label, (task, uses) in tasks.items():
        results = [(use, files[use.directory, label]) for use in uses if (use.directory, label) in files]
        path = gather(workspace, experiment, label, task, results)
        click.echo(f"{label}: {len(results)} of {len(uses)} runs: {path}")
    for text in dict.fromkeys(errors):
        click.echo(f"error: {text}", err=True)
    if errors:
        sys.exit(1)


def _of_run(run: Path, tasks: list[Task], workspace: Workspace, device: torch.device) -> list[Path]:
    """Compute tasks of one finished run, and print a line of each result."""
    from fedshift.common.registry import get
    from fedshift.evaluations.base import read
    from fedshift.training.evaluate import evaluate

    _divide(RunDirectory(run), workspace)
    paths = evaluate(workspace, run, tasks, device)
    for task, path in zip(tasks, paths, strict=True):
        click.echo(f"{task.evaluation}: {get('evaluations', task.evaluation).line(read(path)[0])}\n{path}")
    return paths


def _divide(run: RunDirectory, workspace: Workspace) -> None:
    """Make the partition that a finished run lacks, where its images are here."""
    from fedshift.spec import parse
    from fedshift.training.provide import divide

    if (summary := run.summary()) is None:
        return
    spec = parse(summary["spec"], str(run.summary_file))
    lacks = not workspace.partition(spec.partition_name).is_file()
    if lacks and workspace.prepared(spec.data.prepared_name).is_dir():
        divide(workspace, spec)
