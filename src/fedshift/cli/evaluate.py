"""`fedshift evaluate`: compute evaluations of finished runs from their saved weights and images."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedshift.analysis.collect import Use, planned
from fedshift.analysis.evaluated import gather
from fedshift.cli._options import (
    complete,
    device_option,
    experiments,
    parsed,
    plan_option,
    threads_option,
    unchanged,
)
from fedshift.common.errors import FedshiftError
from fedshift.common.files import canonical_json
from fedshift.common.registry import get
from fedshift.experiments.expand import evaluations
from fedshift.experiments.load import available, load
from fedshift.experiments.schema import Experiment
from fedshift.experiments.task import KEPT, Images, Task, read_result
from fedshift.planning import planfile
from fedshift.planning.cluster import acquit, blaming
from fedshift.storage.rundir import RunDirectory, State
from fedshift.storage.workspace import Workspace

if TYPE_CHECKING:
    import torch

NAMED = 10  # maximum of unfinished runs to name; more are counted
Tasks = dict[str, tuple[Task, list[Use]]]  # by the names of their files, each with its runs


@click.command(epilog="Examples: fedshift evaluate 3c3d32cc scores; fedshift evaluate demo confusion")
@click.argument("subject", metavar="EXPERIMENT|DIGEST", shell_complete=complete(experiments))
@click.argument("evaluation", required=False)
@plan_option
@click.option("--param", "params", multiple=True, metavar="KEY=VALUE", help="A parameter of EVALUATION.")
@click.option(
    "--select",
    "selection",
    type=click.Choice(KEPT),
    help="Which saved round.  [default: the protocol's; for one run best_first]",
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
    """Compute EVALUATION (`fedshift list evaluations`) from the saved weights of finished runs: of an
    experiment, or of one RUN (a run id or its beginning). Without EVALUATION: all that the experiment
    requests.

    Existing results are reused. A run that cannot be evaluated does not stop the others; the exit status is
    then 1. Results of an experiment are collected in results/metrics/EXPERIMENT.evaluated/.
    """
    import torch

    from fedshift.api.runs import finished
    from fedshift.training.device import device as device_of
    from fedshift.training.device import require

    torch.set_num_threads(threads)
    with blaming(workspace, subject):
        require(torch_device := device_of(device))
    if evaluation is None and (params or selection or full_domain):
        what = "--param, --select, --full-domain are of one evaluation"
        cure = "Name an EVALUATION. Those of an experiment are in its file: docs/extend.md."
        raise FedshiftError("fedshift evaluate", what, cure)
    images: Images = "full_domain" if full_domain else "tested"
    values = parsed(params, "--param")
    if subject in available(workspace):
        experiment = load(workspace, subject)
        uses = planned(workspace, experiment, plan)
        if evaluation is not None:
            tasks = _named(workspace, experiment, uses, evaluation, values, selection, images)
            _of_experiment(workspace, experiment, tasks, torch_device)
            return
        tasks = _declared(workspace, experiment, uses, plan)
        with blaming(workspace, subject):
            _of_experiment(workspace, experiment, tasks, torch_device)
        acquit(workspace)
    elif evaluation is not None:
        task = Task(evaluation, values, selection or "best_first", images)
        _of_run(finished(workspace, subject), [task], workspace, torch_device)
    else:
        cure = "See: fedshift list experiments. Of a run, name an EVALUATION, too."
        raise FedshiftError(workspace.experiments, f"there is no experiment '{subject}'", cure)


def _declared(workspace: Workspace, experiment: Experiment, uses: list[Use], plan: Path | None) -> Tasks:
    """The evaluations and adaptations of an experiment's file, or of a plan."""
    if plan is None:
        tasks = evaluations(workspace, experiment)
        texts = {label: canonical_json(task.declared()) for label, task in tasks.items()}
    else:
        entries = (entry for entry in planfile.load(plan).evaluations if entry.experiment == experiment.name)
        texts = {entry.label: entry.task for entry in entries}
    runs = _trained(uses)
    by_label = {label: (text, runs) for label, text in texts.items()}
    for use in uses:
        if use.adaptation:
            by_label.setdefault(use.label, (use.adaptation, []))[1].append(use)
    if not by_label:
        cure = "Say what by `evaluations` or `adapt`, or name an EVALUATION: docs/extend.md."
        raise FedshiftError(f"experiments/{experiment.name}.yaml", "evaluates nothing", cure)
    return {label: (_task(text), of) for label, (text, of) in by_label.items()}


