"""`fedshift evaluate`: compute from the kept weights of finished runs what needs weights or images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml

from fedshift.cli._planned import device_option
from fedshift.cli.plan import request, rerun_option
from fedshift.errors import FedshiftError
from fedshift.experiments.load import available
from fedshift.experiments.task import KEPT, Images, Task
from fedshift.files import canonical_json
from fedshift.rundir import State
from fedshift.workspace import Workspace

if TYPE_CHECKING:
    import torch

    from fedshift.analysis.collect import Use
    from fedshift.experiments.schema import Experiment

Wanted = dict[str, "tuple[Task, list[Use]]"]  # by the name of its files


@click.command
@click.argument("subject", metavar="EXPERIMENT|DIGEST")
@click.argument("evaluation", required=False)
@click.option(
    "--plan",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="FEDSHIFT_PLAN",
    help="Of an experiment: the runs of this plan.",
)
@click.option("--param", "chosen", multiple=True, metavar="KEY=VALUE", help="A parameter of EVALUATION.")
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
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="CPU threads.")
@rerun_option
@click.pass_obj
def command(
    workspace: Workspace,
    subject: str,
    evaluation: str | None,
    plan: Path | None,
    chosen: tuple[str, ...],
    selection: str | None,
    full_domain: bool,
    device: str,
    threads: int,
    rerun: str | None,
) -> None:
    """Compute EVALUATION (`fedshift list evaluations`) of every finished run of an experiment, or of the
    finished run DIGEST (a prefix will do). Without EVALUATION: all that the experiment's `evaluations` and
    `adapt` ask for.

    What has been computed is not computed again. Runs that are not finished are named. Writes into the runs'
    directories; what is made of an experiment is gathered in results/metrics/<experiment>.evaluated/.
    """
    import torch

    from fedshift.analysis.collect import planned
    from fedshift.experiments.load import load
    from fedshift.training.device import device as of
    from fedshift.training.device import require

    torch.set_num_threads(threads)
    require(there := of(device))
    if evaluation is None and (chosen or selection or full_domain):
        cure = (
            "Name an EVALUATION. What an experiment asks for stands in its file: docs/add-an-evaluation.md."
        )
        raise FedshiftError(
            "fedshift evaluate", "--param, --select, --full-domain are of one evaluation", cure
        )
    images: Images = "full_domain" if full_domain else "tested"
    if subject in available(workspace):
        experiment = load(workspace, subject)
        uses = planned(workspace, experiment, plan, request(workspace, (subject,), rerun=rerun).rerun)
        if evaluation is None:
            wanted = _asked(workspace, experiment, uses, plan)
        else:
            wanted = _named(workspace, experiment, uses, evaluation, _params(chosen), selection, images)
        _experiment(workspace, experiment, wanted, there)
    elif evaluation is not None:
        task = Task(evaluation, _params(chosen), selection or "best_first", images)
        _one(_run(workspace, subject), [task], workspace, there)
    else:
        cure = "See: fedshift list experiments. Of a run, name an EVALUATION, too."
        raise FedshiftError(workspace.experiments, f"there is no experiment '{subject}'", cure)


def _asked(workspace: Workspace, experiment: Experiment, uses: list[Use], plan: Path | None) -> Wanted:
    """What an experiment's file asks for, or its plan. Raises FedshiftError where it is nothing, or where the
    code has changed since it was planned.
    """
    from fedshift.experiments.expand import evaluations
    from fedshift.planning import planfile

    if plan is None:
        found = [*evaluations(workspace, experiment).items()]
        texts = {label: canonical_json(task.declared()) for label, task in found}
    else:
        planned = (one for one in planfile.evaluations(plan) if one.experiment == experiment.name)
        texts = {one.label: one.task for one in planned}
    runs = [use for use in uses if not use.adaptation]
    by_label = {label: (text, runs) for label, text in texts.items()}
    for use in uses:
        if use.adaptation:
            by_label.setdefault(use.label, (use.adaptation, []))[1].append(use)
    if not by_label:
        cure = "Say what by `evaluations` or `adapt`, or name an EVALUATION: docs/add-an-evaluation.md."
        raise FedshiftError(f"experiments/{experiment.name}.yaml", "evaluates nothing", cure)
    wanted: Wanted = {}
    for label, (text, of) in by_label.items():
        task = Task(**json.loads(text)["task"])
        if canonical_json(task.declared()) != text:
            what, cure = "the code has changed since this was planned", "Run snakemake again: it plans anew."
            raise FedshiftError(f"evaluation {task.evaluation}", what, cure)
        wanted[label] = task, of
    return wanted


def _named(
    workspace: Workspace, experiment: Experiment, uses: list[Use], name: str, params: dict[str, object],
    selection: str | None, images: Images,
) -> Wanted:  # fmt: skip
    """One evaluation of an experiment's runs that the caller names."""
    from fedshift.experiments.expand import evaluations

    one = experiment.model_copy(update={"evaluations": [{name: params}]})
    ((label, task),) = evaluations(workspace, one).items()
    task = Task(name, params, selection or task.selection, images)
    label = "-".join([label, *([selection] if selection else []), *([images] if images != "tested" else [])])
    return {label: (task, [use for use in uses if not use.adaptation])}


def _experiment(workspace: Workspace, experiment: Experiment, wanted: Wanted, device: torch.device) -> None:
    """Compute what is wanted of every finished run, a run at a time, and gather it."""
    from fedshift.analysis.evaluated import gather

    tasks: dict[str, list[str]] = {}
    for label, (_, uses) in wanted.items():
        for use in uses:
            tasks.setdefault(use.directory, []).append(label)
    made: dict[tuple[str, str], Path] = {}
    for number, (directory, labels) in enumerate(tasks.items(), 1):
        click.echo(f"{number} of {len(tasks)}: {directory}")
        run, labels = workspace.run_at(directory), [*dict.fromkeys(labels)]
        if run.outcome() is State.FINISHED:
            paths = _one(run.path, [wanted[label][0] for label in labels], workspace, device)
            made |= {(directory, label): path for label, path in zip(labels, paths, strict=True)}
        else:
            click.echo(f"not finished: {directory}", err=True)
    for label, (task, uses) in wanted.items():
        results = [(use, made[use.directory, label]) for use in uses if (use.directory, label) in made]
        path = gather(workspace, experiment, label, task, results)
        click.echo(f"{label}: {len(results)} of {len(uses)} runs: {path}")


def _one(run: Path, tasks: list[Task], workspace: Workspace, device: torch.device) -> list[Path]:
    """Compute tasks of one finished run, and say what came out."""
    from fedshift.evaluations.base import read
    from fedshift.registry import get
    from fedshift.training.evaluate import evaluate

    paths = evaluate(workspace, run, tasks, device)
    for task, path in zip(tasks, paths, strict=True):
        click.echo(f"{task.evaluation}: {get('evaluations', task.evaluation).line(read(path)[0])}\n{path}")
    return paths


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
            workspace.results,
            f"no finished run is called '{digest}', nor an experiment",
            "See: fedshift status --runs, fedshift list experiments.",
        )
    if len(matching) > 1:
        names = ", ".join(path.name for path in matching)
        raise FedshiftError(
            workspace.results, f"'{digest}' begins several finished runs", f"One of: {names}."
        )
    return matching[0]