def _named(
    workspace: Workspace, experiment: Experiment, uses: list[Use], name: str, params: dict[str, object],
    selection: str | None, images: Images,
) -> Tasks:  # fmt: skip
    """The evaluation given on the command line, for an experiment's runs."""
    alone = experiment.model_copy(update={"evaluations": [{name: params}]})
    ((label, task),) = evaluations(workspace, alone).items()
    task = Task(name, params, selection or task.selection, images)
    task.declared()  # raises an error for an unknown parameter
    label = "-".join([label, *([selection] if selection else []), *([images] if images != "tested" else [])])
    return {label: (task, _trained(uses))}


def _trained(uses: list[Use]) -> list[Use]:
    return [use for use in uses if not use.adaptation]


def _task(text: str) -> Task:
    """The task of a plan (JSON, with its code). Raises FedshiftError if the code has changed since."""
    task = Task(**json.loads(text)["task"])
    unchanged(f"evaluation {task.evaluation}", text, canonical_json(task.declared()))
    return task


def _of_experiment(workspace: Workspace, experiment: Experiment, tasks: Tasks, device: torch.device) -> None:
    """Compute tasks for every finished run and gather the results; exit with 1 if some are impossible."""
    by_run: dict[str, list[str]] = {}  # directory -> labels
    for label, (_, uses) in tasks.items():
        for use in uses:
            by_run.setdefault(use.directory, []).append(label)
    files: dict[tuple[str, str], Path] = {}
    errors: list[str] = []
    runs = {directory: workspace.run_at(directory) for directory in by_run}
    finished = {directory: None for directory, run in runs.items() if run.outcome() is State.FINISHED}
    left = [directory for directory in runs if directory not in finished]
    for directory in left[:NAMED]:
        click.echo(f"not finished: {directory}", err=True)
    if more := left[NAMED:]:
        click.echo(f"and {len(more)} more: fedshift status --runs {experiment.name}", err=True)
    for number, directory in enumerate(finished, 1):
        click.echo(f"{number} of {len(finished)}: {directory}")
        run, labels = runs[directory], [*dict.fromkeys(by_run[directory])]
        try:
            paths = _of_run(run, [tasks[label][0] for label in labels], workspace, device)
        except FedshiftError as error:
            errors.append(str(error))
            continue
        files |= {(directory, label): path for label, path in zip(labels, paths, strict=True)}
    for label, (task, uses) in tasks.items():
        results = [(use, files[use.directory, label]) for use in uses if (use.directory, label) in files]
        known = workspace.evaluated(experiment.name) / f"{label}.parquet"
        if not results and known.is_file():
            click.echo(f"{label}: 0 of {len(uses)} runs; {known} stays as it is", err=True)
            continue
        path = gather(workspace, experiment, label, task, results)
        click.echo(f"{label}: {len(results)} of {len(uses)} runs: {path}")
    for text in dict.fromkeys(errors):
        click.echo(f"error: {text}", err=True)
    if errors:
        sys.exit(1)


def _of_run(run: RunDirectory, tasks: list[Task], workspace: Workspace, device: torch.device) -> list[Path]:
    """Compute tasks for one finished run, whose partition is made if possible; print a line on each."""
    from fedshift.spec import parse
    from fedshift.training.evaluate import evaluate
    from fedshift.training.provide import divide

    if summary := run.summary():
        spec = parse(summary["spec"], str(run.summary_file))
        absent = not workspace.partition(spec.partition_name).is_file()
        if absent and workspace.prepared(spec.data.prepared_name).is_dir():
            divide(workspace, spec)
    paths = evaluate(workspace, run.path, tasks, device)
    for task, path in zip(tasks, paths, strict=True):
        line = get("evaluations", task.evaluation).line(read_result(path)[0])
        click.echo(f"{task.evaluation}: {line}\n{path}")
    return paths
